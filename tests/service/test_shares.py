"""Shares of the budget are equal in quote, budget, ledger, receipt and metrics."""

from typing import Any

import pytest

from accounting.records import offline
from accounting.records.chain import Entry
from tests.support.service import JOB, Service


def _run(service: Service, role: str, dataset: str, epsilon: float) -> tuple[dict[str, Any], float]:
    """Return the job, and the share that its quote states."""
    body = JOB | {"dataset": dataset, "privacy": {"epsilon": epsilon}}
    quoted = service.call(role, "POST", "/v1/quotes", json=body).json()["share"]
    return service.done(body, role=role), quoted


@pytest.mark.slow
def test_shares_add_up_and_are_stated_everywhere(shared: Service) -> None:
    dataset = shared.dataset()
    shared.analyst("shares-ada", dataset)
    jobs = [_run(shared, role, dataset, 0.3) for role in ("analyst", "shares-ada", "shares-ada")]
    whole = shared.budget(dataset)
    parts = {spend["analyst"]: spend["share"] for spend in whole["analysts"]}
    assert sum(parts.values()) == pytest.approx(whole["share"], rel=1e-12)
    assert whole["share"] == pytest.approx(3 * min(parts.values()), rel=1e-9)
    own = shared.budget(dataset, "shares-ada")
    assert own["share"] == whole["share"]
    assert [spend["analyst"] for spend in own["analysts"]] == ["shares-ada"]
    charged = {e["body"]["job"]: e["body"]["share"] for e in shared.entries(dataset) if e["kind"] == "charged"}
    for job, quoted in jobs:
        receipt = shared.receipt(job["id"], "steward")["receipt"]
        assert job["quote"]["share"] == quoted == charged[job["id"]] == receipt["share"]
    metrics = shared.call("auditor", "GET", "/metrics").text
    largest = next(line for line in metrics.splitlines() if line.startswith("purse_largest_share "))
    assert whole["share"] <= float(largest.split()[1]) <= 1


def test_a_receipt_of_a_reserved_part_states_no_share_of_the_whole(shared: Service) -> None:
    dataset = shared.dataset()
    path = f"/v1/datasets/{dataset}/allotments/the analyst"
    allotted = shared.call("steward", "PUT", path, json={"share": 0.5, "mode": "reserved"})
    assert allotted.status_code == 200, allotted.text
    job, quoted = _run(shared, "analyst", dataset, 0.3)
    receipt = shared.receipt(job["id"])["receipt"]
    assert quoted > 0.0
    assert "share" not in receipt, "on what coordinate it is read depends on the charges of others"


@pytest.mark.slow
def test_jobs_state_the_share_that_the_budget_states(shared: Service) -> None:
    """A steward and an analyst with a reserved part list jobs after the budget was raised."""
    dataset = shared.dataset()
    shared.analyst("share-now-ada", dataset)
    path = f"/v1/datasets/{dataset}/allotments/share-now-ada"
    allotted = shared.call("steward", "PUT", path, json={"share": 0.5, "mode": "reserved"})
    assert allotted.status_code == 200, allotted.text
    run = [_run(shared, role, dataset, 0.3)[0] for role in ("analyst", "share-now-ada", "share-now-ada")]
    raised = shared.call(
        "steward", "PATCH", f"/v1/datasets/{dataset}", json={"budget": {"epsilon": 8.0, "delta": 1e-6}}
    )
    assert raised.status_code == 200, raised.text
    budget = shared.budget(dataset)
    jobs = shared.call("steward", "GET", f"/v1/jobs?dataset={dataset}").json()["items"]
    assert {job["id"] for job in jobs} == {job["id"] for job in run}
    assert sum(job["share"] for job in jobs) == pytest.approx(budget["share"], rel=1e-9)
    assert all(job["share"] < job["quote"]["share"] for job in jobs), "the quote states the share of the smaller budget"
    of_ada = sum(job["share"] for job in jobs if job["analyst"] == "share-now-ada")
    assert {each["analyst"]: each["share"] for each in budget["analysts"]}["share-now-ada"] == pytest.approx(of_ada)
    entries = sorted(map(Entry.from_json, shared.entries(dataset)), key=lambda entry: entry.sequence)
    by_entry = offline.shares(entries, offline.verify_ledger(entries))
    by_job = {entry.body["job"]: by_entry[entry.sequence] for entry in entries if entry.sequence in by_entry}
    assert by_job == pytest.approx({job["id"]: job["share"] for job in jobs})
    own = shared.call("share-now-ada", "GET", f"/v1/jobs?dataset={dataset}").json()["items"]
    assert sum(job["share"] for job in own) == pytest.approx(shared.budget(dataset, "share-now-ada")["share"])
    assert [shared.call("share-now-ada", "GET", f"/v1/jobs/{job['id']}").json() for job in own] == own


def test_a_job_states_no_share_of_a_budget_that_its_analyst_cannot_see(shared: Service) -> None:
    dataset = shared.dataset()
    shared.analyst("share-without-grant", dataset)
    job, _ = _run(shared, "share-without-grant", dataset, 0.3)
    assert job["share"] == job["quote"]["share"]
    revoked = shared.call("steward", "DELETE", f"/v1/datasets/{dataset}/grants/share-without-grant")
    assert revoked.status_code == 204, revoked.text
    assert shared.call("share-without-grant", "GET", f"/v1/jobs/{job['id']}").json()["share"] is None
    assert shared.call("steward", "GET", f"/v1/jobs/{job['id']}").json()["share"] == job["share"]


@pytest.mark.slow
def test_a_job_beyond_the_budget_has_no_share_and_the_largest_has_all(shared: Service) -> None:
    dataset = shared.dataset(budget={"epsilon": 1.0, "delta": 1e-6})
    body = JOB | {"dataset": dataset}
    quotes = {
        epsilon: shared.call("analyst", "POST", "/v1/quotes", json=body | {"privacy": {"epsilon": epsilon}}).json()
        for epsilon in (1.0, 5.0)
    }
    assert (quotes[1.0]["fits"], quotes[1.0]["share"]) == (True, 1.0), "the empty ledger's one whole job"
    assert (quotes[5.0]["fits"], quotes[5.0]["share"]) == (False, None)
    _run(shared, "analyst", dataset, 1.0)
    budget = shared.budget(dataset, "analyst")
    assert budget["share"] == 1.0
    assert [spend["share"] for spend in budget["analysts"]] == [1.0]
