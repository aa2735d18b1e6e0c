"""Terms over HTTP: a job of each kind, its model, predictions and receipt, and refusals before a charge."""

from typing import Any

import numpy as np
import pytest

from purse.model import Model
from tests.support.service import SPEC, Service

COLUMNS: list[dict[str, Any]] = [
    {"name": "age", "type": "number", "lower": 20, "upper": 80},
    {"name": "sex", "type": "category", "categories": ["M", "F"]},
    {"name": "ward", "type": "category", "categories": ["A", "B", "C"]},
    {"name": "stay", "type": "number", "lower": 0, "upper": 40},
    {"name": "again", "type": "category", "categories": ["no", "yes"]},
]
ROWS = 6000
AGE, SEX, WARD = (
    {"column": "age"},
    {"column": "sex"},
    {"column": "ward", "merge": [{"level": "rest", "categories": ["B", "C"]}]},
)
CURVE = {"column": "age", "center": 50, "power": 2}
TERMS = [{"factors": own} for own in ([AGE], [CURVE], [SEX], [WARD], [WARD, SEX])]
TRUTH = {"age": 0.1, "(age - 50)^2": -0.01, "sex = F": 2.0, "ward = rest": -1.0, "ward:sex = rest:F": 3.0}


def clinic() -> bytes:
    """A file whose stays follow the true coefficients."""
    rng = np.random.default_rng(3)
    age, female, ward = rng.uniform(20, 80, ROWS), rng.integers(0, 2, ROWS), rng.integers(0, 3, ROWS)
    other_wards = ward > 0
    parts = np.column_stack((age, (age - 50) ** 2, female, other_wards, other_wards * female))
    stay = 15 + parts @ list(TRUTH.values()) + rng.normal(0, 2, ROWS)
    again = rng.random(ROWS) < 1 / (1 + np.exp(-(stay - 20) / 4))
    lines = (
        f"{a:.3f},{'MF'[f]},{'ABC'[w]},{s:.3f},{('no', 'yes')[int(r)]}"
        for a, f, w, s, r in zip(age, female, ward, np.clip(stay, 0, 40), again, strict=True)
    )
    return ("age,sex,ward,stay,again\n" + "\n".join(lines) + "\n").encode()


@pytest.fixture(scope="module")
def hospital(shared: Service) -> str:
    spec = SPEC | {"name": "terms", "columns": COLUMNS, "budget": {"epsilon": 60.0, "delta": 1e-6}, "holdout": 0.2}
    return str(shared.registered(spec, clinic())["id"])


def body(dataset: str, **changes: Any) -> dict[str, Any]:
    return {"dataset": dataset, "target": "stay", "terms": TERMS, "privacy": {"epsilon": 8.0}} | changes


def released(service: Service, request: dict[str, Any], path: str = "jobs") -> dict[str, Any]:
    """Return the model document of a request, whose receipt is valid."""
    job = service.done(request, path)["id"]
    service.receipt(job)
    document: dict[str, Any] = service.read(f"jobs/{job}/model")
    return document


@pytest.mark.slow
def test_a_table_of_terms_has_the_true_coefficients(shared: Service, hospital: str) -> None:
    document = released(shared, body(hospital, inference=True))
    rows = {row["term"]: row for row in document["table"]}
    resolved_terms = [term for term in TRUTH if rows[term]["resolved"]]  # almost always all, but noise decides
    for term in resolved_terms:
        assert abs(rows[term]["estimate"] - TRUTH[term]) < 5 * rows[term]["std_error"]
    assert rows["ward:sex = rest:F"]["reference"] == "(reference)"
    model = Model.model_validate(document)
    (fitted,) = model.predict([{"age": 60, "sex": "F", "ward": "C"}])
    terms = {"age": 60, "(age - 50)^2": 100, "sex = F": 1, "ward = rest": 1, "ward:sex = rest:F": 1, "intercept": 1}
    if all(rows[term]["resolved"] for term in terms):
        assert fitted == pytest.approx(sum(rows[term]["estimate"] * value for term, value in terms.items()))


@pytest.mark.slow
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"target": "again", "method": {"name": "objective_perturbation"}, "preparation": {"name": "declared"}},
        {"target": "again", "method": {"name": "dp_svrg"}},
        {"target": "ward", "terms": TERMS[:3]},
    ],
    ids=["number", "declared coding", "two classes", "softmax"],
)
def test_each_kind_of_job_takes_terms(shared: Service, hospital: str, changes: dict[str, Any]) -> None:
    document = released(shared, body(hospital, **changes))
    model = Model.model_validate(document)
    assert [column.name for column in model.row_columns] == (["age", "sex", "ward"][: 2 if "terms" in changes else 3])
    assert len(model.predict([{"age": 60, "sex": "F", "ward": "C"}])) == 1
    shared.done({"privacy": {"epsilon": 1.0}}, f"models/{document['job']}/evaluations")


@pytest.mark.slow
def test_a_tuning_and_a_forecast_take_terms(shared: Service, hospital: str) -> None:
    tuning = body(hospital, target="again", candidates=[{}, {"method": {"name": "dp_gd"}}])
    assert len(released(shared, tuning, "tunings")["features"]) == len(TERMS)
    forecast = shared.call("analyst", "POST", "/v1/forecasts", json=body(hospital, privacy={"epsilons": [1.0]}))
    assert forecast.status_code == 200, forecast.text


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"features": ["age"]}, "body.features"),
        ({"terms": []}, "body.terms"),
        ({"terms": [{"factors": [{"column": "stay"}]}]}, "body.terms"),
        ({"terms": [{"factors": [{"column": "gone"}]}]}, "body.terms.0.factors.0.column"),
        ({"terms": [{"factors": [{"column": "age", "knots": [90]}]}]}, "body.terms.0.factors.0.knots"),
        ({"terms": [{"factors": [{"column": "age", "power": 0}]}]}, "body.terms.0.factors.0.power"),
        ({"terms": [{"factors": [{"column": "sex", "power": 2}]}]}, "body.terms.0.factors.0"),
        ({"preparation": {"name": "profile"}}, "body.preparation"),
        ({"inference": True, "reference": {"sex": "F"}}, "body.reference"),
    ],
    ids=str,
)
def test_terms_that_do_not_fit_are_refused_before_a_charge(
    shared: Service, hospital: str, changes: dict[str, Any], field: str
) -> None:
    for path in ("/v1/quotes", "/v1/jobs"):
        answer = shared.call("analyst", "POST", path, json=body(hospital, **changes))
        assert answer.status_code == 422, answer.text
        assert [violation["where"] for violation in answer.json()["violations"]] == [field]
