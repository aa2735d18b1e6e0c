"""Invalid input gets a clear problem without the value, and changes neither budget nor ledger."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
import sqlalchemy as sa
from httpx import Response

from tests.support.service import JOB, SPEC, Service, people

# Each text stands where a JSON document has a number. tests/unit/app/test_wire_body.py tries many more.
VALUES = [
    *(("epsilon", text, "invalid_request") for text in ("NaN", "-Infinity", "1_0", '"0.5"', "true", "null", "{}")),
    *(("delta", text, "invalid_request") for text in ("NaN", "+1", '"0"', "false", "[0.5]")),
    *(("epsilon", text, "out_of_range") for text in ("1e999", "-1", "0", "5e-324", "0.000999", "100.001")),
    *(("delta", text, "out_of_range") for text in ("-1e999", "-5e-324", "9e-13", "0.0101", "1")),
]


@pytest.fixture(scope="module")
def dataset(shared: Service) -> str:
    return shared.dataset()


@pytest.fixture(scope="module")
def state_before(shared: Service, dataset: str) -> Any:
    return shared.durable(dataset)


@pytest.fixture
def unchanged(shared: Service, dataset: str, state_before: Any) -> Iterator[None]:
    """No request of these tests changes the durable state. (test_ledger_routes.py tests that a change is visible.)"""
    yield
    assert shared.durable(dataset) == state_before


pytestmark = pytest.mark.usefixtures("unchanged")


def _problem(response: Response, codes: set[str], status: int = 422) -> None:
    assert response.status_code == status, response.text
    assert response.headers["Content-Type"] == "application/problem+json"
    problem = response.json()
    assert problem["code"] in codes, response.text
    assert problem["detail"]
    assert "4711" not in response.text


def _replaced(document: Any, mark: str, text: str) -> str:
    """The document as JSON, with raw text where the mark stands."""
    encoded = json.dumps(document)
    assert encoded.count(f'"{mark}"') == 1
    return encoded.replace(f'"{mark}"', text)


def _post(service: Service, path: str, text: str, **headers: str) -> Response:
    all_headers = {"Content-Type": "application/json"} | headers
    return service.call("analyst", "POST", path, content=text.encode(), headers=all_headers)


PATHS = ["/v1/quotes", "/v1/jobs"]
PRICED = pytest.mark.parametrize("path", PATHS)


@pytest.mark.parametrize(("field", "text", "code"), VALUES)
def test_epsilon_and_delta_of_a_job_and_of_a_budget(
    shared: Service, dataset: str, field: str, text: str, code: str
) -> None:
    body = JOB | {"dataset": dataset, "privacy": {"epsilon": 0.5, "delta": 1e-7} | {field: "mark"}}
    for path in PATHS:
        _problem(_post(shared, path, _replaced(body, "mark", text)), {code})
    spec = SPEC | {"name": "guarded", "budget": {"epsilon": 3.0, "delta": 1e-6} | {field: "mark"}}
    _problem(shared.upload(_replaced(spec, "mark", text)), {code})


@PRICED
def test_delta_above_the_datasets_or_zero_for_gaussian_noise_is_refused(
    shared: Service, dataset: str, path: str
) -> None:
    for delta, code in ((1e-5, "out_of_range"), (0.0, "unsupported_combination")):
        gaussian = {"method": {"name": "dp_gd"}}
        body = JOB | gaussian | {"dataset": dataset, "privacy": {"epsilon": 0.5, "delta": delta}}
        response = shared.call("analyst", "POST", path, json=body)
        _problem(response, {code})


@pytest.mark.parametrize("kind", ["rdp", "gdp", "pure"])
def test_delta_must_suit_the_filter(shared: Service, kind: str) -> None:
    delta = 1e-6 if kind == "pure" else 0.0
    spec = SPEC | {"name": "guarded", "budget": {"epsilon": 1.0, "delta": delta, "filter": kind}}
    _problem(shared.upload(spec), {"out_of_range"})


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("row_norm", 0),
        ("row_norm", 1e300),
        ("regularizer", {"name": "l2", "strength": "0.1"}),
        ("regularizer", {"name": "l2", "strength": -1}),
        ("domain", {"name": "l2_ball", "radius": 0}),
        ("method", {"name": "dp_gd", "steps": 0}),
        ("method", {"name": "dp_svrg", "batch": 201_000}),
        ("method", {"name": "dp_svrg", "batch": 10**300}),
    ],
)
def test_other_numbers_out_of_range(shared: Service, dataset: str, field: str, value: Any) -> None:
    for path in PATHS:
        response = shared.call("analyst", "POST", path, json=JOB | {"dataset": dataset, field: value})
        _problem(response, {"invalid_request", "out_of_range", "unsupported_combination"})


@pytest.mark.parametrize(
    "change",
    [
        {"seed": 4711},
        {"method": {"name": "dp_gd", "seed": 4711}},
        {"method": {"name": "auto", "seed": 4711}},
        {"privacy": {"epsilon": 0.5, "seed": 4711}},
        {"loss": {"name": "logistic", "seed": 4711}},
        {"regularizer": {"name": "l2", "strength": 0.1, "seed": 4711}},
        {"domain": {"name": "free", "seed": 4711}},
        {"method": {"name": "canary4711"}},
        {"method": "dp_gd"},
        {"loss": {"name": "canary4711"}},
        {"noise_multiplier": 0.0},
    ],
)
def test_no_seed_and_no_unknown_field(shared: Service, dataset: str, change: Any) -> None:
    for path in PATHS:
        _problem(shared.call("analyst", "POST", path, json=JOB | {"dataset": dataset} | change), {"invalid_request"})


@PRICED
@pytest.mark.parametrize(
    ("change", "where", "suggestion"),
    [
        ({"targett": 4711}, "body.targett", "target"),
        ({"method": {"name": "dp_gd", "stepss": 4711}}, "body.method.dp_gd.stepss", "steps"),
        ({"method": {"name": "counts", "column": ["4711"]}, "columns": []}, "body.target", None),
    ],
)
def test_an_unknown_field_is_named_and_its_value_is_not(
    shared: Service, dataset: str, path: str, change: Any, where: str, suggestion: str | None
) -> None:
    response = shared.call("analyst", "POST", path, json=JOB | {"dataset": dataset} | change)
    _problem(response, {"invalid_request"})
    reasons = {violation["where"]: violation["what"] for violation in response.json()["violations"]}
    assert suggestion is None or f"`{suggestion}`" in reasons[where]


def test_an_unknown_query_parameter_is_named_and_its_value_is_not(shared: Service) -> None:
    params = [("limt", "4711"), ("\x1b[31m" + "x" * 5000, "4711"), ("order", "asc"), ("order", "desc")]
    response = shared.call("analyst", "GET", "/v1/jobs", params=params)
    _problem(response, {"invalid_request"})
    reasons = {violation["where"]: violation["what"] for violation in response.json()["violations"]}
    unknown, strange, twice = reasons
    assert (unknown, twice) == ("query.limt", "query.order")
    assert "`limit`" in reasons[unknown]
    assert (len(strange) < 80, strange.isprintable()) == (True, True)


@PRICED
def test_more_features_than_there_can_be(shared: Service, dataset: str, path: str) -> None:
    body = JOB | {"dataset": dataset, "features": [f"column{i}" for i in range(10_000)]}
    _problem(shared.call("analyst", "POST", path, json=body), {"out_of_range"})


def _columns(count: int) -> list[dict[str, Any]]:
    return [{"name": f"c{i}", "type": "number", "lower": 0, "upper": 1} for i in range(count)]


# More are refused in tests/unit/app/test_sources_csv.py and test_sources_parquet.py.
@pytest.mark.slow
def test_ten_thousand_columns(shared: Service) -> None:
    spec = SPEC | {"name": "guarded", "columns": _columns(10_000)}
    header = ",".join(f"c{i}" for i in range(10_000))
    file = (header + "\n" + ",".join("1" * 10_000) + "\n").encode()
    _problem(shared.upload(spec, file), {"out_of_range"})


@pytest.mark.parametrize(
    "change",
    [
        {"columns": []},
        {"columns": [{"name": "age", "type": "number", "lower": 5, "upper": 5}]},
        {"columns": [{"name": "age", "type": "number", "lower": -1e300, "upper": 1e300}]},
        {"columns": [{"name": "age", "type": "number", "lower": 0, "upper": 5, "default": 9}]},
        {"columns": [{"name": "age", "type": "canary4711"}]},
        {"columns": [{"name": "sex", "type": "category", "categories": []}]},
        {"columns": _columns(1) * 2},
        {"name": ""},
        {"name": "a\nb"},
        {"budget": None},
        {"budget": {"epsilon": 1, "delta": 1e-6, "filter": "canary4711"}},
    ],
)
def test_a_spec_that_declares_nonsense(shared: Service, change: Any) -> None:
    response = shared.upload(SPEC | {"name": "guarded"} | change)
    _problem(response, {"invalid_request", "out_of_range"})


@pytest.mark.parametrize(
    "text",
    [
        '{"name": "guarded", "name": "guarded"}',
        json.dumps(SPEC | {"name": "guarded"}).replace('"upper": 100', '"upper": Infinity'),
        "not JSON 4711",
        "[" * 100_000,
    ],
)
def test_a_spec_that_is_not_strict_json(shared: Service, text: str) -> None:
    _problem(shared.upload(text), {"invalid_request", "out_of_range"})


@pytest.mark.parametrize(("extra", "status", "codes"), [(0, 422, {"invalid_request"}), (1, 413, {"too_large"})])
def test_a_spec_of_four_mebibytes_is_read_and_no_more(
    shared: Service, extra: int, status: int, codes: set[str]
) -> None:
    text = json.dumps(SPEC | {"name": "guarded", "seed": 4711})
    response = shared.upload(text + " " * (4 * 2**20 - len(text) + extra))
    _problem(response, codes, status)
    assert ("4194304 bytes" in response.text) == bool(extra)


def test_the_same_name_and_the_same_file_again(shared: Service, dataset: str) -> None:
    name = shared.call("steward", "GET", f"/v1/datasets/{dataset}").json()["name"]
    _problem(shared.upload(SPEC | {"name": name}, people(1000)), {"name_taken"}, 409)
    with shared.database.read() as connection:
        rows = connection.scalar(sa.text("select rows from datasets where id = :id"), {"id": dataset})
    _problem(shared.upload(SPEC | {"name": "guarded"}, people(int(rows), first=1)), {"duplicate_dataset"}, 409)
