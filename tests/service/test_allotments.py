"""Allotments: what is said is enforced with the charge, and what is reserved is nobody else's, not to see either."""

from typing import Any

import pytest
from httpx import Response

from tests.support.pages import visit
from tests.support.service import JOB, Service

pytestmark = pytest.mark.slow

BUDGETS = [{"epsilon": 3.0, "delta": 1e-6, "filter": name} for name in ("gdp_rdp", "rdp", "gdp")]


def _allot(service: Service, dataset: str, analyst: str, **fields: Any) -> Response:
    return service.call("steward", "PUT", f"/v1/datasets/{dataset}/allotments/{analyst}", json=fields)


def _submit(service: Service, role: str, dataset: str, epsilon: float) -> Response:
    body = JOB | {"dataset": dataset, "method": {"name": "dp_gd", "steps": 3}, "privacy": {"epsilon": epsilon}}
    return service.call(role, "POST", "/v1/jobs", json=body)


def _budget_answers(service: Service, analyst: str, dataset: str) -> list[Any]:
    """Return what an analyst reads about a budget: the dataset, the budget, a quote and a refusal."""
    body = JOB | {"dataset": dataset, "method": {"name": "dp_gd", "steps": 3}, "privacy": {"epsilon": 2.9}}
    answers = [service.call(analyst, "GET", f"/v1/datasets/{dataset}{path}").json() for path in ("", "/budget")]
    quote = service.call(analyst, "POST", "/v1/quotes", json=body).json()
    refusal = service.call(analyst, "POST", "/v1/jobs", json=body)
    assert (quote["fits"], refusal.status_code, refusal.json()["code"]) == (False, 409, "budget_exhausted")
    return [*answers, quote, refusal.json()]


@pytest.fixture
def both(service: Service) -> Service:
    """The analyst and bob, whose jobs wait."""
    service.engine.gate.clear()
    service.analyst("bob")
    return service


