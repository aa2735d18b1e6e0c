"""A budget that is asked for again is the same bytes or a 304, at once another when it moves, and nobody else's."""

from typing import Any

import pytest

from app.datasets import budgets
from app.worker.engine import FAILED, outcome
from tests.support.service import JOB, Service

GD = JOB | {"privacy": {"epsilon": 0.2}, "method": {"name": "dp_gd", "steps": 3}, "preparation": {"name": "declared"}}


@pytest.fixture(scope="module", autouse=True)
def _nothing_runs(shared: Service) -> None:
    shared.analyst("bob")
    shared.engine.slots = 0  # no job starts, so that each charge is a submission's


def _ask(service: Service, who: str, dataset: str, tag: str | None = None) -> Any:
    headers = {} if tag is None else {"If-None-Match": tag}
    return service.call(who, "GET", f"/v1/datasets/{dataset}/budget", headers=headers)


def _submit(service: Service, who: str, dataset: str) -> str:
    made = service.call(who, "POST", "/v1/jobs", json=GD | {"dataset": dataset})
    assert made.status_code == 202, made.text
    return str(made.json()["id"])


@pytest.mark.slow
def test_a_tag_is_good_until_there_is_something_else_to_tell(shared: Service) -> None:
    dataset = shared.dataset()
    for who in ("analyst", "steward"):
        first = _ask(shared, who, dataset)
        tag = first.headers["ETag"]
        assert first.headers["Cache-Control"] == "private, no-cache"
        for shown in (tag, f"W/{tag}", f'"other", {tag}', "*"):
            again = _ask(shared, who, dataset, shown)
            assert (again.status_code, again.content, again.headers["ETag"]) == (304, b"", tag)
        assert _ask(shared, who, dataset, '"other"').content == first.content
        job = _submit(shared, "bob", dataset)
        charged = _ask(shared, who, dataset, tag)
        assert charged.status_code == 200
        assert charged.json()["jobs"] == 1
        shared.call("bob", "DELETE", f"/v1/jobs/{job}")
        refunded = _ask(shared, who, dataset, charged.headers["ETag"])
        assert refunded.status_code == 200
        assert refunded.json()["jobs"] == 0


@pytest.mark.slow
def test_every_change_that_a_budget_tells_is_told(shared: Service) -> None:
    dataset, path = shared.dataset(), "/v1/datasets/{}"
    who = shared.call("steward", "GET", "/v1/tokens").json()["items"]
    assert {token["name"] for token in who} >= {"the analyst", "bob"}
    changes: list[tuple[str, str, Any]] = [
        ("PATCH", "", {"budget": {"epsilon": 5.0, "delta": 1e-6}}),
        ("PATCH", "", {"budget": {"epsilon": 3.0, "delta": 1e-6}}),  # as it was, and one promise more
        ("PATCH", "", {"frozen": True}),
        ("PATCH", "", {"frozen": False}),
        ("PUT", "/allotments/the analyst", {"share": 0.5, "mode": "shared"}),
        ("PUT", "/allotments/the analyst", {"share": 0.4, "mode": "reserved"}),
        ("DELETE", "/allotments/the analyst", None),
    ]
    for method, place, body in changes:
        before = {who: _ask(shared, who, dataset) for who in ("analyst", "steward")}
        made = shared.call("steward", method, path.format(dataset) + place, json=body)
        assert made.status_code in (200, 204), made.text
        for caller, told in before.items():
            now = _ask(shared, caller, dataset, told.headers["ETag"])
            assert now.status_code == 200, (method, place, caller)
            assert now.json() != told.json()


@pytest.mark.slow
def test_equal_sums_of_other_analysts_are_not_taken_for_each_other(shared: Service) -> None:
    dataset = shared.dataset()
    job = _submit(shared, "analyst", dataset)
    before = {who: _ask(shared, who, dataset) for who in ("steward", "analyst", "bob")}
    shared.call("analyst", "DELETE", f"/v1/jobs/{job}")
    _submit(shared, "bob", dataset)  # the same charge, another's
    for who, told in before.items():
        now = _ask(shared, who, dataset, told.headers["ETag"])
        assert now.status_code == 200
        assert now.json()["analysts"] != told.json()["analysts"]


@pytest.mark.slow
def test_without_a_grant_there_is_no_304(shared: Service) -> None:
    dataset = shared.dataset()
    tag = _ask(shared, "analyst", dataset).headers["ETag"]
    unknown = _ask(shared, "analyst", "ds_unknown", tag)
    shared.call("steward", "DELETE", f"/v1/datasets/{dataset}/grants/the analyst")
    revoked = _ask(shared, "analyst", dataset, tag)
    assert (revoked.status_code, revoked.content) == (unknown.status_code, unknown.content)
    assert revoked.status_code == 404
    assert "ETag" not in revoked.headers
    assert shared.call(None, "GET", f"/v1/datasets/{dataset}/budget", headers={"If-None-Match": "*"}).status_code == 401


@pytest.mark.slow
def test_an_answer_is_made_anew_for_what_it_tells_alone(shared: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []
    status = budgets.status

    def counted(connection: Any, row: Any, principal: Any) -> Any:
        made.append(principal.name)
        return status(connection, row, principal)

    monkeypatch.setattr(budgets, "status", counted)
    dataset = shared.dataset()

    def asked() -> list[str]:
        made.clear()
        for who in ("analyst", "bob", "steward"):
            _ask(shared, who, dataset)
        return [name for name in made if name in ("the analyst", "bob")]

    assert asked() == ["the analyst", "bob"], "nobody is told from what another was told"
    assert asked() == []
    job = _submit(shared, "bob", dataset)
    assert asked() == ["the analyst", "bob"]
    shared.engine.slots, shared.engine.ends = 1, {1: outcome(FAILED)}  # the job starts and ends: nothing of it is told
    shared.app.state.services.dispatcher.wake()
    assert shared.finished(job)["state"] == "failed"
    shared.engine.slots, shared.engine.ends = 0, {}
    assert asked() == [], "an entry that no budget tells does not change how long an analyst waits"
    shared.call("steward", "PUT", f"/v1/datasets/{dataset}/allotments/bob", json={"share": 0.5, "mode": "reserved"})
    assert asked() == asked() == ["the analyst", "bob"], "what is reserved is made anew, whoever has spent"
