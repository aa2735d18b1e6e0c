"""Shares of the budget, told alike by quote, budget, ledger, receipt and metrics."""

from typing import Any

import pytest

from tests.support.service import JOB, Service


def _budget(service: Service, role: str, dataset: str) -> dict[str, Any]:
    found: dict[str, Any] = service.call(role, "GET", f"/v1/datasets/{dataset}/budget").json()
    return found


def _run(service: Service, role: str, dataset: str, epsilon: float) -> tuple[dict[str, Any], float]:
    """The job, and the share that its quote told."""
    body = JOB | {"dataset": dataset, "privacy": {"epsilon": epsilon}}
    quoted = service.call(role, "POST", "/v1/quotes", json=body).json()["share"]
    made = service.call(role, "POST", "/v1/jobs", json=body)
    assert made.status_code == 202, made.text
    return service.finished(made.json()["id"]), quoted


@pytest.mark.slow
def test_a_small_job_reads_truthfully(shared: Service) -> None:
    """One job of epsilon .01 used to show .49 of 2 spent, though thousands of it fit."""
    dataset = shared.dataset(budget={"epsilon": 2.0, "delta": 1e-6})
    _, share = _run(shared, "analyst", dataset, 0.01)
    budget = _budget(shared, "analyst", dataset)
    assert budget["filter"] == "gdp_rdp"
    assert budget["share"] == share < 1e-4
    assert budget["spent"]["epsilon"] == pytest.approx(0.01, rel=1e-3)


@pytest.mark.slow
def test_shares_add_up_and_are_told_alike(shared: Service) -> None:
    dataset = shared.dataset()
    shared.analyst("shares-ada", dataset)
    jobs = [_run(shared, role, dataset, 0.3) for role in ("analyst", "shares-ada", "shares-ada")]
    assert all(job["state"] == "done" for job, _ in jobs)
    whole = _budget(shared, "steward", dataset)
    parts = {told["analyst"]: told["share"] for told in whole["analysts"]}
    assert sum(parts.values()) == pytest.approx(whole["share"], rel=1e-12)
    assert whole["share"] == pytest.approx(3 * min(parts.values()), rel=1e-9)
    own = _budget(shared, "shares-ada", dataset)
    assert own["share"] == whole["share"]
    assert [told["analyst"] for told in own["analysts"]] == ["shares-ada"], "and nobody else's part"
    entries = shared.call("steward", "GET", f"/v1/datasets/{dataset}/ledger").json()["items"]
    charged = {entry["body"]["job"]: entry["body"]["share"] for entry in entries if entry["kind"] == "charged"}
    for job, quoted in jobs:
        receipt = shared.call("steward", "GET", f"/v1/jobs/{job['id']}/receipt").json()
        assert job["quote"]["share"] == quoted == charged[job["id"]] == receipt["receipt"]["share"]
        assert shared.call(None, "POST", "/v1/receipts/verify", json=receipt).json()["valid"]
    told = shared.call("auditor", "GET", "/metrics").text
    largest = next(line for line in told.splitlines() if line.startswith("purse_largest_share "))
    assert whole["share"] <= float(largest.split()[1]) <= 1


def test_a_receipt_of_a_reserved_part_states_no_share_of_the_whole(shared: Service) -> None:
    dataset = shared.dataset()
    path = f"/v1/datasets/{dataset}/allotments/the analyst"
    allotted = shared.call("steward", "PUT", path, json={"share": 0.5, "mode": "reserved"})
    assert allotted.status_code == 200, allotted.text
    job, quoted = _run(shared, "analyst", dataset, 0.3)
    receipt = shared.call("analyst", "GET", f"/v1/jobs/{job['id']}/receipt").json()
    assert quoted > 0.0
    assert "share" not in receipt["receipt"], "on what coordinate it is read depends on the charges of others"
    assert shared.call(None, "POST", "/v1/receipts/verify", json=receipt).json()["valid"]


@pytest.mark.slow
def test_what_does_not_fit_and_what_takes_all(shared: Service) -> None:
    dataset = shared.dataset(budget={"epsilon": 1.0, "delta": 1e-6})
    body = JOB | {"dataset": dataset}
    quotes = {
        epsilon: shared.call("analyst", "POST", "/v1/quotes", json=body | {"privacy": {"epsilon": epsilon}}).json()
        for epsilon in (1.0, 5.0)
    }
    assert (quotes[1.0]["fits"], quotes[1.0]["share"]) == (True, 1.0), "the empty ledger's one whole job"
    assert (quotes[5.0]["fits"], quotes[5.0]["share"]) == (False, None)
    _run(shared, "analyst", dataset, 1.0)
    budget = _budget(shared, "analyst", dataset)
    assert budget["share"] == 1.0
    assert [told["share"] for told in budget["analysts"]] == [1.0]
