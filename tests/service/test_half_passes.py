"""Half passes over HTTP: jobs, receipts, what a slack of the filter is for; and what auto takes for a rough loss."""

from typing import Any

import pytest

from tests.support.service import SPEC, Service


def _dataset(shared: Service, name: str, filter_: str, slack: float | None = None) -> str:
    columns = [
        {"name": "x", "type": "number", "lower": -1, "upper": 1},
        {"name": "y", "type": "category", "categories": ["low", "high"]},
    ]
    rows = 2000 + sum(map(ord, name))  # no two files alike
    file = "x,y\n" + "\n".join(f"{(i % 21 - 10) / 10},{'high' if i % 21 > 10 else 'low'}" for i in range(rows)) + "\n"
    budget = {"epsilon": 3.0, "delta": 1e-6, "filter": filter_, "slack": slack}
    spec = SPEC | {"name": name, "columns": columns, "budget": budget}
    return str(shared.registered(spec, file.encode())["id"])


def _body(dataset: str, **changes: Any) -> dict[str, Any]:
    return {"dataset": dataset, "target": "y", "loss": {"name": "hinge"}, "privacy": {"epsilon": 2.0}} | changes


@pytest.mark.slow
@pytest.mark.parametrize("form", ["independent", "ordered"])
def test_a_hinge_job_from_quote_to_receipt(shared: Service, form: str) -> None:
    dataset = _dataset(shared, f"halves-{form}", "rdp")
    method = {"name": "noisy_mirror_descent", "form": form, "batch": 20, "passes": 1}
    body = _body(dataset, method=method, preparation={"name": "declared"})
    quote = shared.call("analyst", "POST", "/v1/quotes", json=body).json()
    assert quote["method"]["name"] == "noisy_mirror_descent"
    assert quote["accountant"] == "single_use"
    query = quote["queries"][0]
    assert (query["mechanism"]["name"], query["answers"]) == ("random_allocation", query["mechanism"]["slots"])
    assert quote["fits"], "an empty ledger admits it by its own guarantee"
    job = shared.done(body)
    assert shared.receipt(job["id"])["receipt"]["event"]["type"] == "RandomAllocationDpEvent"
    model = shared.read(f"jobs/{job['id']}/model")
    assert model["coefficients"][0] > 0, "high goes with x"


@pytest.mark.slow
def test_with_a_slack_several_jobs_share_the_dataset(shared: Service) -> None:
    """Two hinge jobs and a logistic one; without the slack the second would not fit."""
    dataset, plain = _dataset(shared, "slack", "rdp", 1e-7), _dataset(shared, "no slack", "rdp")
    small, half_passes = {"epsilon": 0.5}, {"name": "noisy_mirror_descent", "passes": 1}
    for body in (
        _body(dataset, privacy=small, method=half_passes),
        _body(dataset, privacy=small, method=half_passes),
        _body(dataset, loss=None, privacy=small),
    ):
        quote = shared.call("analyst", "POST", "/v1/quotes", json=body).json()
        assert quote["fits"]
        shared.done(body)
    budget = shared.budget(dataset)
    assert 0 < budget["spent"]["epsilon"] < 3
    assert 0 < budget["remaining"]["epsilon"] < 3
    first = shared.submitted(_body(plain, loss=None, privacy=small))
    named = _body(plain, privacy=small, method=half_passes)
    assert not shared.call("analyst", "POST", "/v1/quotes", json=named).json()["fits"]
    assert shared.call("analyst", "POST", "/v1/quotes", json=_body(plain, privacy=small)).json()["fits"], "noisy_sgd"
    shared.finished(first["id"])


@pytest.mark.parametrize(("filter_", "slack"), [("gdp", 1e-7), ("rdp", 6e-7), ("rdp", 0.0), ("rdp", -1e-7)])
def test_an_invalid_slack_is_refused(shared: Service, filter_: str, slack: float) -> None:
    columns = [{"name": "x", "type": "number", "lower": -1, "upper": 1}]
    budget = {"epsilon": 3.0, "delta": 1e-6, "filter": filter_, "slack": slack}
    response = shared.upload(
        SPEC | {"name": f"none-{filter_}{slack}", "columns": columns, "budget": budget}, b"x\n1\n2\n"
    )
    assert response.status_code == 422
