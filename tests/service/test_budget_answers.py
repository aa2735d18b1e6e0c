"""A budget that is asked for again is the same bytes or a 304, at once another when it moves, and nobody else's."""

from typing import Any

import pytest

from app.datasets import budgets
from app.worker.engine import RAISED
from tests.support.service import JOB, Service

GD = JOB | {"privacy": {"epsilon": 0.2}, "method": {"name": "dp_gd", "steps": 3}, "preparation": {"name": "declared"}}


@pytest.fixture(scope="module", autouse=True)
def _nothing_runs(shared: Service) -> None:
    shared.analyst("bob")
    shared.engine.slots = 0  # no job starts, so that each charge is a submission's


def _ask(service: Service, role: str, dataset: str, tag: str | None = None) -> Any:
    headers = {} if tag is None else {"If-None-Match": tag}
    return service.call(role, "GET", f"/v1/datasets/{dataset}/budget", headers=headers)


def _submit(service: Service, role: str, dataset: str) -> str:
    response = service.call(role, "POST", "/v1/jobs", json=GD | {"dataset": dataset})
    assert response.status_code == 202, response.text
    return str(response.json()["id"])


@pytest.mark.slow
def test_a_tag_is_valid_until_the_budget_changes(shared: Service) -> None:
    dataset = shared.dataset()
    for role in ("analyst", "steward"):
        first = _ask(shared, role, dataset)
        tag = first.headers["ETag"]
        assert first.headers["Cache-Control"] == "private, no-cache"
        for known_tags in (tag, f"W/{tag}", f'"other", {tag}', "*"):
            again = _ask(shared, role, dataset, known_tags)
            assert (again.status_code, again.content, again.headers["ETag"]) == (304, b"", tag)
        assert _ask(shared, role, dataset, '"other"').content == first.content
        job = _submit(shared, "bob", dataset)
        charged = _ask(shared, role, dataset, tag)
        assert charged.status_code == 200
        assert charged.json()["jobs"] == 1
        shared.call("bob", "DELETE", f"/v1/jobs/{job}")
        refunded = _ask(shared, role, dataset, charged.headers["ETag"])
        assert refunded.status_code == 200
        assert refunded.json()["jobs"] == 0


@pytest.mark.slow
def test_every_change_of_a_budget_changes_its_answer(shared: Service) -> None:
    dataset, path = shared.dataset(), "/v1/datasets/{}"
    tokens = shared.call("steward", "GET", "/v1/tokens").json()["items"]
    assert {token["name"] for token in tokens} >= {"the analyst", "bob"}
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
        answers_before = {role: _ask(shared, role, dataset) for role in ("analyst", "steward")}
        response = shared.call("steward", method, path.format(dataset) + place, json=body)
        assert response.status_code in (200, 204), response.text
        for caller, answer in answers_before.items():
            now = _ask(shared, caller, dataset, answer.headers["ETag"])
            assert now.status_code == 200, (method, place, caller)
            assert now.json() != answer.json()


@pytest.mark.slow
def test_equal_sums_of_two_analysts_are_distinguished(shared: Service) -> None:
    dataset = shared.dataset()
    job = _submit(shared, "analyst", dataset)
    answers_before = {role: _ask(shared, role, dataset) for role in ("steward", "analyst", "bob")}
    shared.call("analyst", "DELETE", f"/v1/jobs/{job}")
    _submit(shared, "bob", dataset)  # the same charge, another's
    for role, answer in answers_before.items():
        now = _ask(shared, role, dataset, answer.headers["ETag"])
        assert now.status_code == 200
        assert now.json()["analysts"] != answer.json()["analysts"]


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
def test_an_answer_is_computed_again_only_after_a_visible_change(
    shared: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    computed: list[str] = []
    status = budgets.status

    def counted(connection: Any, row: Any, principal: Any) -> Any:
        computed.append(principal.name)
        return status(connection, row, principal)

    monkeypatch.setattr(budgets, "status", counted)
    dataset = shared.dataset()

    def names_computed() -> list[str]:
        computed.clear()
        for role in ("analyst", "bob", "steward"):
            _ask(shared, role, dataset)
        return [name for name in computed if name in ("the analyst", "bob")]

    assert names_computed() == ["the analyst", "bob"], "cached answers are never shared between callers"
    assert names_computed() == []
    job = _submit(shared, "bob", dataset)
    assert names_computed() == ["the analyst", "bob"]
    shared.engine.slots, shared.engine.ends = 1, {1: RAISED}  # the job starts and ends
    shared.app.state.services.dispatcher.wake()
    assert shared.finished(job)["state"] == "failed"
    shared.engine.slots, shared.engine.ends = 0, {}
    assert names_computed() == [], "an entry that changes no budget does not change how long an analyst waits"
    shared.call("steward", "PUT", f"/v1/datasets/{dataset}/allotments/bob", json={"share": 0.5, "mode": "reserved"})
    assert names_computed() == names_computed() == ["the analyst", "bob"], (
        "reserved parts are computed for every request"
    )