@pytest.mark.parametrize("budget", BUDGETS, ids=lambda budget: str(budget["filter"]))
class TestReserved:
    def test_other_analysts_do_not_see_it(self, both: Service, budget: dict[str, Any]) -> None:
        dataset = both.dataset(budget=budget)
        both.analyst("eve", dataset)
        for analyst in ("the analyst", "bob"):
            assert _allot(both, dataset, analyst, share=0.3, mode="reserved").status_code == 200
        answers_before = {analyst: _budget_answers(both, analyst, dataset) for analyst in ("analyst", "bob", "eve")}
        assert _submit(both, "analyst", dataset, 0.5).status_code == 202
        for analyst in ("bob", "eve"):
            assert _budget_answers(both, analyst, dataset) == answers_before[analyst]
        assert _submit(both, "eve", dataset, 0.4).status_code == 202
        assert _budget_answers(both, "bob", dataset) == answers_before["bob"]
        remaining = answers_before["bob"][1]["remaining"]["epsilon"]
        assert _submit(both, "bob", dataset, remaining).status_code == 202, "as quoted before the others submitted"
        assert _submit(both, "bob", dataset, 0.2).json()["code"] == "budget_exhausted"

    def test_the_budget_of_its_analyst_is_the_reserved_part(self, both: Service, budget: dict[str, Any]) -> None:
        dataset = both.dataset(budget=budget)
        allotment = _allot(both, dataset, "bob", share=0.3, mode="reserved").json()
        assert _submit(both, "analyst", dataset, 0.2).status_code == 202
        assert _submit(both, "bob", dataset, 0.3).status_code == 202
        mine = both.budget(dataset, "bob")
        assert (mine["epsilon"], mine["jobs"]) == (allotment["epsilon"], 1)
        assert 0.0 < mine["spent"]["epsilon"] <= mine["epsilon"] < 3.0
        [own] = mine["analysts"]
        assert (own["analyst"], own["allotment"]["mode"], own["allotment"]["share"]) == (
            "bob",
            "reserved",
            allotment["share"],
        )
        assert 0.0 < own["allotment"]["used"] < 1.0
        pages = [visit(both, both.tokens[role], f"/pages/datasets/{dataset}").text for role in ("bob", "auditor")]
        assert ["your part" in page for page in pages] == [True, False]
        whole = both.budget(dataset)
        assert (whole["epsilon"], whole["jobs"]) == (3.0, 2)
        assert [(spend["analyst"], spend["allotment"] is None) for spend in whole["analysts"]] == [
            ("bob", False),
            ("the analyst", True),
        ]

    def test_must_fit_the_budget_with_what_is_spent(self, both: Service, budget: dict[str, Any]) -> None:
        dataset = both.dataset(budget=budget)
        both.started(_submit(both, "analyst", dataset, 0.5).json()["id"])  # else it starts between two looks
        assert _allot(both, dataset, "bob", share=0.4, mode="reserved").status_code == 200
        state_before = both.durable(dataset)
        for analyst, share in (("bob", 1.0), ("the analyst", 0.601), ("the analyst", 0.0001)):
            refused = _allot(both, dataset, analyst, share=share, mode="reserved")
            assert (refused.status_code, refused.json()["code"]) == (409, "overallotted")
        assert both.durable(dataset) == state_before
        assert _allot(both, dataset, "the analyst", share=0.6, mode="reserved").status_code == 200
        assert _submit(both, "steward", dataset, 0.01).json()["code"] == "budget_exhausted", (
            "nothing remains for other analysts"
        )

    def test_ends_when_it_is_deleted(self, both: Service, budget: dict[str, Any]) -> None:
        dataset = both.dataset(budget=budget)
        whole = both.budget(dataset, "bob")
        assert _allot(both, dataset, "the analyst", share=0.9, mode="reserved").status_code == 200
        assert both.budget(dataset, "bob")["remaining"] != whole["remaining"]
        path = f"/v1/datasets/{dataset}/allotments/the analyst"
        assert both.call("steward", "DELETE", path).status_code == 204
        assert both.budget(dataset, "bob") == whole
        for method in ("GET", "DELETE"):
            assert both.call("steward", method, path).status_code == 404


def test_a_shared_allotment_only_caps_its_analyst(both: Service) -> None:
    dataset = both.dataset(budget=BUDGETS[0])
    allotment = _allot(both, dataset, "bob", epsilon=0.6).json()
    assert (allotment["mode"], allotment["delta"]) == ("shared", 1e-6)
    assert 0.599 < allotment["epsilon"] <= 0.6
    assert _submit(both, "bob", dataset, 0.5).status_code == 202
    refused = _submit(both, "bob", dataset, 0.5)
    assert refused.json()["code"] == "budget_exhausted"
    remaining = refused.json()["remaining"]["epsilon"]
    assert 0.1 < remaining < 0.5
    assert _submit(both, "analyst", dataset, 0.5).status_code == 202
    assert both.budget(dataset, "bob")["jobs"] == 2, "all compete for one pool"
    assert _submit(both, "bob", dataset, remaining).status_code == 202
    assert _submit(both, "bob", dataset, 0.1).json()["code"] == "budget_exhausted"


def test_a_refund_restores_the_allotment(both: Service) -> None:
    dataset = both.dataset(budget=BUDGETS[0])
    _allot(both, dataset, "bob", share=0.1, mode="reserved")
    budget_before = both.budget(dataset, "bob")
    running = _submit(both, "analyst", dataset, 0.1)  # the one that has started
    waiting = [_submit(both, "bob", dataset, 0.2) for _ in range(3)]
    assert {response.status_code for response in (running, *waiting)} == {202}
    for response in waiting:
        cancelled = both.call("bob", "DELETE", f"/v1/jobs/{response.json()['id']}").json()
        assert cancelled["state"] == "cancelled"
    budget_after = both.budget(dataset, "bob")
    started = sum(job["attempt"] for job in both.call("bob", "GET", "/v1/jobs").json()["items"])
    assert (budget_after == budget_before) == (started == 0)
    assert budget_after["jobs"] == started


