"""A dataset whose budget is pure, over HTTP: delta is 0 from the upload to the receipt that anyone recomputes."""

from typing import Any

import pytest

from accounting.records.receipt import recompute, verify
from purse.prediction import predict
from purse.wire.models import Model
from tests.support.service import JOB, Service
from tests.support.world import check_books

PURE = {"epsilon": 1.0, "delta": 0.0, "filter": "pure"}
STRONG = {"regularizer": {"name": "l2", "strength": 0.1}}
MEDIAN: dict[str, Any] = {
    "target": "age",
    "features": [],
    "loss": {"name": "absolute"},
    "regularizer": {"name": "none"},
    "domain": {"name": "linf_ball", "radius": 1.0},
    "method": {"name": "inverse_sensitivity"},
}


@pytest.mark.slow
@pytest.mark.parametrize("method", [{"name": "output_perturbation"}, {"name": "auto"}])
def test_two_halves_use_up_a_pure_budget(shared: Service, method: dict[str, Any]) -> None:
    dataset = shared.dataset(budget=PURE)
    request = JOB | STRONG | {"dataset": dataset, "method": method}
    for number in (1, 2):
        job = shared.done(request)
        quote = job["quote"]
        assert (quote["delta"], quote["accountant"], quote["fits"]) == (0.0, "pure", True)
        assert quote["queries"][0]["mechanism"] == {"name": "laplace"}
        document = shared.receipt(job["id"], "auditor")
        receipt = document["receipt"]
        assert receipt["delta"] == 0.0
        assert receipt["event"]["type"] == "LaplaceDpEvent"
        assert 0.499 < recompute(receipt).epsilon <= receipt["epsilon"] <= 0.5
        assert verify(document, shared.app.state.services.keys.jwks()).holds
        budget = shared.budget(dataset)
        assert budget["spent"]["epsilon"] == pytest.approx(0.5 * number, rel=1e-6)
        assert budget["remaining"]["epsilon"] == pytest.approx(1 - 0.5 * number, abs=1e-6)
        assert budget["remaining"]["delta"] == 0.0
    refused = shared.call("analyst", "POST", "/v1/jobs", json=request | {"privacy": {"epsilon": 0.001}})
    assert refused.status_code == 409
    assert refused.json()["code"] == "budget_exhausted"
    check_books(shared.database, shared.app.state.services.keys.jwks())


@pytest.mark.slow
def test_a_median_is_a_model_without_features(shared: Service) -> None:
    dataset = shared.dataset(budget=PURE)
    job = shared.done(MEDIAN | {"dataset": dataset, "privacy": {"epsilon": 1.0}})
    assert job["quote"]["dimension"] == 1
    receipt = shared.receipt(job["id"])["receipt"]
    assert receipt["event"]["type"] == "ExponentialMechanismDpEvent"
    assert receipt["event"]["epsilon"] <= 1.0
    text = shared.call("analyst", "GET", f"/v1/jobs/{job['id']}/model").text
    model = Model.model_validate_json(text)
    assert (model.coefficients, model.features) == ([], [])
    [age] = predict(model, [{}])
    assert 40 < age < 60  # ages are uniform on 20 to 79


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["rdp", "gdp"])
@pytest.mark.parametrize("method", ["output_perturbation", "inverse_sensitivity"])
def test_delta_zero_under_the_other_filters(shared: Service, kind: str, method: str) -> None:
    dataset = shared.dataset(budget={"epsilon": 3.0, "delta": 1e-6, "filter": kind})
    own = MEDIAN if method == "inverse_sensitivity" else STRONG | {"method": {"name": method}}
    job = shared.done(JOB | own | {"dataset": dataset, "privacy": {"epsilon": 0.5, "delta": 0.0}})
    receipt = shared.receipt(job["id"])["receipt"]
    assert (receipt["delta"], receipt["accountant"]) == (0.0, "pure")
