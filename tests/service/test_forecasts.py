"""Twins and forecasts over HTTP: from public facts alone."""

import csv
import sys
from typing import Any

import pytest

from tests.support.service import Service


@pytest.fixture(scope="module")
def dataset(shared: Service) -> str:
    return shared.dataset()


def _twin(service: Service, dataset: str, **asked: Any) -> list[dict[str, str]]:
    answer = service.call("analyst", "GET", f"/v1/datasets/{dataset}/twin", params=asked)
    assert answer.status_code == 200, answer.text
    assert answer.headers["Content-Type"] == "text/csv; charset=utf-8"
    return list(csv.DictReader(answer.text.splitlines()))


def test_a_twin_is_of_the_columns_declared_and_a_function_of_its_number(shared: Service, dataset: str) -> None:
    rows = _twin(shared, dataset, rows=50, number=4)
    assert len(rows) == 50
    assert set(rows[0]) == {"age", "sex", "income"}
    assert all(
        0 <= float(row["age"]) <= 100 and row["sex"] in "fm" and row["income"] in ("low", "high") for row in rows
    )
    assert rows == _twin(shared, dataset, rows=50, number=4)
    assert rows[:10] == _twin(shared, dataset, rows=10, number=4)
    assert rows != _twin(shared, dataset, rows=50)


@pytest.mark.slow
def test_a_twin_follows_the_released_profile(shared: Service) -> None:
    dataset = shared.dataset()
    asked = f"/v1/datasets/{dataset}/twin"
    refused = shared.call("analyst", "GET", asked, params={"source": "profile"})
    assert refused.json()["violations"] == [
        {"where": "query.source", "what": "cannot be had: no profile was released of this dataset yet"}
    ]
    body = {"dataset": dataset, "method": {"name": "profile"}, "privacy": {"epsilon": 2.5}}
    job = shared.call("analyst", "POST", "/v1/statistics", json=body).json()
    assert shared.finished(job["id"])["state"] == "done"
    rows = _twin(shared, dataset, rows=400)
    told = shared.call("analyst", "GET", f"/v1/jobs/{job['id']}/profile").json()
    old = sum(float(row["age"]) > 80 for row in rows)  # of 20 to 79 in the data; the rest is the counts' noise
    share = sum(
        max(0.0, c) for c, e in zip(told["columns"][0]["counts"], told["columns"][0]["edges"], strict=False) if e >= 80
    )
    share /= sum(max(0.0, c) for c in told["columns"][0]["counts"])
    assert abs(old / 400 - share) < 0.1
    assert _twin(shared, dataset, rows=400) == _twin(shared, dataset, rows=400, source="profile")
    assert _twin(shared, dataset, rows=400) != _twin(shared, dataset, rows=400, source="declaration")


@pytest.mark.parametrize("asked", [{"rows": 0}, {"rows": 100_001}, {"number": -1}, {"source": "data"}, {"rwos": 5}])
def test_what_is_no_twin_is_refused(shared: Service, dataset: str, asked: dict[str, Any]) -> None:
    answer = shared.call("analyst", "GET", f"/v1/datasets/{dataset}/twin", params=asked)
    assert answer.status_code == 422


FORECAST: dict[str, Any] = {
    "target": "income",
    "method": {"name": "dp_gd", "steps": 20},
    "privacy": {"epsilons": [2.0, 0.1]},
    "runs": 3,
    "signal": 0.6,
    "wanted": 0.55,
}


def _forecast(service: Service, dataset: str, **changes: Any) -> dict[str, Any]:
    answer = service.call("auditor", "POST", "/v1/forecasts", json={"dataset": dataset, **FORECAST, **changes})
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


@pytest.mark.slow
def test_a_forecast_says_what_to_expect_and_what_it_rests_on(shared: Service, dataset: str) -> None:
    found = _forecast(shared, dataset)
    assert [each["epsilon"] for each in found["at"]] == [0.1, 2.0]
    assert found["measure"] == "accuracy"
    assert found["twin_records"] == found["records"]
    spread = found["at"][1]["score"]
    assert 0 <= spread["low"] <= spread["median"] <= spread["high"] <= 1
    assert abs(found["constant"] - 0.5) < 0.05
    assert abs(found["optimum"] - (0.5 + 0.6 * 0.5)) < 0.05, "200 rows and two columns find nearly all of the signal"
    assert "declaration alone" in found["rests_on"][0]
    assert "strength 0.6 was planted" in found["rests_on"][1]
    assert found["wanted"]["score"] == 0.55
    number = _forecast(shared, dataset, target="age", wanted=None, loss={"name": "squared"})
    assert number["measure"] == "r2"
    assert number["at"][1]["rmse"]["median"] > 0


_opened: list[str] = []
_watching: list[bool] = []
sys.addaudithook(lambda event, given: _opened.append(str(given[0])) if _watching and event == "open" else None)


@pytest.mark.slow
def test_no_file_of_the_data_is_opened_and_nothing_is_charged(service: Service) -> None:
    dataset = service.dataset()
    before = service.durable(dataset)
    _watching.append(True)
    try:
        _twin(service, dataset, rows=10)
        _forecast(service, dataset)
    finally:
        _watching.clear()
    kept = list(service.home.rglob("*.npy"))
    assert kept, "the data are there to be opened"
    assert not [name for name in _opened if name.endswith(".npy") or "meta.json" in name]
    assert service.durable(dataset) == before
    for path in kept:
        path.unlink()
    assert _forecast(service, dataset, twin=1)["twin"] == 1, "nor is any needed"


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"privacy": {"epsilons": []}}, "invalid_request"),
        ({"privacy": {"epsilons": [0.0]}}, "out_of_range"),
        ({"privacy": {"delta": 1e-3}}, "out_of_range"),
        ({"signal": 1.0}, "out_of_range"),
        ({"runs": 51}, "out_of_range"),
        ({"source": "profile"}, "invalid_request"),
        ({"target": "wealth"}, "invalid_request"),
        ({"loss": {"name": "squared"}}, "unsupported_combination"),
        ({"method": {"name": "dp_gd", "steps": 10_000}, "runs": 50}, "out_of_range"),
    ],
)
def test_what_cannot_be_forecast_is_refused(shared: Service, dataset: str, changes: dict[str, Any], code: str) -> None:
    answer = shared.call("analyst", "POST", "/v1/forecasts", json={"dataset": dataset, **FORECAST, **changes})
    assert (answer.status_code, answer.json()["code"]) == (422, code)


def test_twins_are_made_few_at_once(shared: Service, dataset: str) -> None:
    taken = shared.app.state.services.twins
    who = shared.call("steward", "GET", "/v1/tokens").json()["items"]
    owner = next(token["identity"] for token in who if token["name"] == "the analyst")
    with taken.taken(owner), taken.taken(owner):
        refused = shared.call("analyst", "GET", f"/v1/datasets/{dataset}/twin")
    assert refused.status_code == 429
    assert refused.headers["Retry-After"] == "5"