def test_a_family_shares_allotments_as_it_shares_the_budget(both: Service) -> None:
    dataset, sibling = (both.dataset(budget=BUDGETS[0], family="survey") for _ in range(2))
    assert _allot(both, dataset, "bob", share=0.02, mode="reserved").status_code == 200
    allotments = both.call("steward", "GET", f"/v1/datasets/{sibling}/allotments").json()["items"]
    assert [(allotment["analyst"], allotment["mode"]) for allotment in allotments] == [("bob", "reserved")]
    remaining = both.budget(dataset, "bob")["remaining"]["epsilon"]
    assert _submit(both, "bob", sibling, remaining).status_code == 202
    assert _submit(both, "bob", dataset, remaining).json()["code"] == "budget_exhausted"


def test_a_smaller_budget_must_cover_the_reserved_parts(both: Service) -> None:
    dataset = both.dataset(budget=BUDGETS[0])
    for analyst in ("bob", "the analyst"):
        assert _allot(both, dataset, analyst, epsilon=1.0, mode="reserved").status_code == 200
    state_before = both.durable(dataset)
    smaller = {"budget": {"epsilon": 1.0, "delta": 1e-6}}
    refused = both.call("steward", "PATCH", f"/v1/datasets/{dataset}", json=smaller)
    assert (refused.status_code, refused.json()["code"]) == (409, "overallotted")
    assert both.durable(dataset) == state_before
    larger = {"budget": {"epsilon": 4.0, "delta": 1e-6}}
    assert both.call("steward", "PATCH", f"/v1/datasets/{dataset}", json=larger).status_code == 200
    allotments = both.call("steward", "GET", f"/v1/datasets/{dataset}/allotments").json()["items"]
    assert all(0.99 < allotment["epsilon"] <= 1.0 for allotment in allotments)


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({}, "invalid_request"),
        ({"share": 0.5, "epsilon": 1.0}, "invalid_request"),
        ({"share": 0.5, "delta": 1e-6}, "invalid_request"),
        ({"share": 0.5, "mode": "mine"}, "invalid_request"),
        ({"share": 0.5, "per": "day"}, "invalid_request"),
        ({"share": True}, "invalid_request"),
        ({"share": 0.0}, "out_of_range"),
        ({"share": 1.5}, "out_of_range"),
        ({"share": -0.1}, "out_of_range"),
        ({"share": 1e-300}, "out_of_range"),
        ({"epsilon": 3.5}, "out_of_range"),
        ({"epsilon": 1e-9}, "out_of_range"),
        ({"epsilon": 1.0, "delta": 1e-5}, "out_of_range"),
        ({"epsilon": 1.0, "delta": 0.0}, "out_of_range"),
    ],
)
def test_an_invalid_allotment_is_refused_and_changes_nothing(
    shared: Service, fields: dict[str, Any], code: str
) -> None:
    dataset = shared.dataset(budget=BUDGETS[0])
    state_before = shared.durable(dataset)
    refused = _allot(shared, dataset, "the analyst", **fields)
    assert (refused.status_code, refused.json()["code"]) == (422, code)
    assert refused.json()["violations"][0]["what"]
    assert shared.durable(dataset) == state_before


def test_an_unknown_analyst_or_dataset_is_not_found(shared: Service) -> None:
    dataset = shared.dataset()
    for path in (f"{dataset}/allotments/nobody", f"{dataset}/allotments/bootstrap", "ds_none/allotments/the analyst"):
        for method in ("PUT", "GET", "DELETE"):
            body = {"json": {"share": 0.5}} if method == "PUT" else {}
            assert shared.call("steward", method, f"/v1/datasets/{path}", **body).status_code == 404
    assert shared.call("steward", "GET", "/v1/datasets/ds_none/allotments").status_code == 404
