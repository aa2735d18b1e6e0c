"""Budget is reserved for answers computed elsewhere, recorded at most as planned, and refunded only where it may be."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from accounting.records import session_receipt
from accounting.records.chain import Entry
from accounting.records.offline import verify_ledger, verify_receipt
from app.ledger import audit
from app.persistence.tables import sessions
from tests.service.conftest import MakeService
from tests.support.clocks import FastClock
from tests.support.service import JOB, Service

GAUSSIAN = {"type": "GaussianDpEvent", "noise_multiplier": 20.0}
LAPLACE = {"type": "LaplaceDpEvent", "noise_multiplier": 50.0}
TARGET = {"privacy": {"epsilon": 1.0}, "steps": 10}


def many(count: int, event: dict[str, Any] = GAUSSIAN) -> dict[str, Any]:
    return {"type": "SelfComposedDpEvent", "event": event, "count": count}


class MovableClock(FastClock):
    """A clock that a test may move forward."""

    moved = 0.0

    def wall(self) -> float:
        return FastClock.wall(self) + self.moved


@pytest.fixture
def clock() -> MovableClock:
    return MovableClock(1.0)


@pytest.fixture
def service(tmp_path: Path, make_service: MakeService, clock: MovableClock) -> Iterator[Service]:
    with make_service(tmp_path / "home", clock=clock) as running:
        yield running
        audit.refuse_unsound(running.database)


def opened(service: Service, dataset: str, body: Any = None, role: str = "analyst", **headers: str) -> Any:
    """Open a session, by default of ten Gaussian answers, and return the response."""
    body = {"events": [many(10)]} if body is None else body
    return service.call(role, "POST", f"/v1/datasets/{dataset}/sessions", json=body, headers=headers)


def session(service: Service, dataset: str, body: Any = None) -> Any:
    response = opened(service, dataset, body)
    assert response.status_code == 201, response.text
    return response.json()


def record(service: Service, session_id: str, body: Any = None, role: str = "analyst", **headers: str) -> Any:
    path = f"/v1/sessions/{session_id}/steps"
    return service.call(role, "POST", path, json={} if body is None else body, headers=headers)


def close(service: Service, session_id: str, role: str = "analyst") -> Any:
    return service.call(role, "POST", f"/v1/sessions/{session_id}/close")


def refused(response: Any, code: str) -> bool:
    return bool(response.json().get("code") == code)


def test_a_session_reserves_its_whole_plan_before_the_first_answer(service: Service) -> None:
    dataset = service.dataset()
    response = opened(service, dataset, {"events": [many(10), LAPLACE], "title": "a survey", "lifetime": 3600})
    new_session = response.json()
    assert response.status_code == 201, response.text
    assert response.headers["Location"] == f"/v1/sessions/{new_session['id']}"
    assert (new_session["dataset"], new_session["analyst"], new_session["title"], new_session["state"]) == (
        dataset,
        "the analyst",
        "a survey",
        "open",
    )
    assert new_session["plan"] == [
        {"event": GAUSSIAN, "count": 10, "recorded": 0, "refundable": True},
        {"event": LAPLACE, "count": 1, "recorded": 0, "refundable": True},
    ]
    assert new_session["noise_multiplier"] is None
    assert new_session["charged"] == new_session["reserved"]
    spent = service.budget(dataset)
    assert spent["jobs"] == 1
    assert spent["share"] == pytest.approx(new_session["reserved"]["share"])
    assert 0 < new_session["reserved"]["epsilon"] <= spent["spent"]["epsilon"] * (1 + 1e-9)
    assert [entry["kind"] for entry in service.entries(dataset)] == ["opened", "reserved"]
    assert service.call("analyst", "GET", f"/v1/sessions/{new_session['id']}").json() == new_session


def test_a_composed_event_becomes_entries_of_the_plan(service: Service) -> None:
    composed = {"type": "ComposedDpEvent", "events": [many(3), LAPLACE]}
    new_session = session(service, service.dataset(), {"events": [composed, GAUSSIAN]})
    assert [(part["event"], part["count"]) for part in new_session["plan"]] == [
        (GAUSSIAN, 3),
        (LAPLACE, 1),
        (GAUSSIAN, 1),
    ]


@pytest.mark.parametrize("q", [1.0, 0.1])
def test_a_target_gets_the_noise_that_keeps_it(service: Service, q: float) -> None:
    dataset = service.dataset()
    new_session = session(service, dataset, TARGET | {"sampling_probability": q})
    assert 0.99 < new_session["reserved"]["epsilon"] <= 1.0
    [part] = new_session["plan"]
    answer = part["event"] if q == 1.0 else part["event"]["event"]
    assert (part["count"], answer["noise_multiplier"]) == (10, new_session["noise_multiplier"])
    assert part["event"].get("sampling_probability", 1.0) == q


def test_recording_counts_the_answers_and_stops_at_the_plan(service: Service) -> None:
    dataset = service.dataset()
    new_session = session(service, dataset, {"events": [many(10), LAPLACE]})
    budget_before = service.budget(dataset)
    assert record(service, new_session["id"]).json()["plan"][0]["recorded"] == 1
    assert record(service, new_session["id"], {"steps": 9}).json()["plan"][0]["recorded"] == 10
    assert refused(record(service, new_session["id"]), "session_exhausted")
    assert refused(record(service, new_session["id"], {"event": 1, "steps": 2}), "session_exhausted")
    last = record(service, new_session["id"], {"event": 1}).json()
    assert [part["recorded"] for part in last["plan"]] == [10, 1]
    assert last["charged"] == new_session["reserved"]
    assert refused(record(service, new_session["id"], {"event": 2}), "out_of_range")
    assert service.budget(dataset) == budget_before


def test_a_repeated_key_has_no_second_effect(service: Service) -> None:
    dataset, key = service.dataset(), {"Idempotency-Key": "k"}
    first, again = opened(service, dataset, **key), opened(service, dataset, **key)
    assert first.json() == again.json()
    assert service.budget(dataset)["jobs"] == 1
    assert refused(opened(service, dataset, TARGET, **key), "idempotency_conflict")
    assert refused(opened(service, service.dataset(), **key), "idempotency_conflict")
    identity = first.json()["id"]
    step = record(service, identity, {"steps": 2}, **key)
    record(service, identity)
    assert record(service, identity, {"steps": 2}, **key).json() == step.json()
    assert refused(record(service, identity, {"steps": 3}, **key), "idempotency_conflict")
    [part] = service.call("analyst", "GET", f"/v1/sessions/{identity}").json()["plan"]
    assert part["recorded"] == 3


def test_closing_refunds_the_answers_that_were_not_recorded(service: Service) -> None:
    dataset = service.dataset()
    new_session = session(service, dataset)
    record(service, new_session["id"], {"steps": 4})
    final = close(service, new_session["id"]).json()
    assert (final["state"], final["ended_at"] is not None) == ("closed", True)
    assert final["charged"]["share"] == pytest.approx(0.4 * new_session["reserved"]["share"], rel=1e-6)
    assert final["charged"]["epsilon"] < new_session["reserved"]["epsilon"]
    assert final["reserved"] == new_session["reserved"]
    assert service.budget(dataset)["share"] == pytest.approx(final["charged"]["share"])
    assert close(service, new_session["id"]).json() == final
    assert refused(record(service, new_session["id"]), "session_ended")
    [*_, entry] = service.entries(dataset)
    assert (entry["kind"], entry["body"]["recorded"], entry["body"]["reason"]) == ("settled", [4], "closed")


def test_an_expired_session_stays_charged_as_a_whole(service: Service, clock: MovableClock) -> None:
    dataset = service.dataset()
    new_session = session(service, dataset, {"events": [many(10)], "lifetime": 60})
    record(service, new_session["id"], {"steps": 3}, **{"Idempotency-Key": "k"})
    kinds = [entry["kind"] for entry in service.entries(dataset)]
    clock.moved = 61.0
    expired = service.call("auditor", "GET", f"/v1/sessions/{new_session['id']}").json()
    assert (expired["state"], expired["ended_at"], expired["charged"]) == (
        "expired",
        new_session["expires_at"],
        new_session["reserved"],
    )
    assert [entry["kind"] for entry in service.entries(dataset)] == kinds, "reading writes nothing"
    assert refused(record(service, new_session["id"]), "session_ended")
    assert [entry["kind"] for entry in service.entries(dataset)] == [*kinds, "settled"]
    assert close(service, new_session["id"]).json() == expired
    assert service.call("analyst", "GET", "/v1/sessions").json()["items"] == [expired]
    assert service.budget(dataset)["jobs"] == 1


def test_a_session_that_took_the_whole_budget_returns_nothing_after_its_first_answer(service: Service) -> None:
    whole = TARGET | {"privacy": {"epsilon": 3.0}, "steps": 500, "sampling_probability": 0.05}
    dataset = service.dataset(budget={"epsilon": 3.0, "delta": 1e-6, "filter": "rdp"})
    new_session = session(service, dataset, whole)
    assert new_session["plan"][0]["refundable"] is False
    assert service.budget(dataset)["share"] == 1.0
    assert refused(opened(service, dataset), "budget_exhausted")
    assert close(service, new_session["id"]).json()["charged"]["share"] == 0.0
    second = session(service, dataset, whole)
    record(service, second["id"])
    assert close(service, second["id"]).json()["charged"] == second["reserved"]
    assert service.budget(dataset)["share"] == 1.0


def test_a_whole_budget_stays_charged_with_an_outside_charge(service: Service) -> None:
    """A refund would allow other answers in some runs, and the certificate of the plan has used all of delta."""
    dataset = service.dataset(budget={"epsilon": 1.0, "delta": 1e-6})
    new_session = session(service, dataset, TARGET)
    record(service, new_session["id"])
    outside = {"label": "x", "event": LAPLACE, "exceeds": True}
    assert service.call("steward", "POST", f"/v1/datasets/{dataset}/charges", json=outside).status_code == 201
    close(service, new_session["id"])
    assert not any(int(units) for units in service.entries(dataset)[-1]["body"]["refund"])
    assert service.budget(dataset)["exceeded"] is True


def test_a_plan_beyond_the_budget_is_refused_with_the_remaining_budget(service: Service) -> None:
    dataset = service.dataset()
    state_before = service.durable(dataset)
    answer = opened(service, dataset, {"events": [many(10**6)]})
    assert (answer.status_code, answer.json()["code"]) == (409, "budget_exhausted")
    assert answer.json()["remaining"] == {"epsilon": 3.0, "delta": 1e-6}
    assert service.durable(dataset) == state_before


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({}, "invalid_request"),
        ({"events": []}, "invalid_request"),
        ({"events": [GAUSSIAN], "steps": 3}, "invalid_request"),
        ({"events": [GAUSSIAN] * 65}, "out_of_range"),
        ({"events": [{"type": "ComposedDpEvent", "events": [GAUSSIAN] * 40}] * 2}, "out_of_range"),
        ({"events": [{"type": "ZCDpEvent", "rho": 1.0}]}, "invalid_request"),
        ({"events": [{"type": "EpsilonDeltaDpEvent", "epsilon": 1.0, "delta": 1e-6}]}, "out_of_range"),
        (TARGET | {"steps": 0}, "out_of_range"),
        (TARGET | {"privacy": {"epsilon": 1.0, "delta": 1e-3}}, "out_of_range"),
        (TARGET | {"sampling_probability": 1.5}, "out_of_range"),
        (TARGET | {"sampling_probability": 1e-3}, "out_of_range"),
        (TARGET | {"lifetime": 59}, "out_of_range"),
        (TARGET | {"title": "a\nb"}, "invalid_request"),
        (
            {
                "events": [
                    {
                        "type": "SampledWithoutReplacementDpEvent",
                        "source_dataset_size": 10_000,
                        "sample_size": 3,
                        "event": GAUSSIAN,
                    }
                ]
            },
            "unsupported_combination",
        ),
    ],
)
def test_a_wrong_plan_is_refused(shared: Service, body: Any, code: str) -> None:
    dataset = shared.dataset()
    state_before = shared.durable(dataset)
    answer = opened(shared, dataset, body)
    assert (answer.status_code, answer.json()["code"]) == (422, code), answer.text
    assert shared.durable(dataset) == state_before


def test_gaussian_noise_has_no_price_under_pure(shared: Service) -> None:
    dataset = shared.dataset(budget={"epsilon": 3.0, "delta": 0.0, "filter": "pure"})
    assert refused(opened(shared, dataset), "method_filter_mismatch")
    new_session = session(shared, dataset, {"events": [LAPLACE]})
    assert new_session["reserved"]["delta"] == 0.0
    assert new_session["reserved"]["epsilon"] == pytest.approx(2 / 50)


def test_a_freeze_stops_new_sessions_and_steps_but_not_closing(service: Service) -> None:
    dataset = service.dataset()
    new_session = session(service, dataset)
    record(service, new_session["id"])
    service.call("steward", "PATCH", f"/v1/datasets/{dataset}", json={"frozen": True})
    assert refused(opened(service, dataset), "dataset_frozen")
    assert "A steward" in opened(service, dataset).json()["detail"]
    assert refused(record(service, new_session["id"]), "dataset_frozen")
    assert close(service, new_session["id"]).json()["plan"][0]["recorded"] == 1


@pytest.mark.parametrize(("steps", "data"), [(0, "withdrawn"), (2, "deleted")])
def test_deleting_the_values_ends_the_sessions(service: Service, steps: int, data: str) -> None:
    dataset = service.dataset()
    new_session = session(service, dataset)
    if steps:
        record(service, new_session["id"], {"steps": steps})
    assert service.call("steward", "DELETE", f"/v1/datasets/{dataset}").json()["data"] == data
    final = service.call("analyst", "GET", f"/v1/sessions/{new_session['id']}").json()
    assert final["state"] == "closed"
    assert final["charged"]["share"] == (new_session["reserved"]["share"] if steps else 0.0)
    assert refused(record(service, new_session["id"]), "session_ended")
    assert opened(service, dataset).json()["code"] == ("dataset_deleted" if steps else "not_found")


@pytest.mark.parametrize("family", [None, "people"])
def test_a_dataset_with_a_holdout_set_has_no_sessions(service: Service, family: str | None) -> None:
    """A program may read the rows of both, which are on two ledgers."""
    dataset = service.dataset(holdout=0.2, family=family)
    holdout = service.call("steward", "GET", f"/v1/datasets/{dataset}").json()["holdout"]
    for part in (dataset, holdout):
        answer = opened(service, part)
        assert (answer.status_code, answer.json()["code"]) == (409, "sessions_refused")
        assert "holdout" in answer.json()["detail"]
        assert service.budget(part)["jobs"] == 0


def test_the_steward_decides_whether_sessions_are_opened_and_refunded(service: Service) -> None:
    dataset = service.dataset(sessions="no_refund")
    without_refund = session(service, dataset)
    assert without_refund["plan"][0]["refundable"] is False
    assert close(service, without_refund["id"]).json()["charged"] == without_refund["reserved"]
    service.call("steward", "PATCH", f"/v1/datasets/{dataset}", json={"sessions": "refund"})
    with_refund = session(service, dataset)
    service.call("steward", "PATCH", f"/v1/datasets/{dataset}", json={"sessions": "refused"})
    answer = opened(service, dataset)
    assert (answer.status_code, answer.json()["code"]) == (409, "sessions_refused")
    assert record(service, with_refund["id"]).status_code == 200
    assert close(service, with_refund["id"]).json()["charged"]["share"] < with_refund["reserved"]["share"]
    ledger = service.entries(dataset)
    stated = [entry["body"] for entry in ledger if entry["kind"] == "session_rule"]
    assert ledger[0]["body"]["session_rule"] == "no_refund"
    assert [body["rule"] for body in stated] == ["refund", "refused"]
    assert {(body["dataset"], body["by"]) for body in stated} == {(dataset, "bootstrap")}
    verify_ledger([Entry.from_json(entry) for entry in ledger])


def test_records_elsewhere_have_sessions(service: Service) -> None:
    spec = {"name": "registry", "data": "elsewhere", "rows": 5000, "budget": {"epsilon": 3.0, "delta": 1e-6}}
    registry = service.call("steward", "POST", "/v1/datasets", files={"spec": (None, json.dumps(spec))}).json()
    service.grant(registry["id"], "the analyst")
    sampled = {"type": "SampledWithoutReplacementDpEvent", "source_dataset_size": 5000, "sample_size": 50}
    new_session = session(service, registry["id"], {"events": [many(10, sampled | {"event": GAUSSIAN})]})
    record(service, new_session["id"], {"steps": 5})
    assert close(service, new_session["id"]).json()["charged"]["share"] < new_session["reserved"]["share"]


def test_jobs_and_sessions_share_one_budget_and_a_top_up_adds_to_it(service: Service) -> None:
    dataset = service.dataset(budget={"epsilon": 1.0, "delta": 1e-6})
    new_session = session(service, dataset, TARGET | {"privacy": {"epsilon": 0.6}})
    job = JOB | {"dataset": dataset, "privacy": {"epsilon": 0.9}}
    assert refused(service.call("analyst", "POST", "/v1/jobs", json=job), "budget_exhausted")
    record(service, new_session["id"], {"steps": 2})
    larger = {"budget": {"epsilon": 2.0, "delta": 1e-6}}
    assert service.call("steward", "PATCH", f"/v1/datasets/{dataset}", json=larger).status_code == 200
    assert service.call("analyst", "POST", "/v1/jobs", json=job).status_code == 202
    close(service, new_session["id"])
    assert service.budget(dataset)["jobs"] == 2


def test_an_allotment_bounds_sessions_and_gets_their_refunds(service: Service) -> None:
    dataset = service.dataset()
    path = f"/v1/datasets/{dataset}/allotments/the analyst"
    allot = {"share": 0.2, "mode": "reserved"}
    assert service.call("steward", "PUT", path, json=allot).status_code == 200
    assert refused(opened(service, dataset, {"events": [many(20)]}), "budget_exhausted")
    new_session = session(service, dataset, {"events": [many(5)]})
    assert 0.2 < new_session["reserved"]["share"] <= 1.0, "the share of the own part"
    used = service.call("steward", "GET", path).json()["used"]
    assert used == pytest.approx(new_session["reserved"]["share"])
    record(service, new_session["id"])
    final = close(service, new_session["id"]).json()
    assert final["charged"]["share"] == pytest.approx(used / 5, rel=1e-6)
    assert service.call("steward", "GET", path).json()["used"] == pytest.approx(used / 5, rel=1e-6)


def test_others_cannot_see_a_session_and_stewards_can_end_it(service: Service) -> None:
    dataset = service.dataset()
    service.analyst("bob", dataset)
    new_session = session(service, dataset)
    path = f"/v1/sessions/{new_session['id']}"
    for method, of in (("GET", ""), ("GET", "/receipt"), ("POST", "/close")):
        assert refused(service.call("bob", method, path + of), "not_found")
    assert refused(record(service, new_session["id"], role="bob"), "not_found")
    assert service.call("bob", "GET", "/v1/sessions").json()["items"] == []
    for role in ("auditor", "steward"):
        assert service.call(role, "GET", "/v1/sessions").json()["items"] == [new_session]
        assert service.call(role, "GET", path).json() == new_session
    assert refused(close(service, new_session["id"], "auditor"), "forbidden")
    assert close(service, new_session["id"], "steward").json()["state"] == "closed"


def test_a_session_outlives_its_grant_and_its_token(service: Service) -> None:
    dataset = service.dataset()
    token = service.analyst("bob", dataset)
    new_session = opened(service, dataset, role="bob").json()
    service.call("steward", "DELETE", f"/v1/datasets/{dataset}/grants/bob")
    assert refused(opened(service, dataset, role="bob"), "not_found")
    assert record(service, new_session["id"], role="bob").status_code == 200
    service.call("steward", "DELETE", f"/v1/tokens/{token['id']}")
    assert refused(record(service, new_session["id"], role="bob"), "unauthenticated")
    service.analyst("bob")
    assert close(service, new_session["id"], "bob").json()["plan"][0]["recorded"] == 1


def test_the_scope_decides_over_sessions(service: Service) -> None:
    dataset = service.dataset()
    for name, scopes in (("reads", ["read", "submit"]), ("runs", ["session"])):
        service.tokens[name] = service.token(name, scopes=scopes)["token"]
        service.grant(dataset, name)
    assert refused(opened(service, dataset, role="reads"), "forbidden")
    new_session = opened(service, dataset, role="runs").json()
    assert record(service, new_session["id"], role="runs").status_code == 200
    assert refused(service.call("runs", "GET", f"/v1/sessions/{new_session['id']}"), "forbidden")


def test_the_number_of_open_sessions_is_limited(tmp_path: Path, make_service: MakeService) -> None:
    clock = MovableClock(1.0)
    with make_service(tmp_path / "home", clock=clock, max_open_sessions_per_analyst=2) as service:
        dataset = service.dataset()
        first = session(service, dataset, {"events": [GAUSSIAN], "lifetime": 60})
        session(service, dataset)
        answer = opened(service, dataset)
        assert (answer.status_code, answer.json()["code"]) == (429, "too_many_requests")
        assert answer.headers["Retry-After"]
        assert opened(service, dataset, role="steward").status_code == 201
        clock.moved = 61.0
        session(service, dataset)
        assert refused(opened(service, dataset), "too_many_requests")
        assert close(service, first["id"]).json()["state"] == "expired"


def test_lists_have_pages_and_a_filter(service: Service) -> None:
    datasets = [service.dataset(name=f"d{i}") for i in range(2)]
    opened_sessions = [session(service, datasets[i % 2]) for i in range(4)]
    ids = [each["id"] for each in opened_sessions]
    first_page = service.call("analyst", "GET", "/v1/sessions", params={"limit": 3}).json()
    query = {"limit": 3, "cursor": first_page["next"]}
    second_page = service.call("analyst", "GET", "/v1/sessions", params=query).json()
    assert sorted(each["id"] for each in first_page["items"] + second_page["items"]) == sorted(ids)
    assert second_page["next"] is None
    for named in (datasets[1], "d1"):
        filtered_sessions = service.call("analyst", "GET", "/v1/sessions", params={"dataset": named}).json()["items"]
        assert {each["id"] for each in filtered_sessions} == {ids[1], ids[3]}


def test_the_ledger_lists_an_analysts_sessions_and_the_head_follows_them(service: Service) -> None:
    dataset = service.dataset()
    service.analyst("bob", dataset)
    new_session = session(service, dataset)
    opened(service, dataset, role="bob")
    close(service, new_session["id"])
    path = f"/v1/datasets/{dataset}/ledger"
    mine = service.call("auditor", "GET", path, params={"analyst": "the analyst"}).json()["items"]
    assert [(entry["kind"], entry["body"]["session"]) for entry in mine] == [
        ("reserved", new_session["id"]),
        ("settled", new_session["id"]),
    ]
    settled = service.call("auditor", "GET", path, params={"kind": "settled"}).json()["items"]
    assert settled == mine[1:]
    assert service.call("analyst", "GET", f"{path}/head").json()["sequence"] == mine[1]["sequence"]
    assert service.call("bob", "GET", f"{path}/head").json()["sequence"] == 1


def test_a_session_that_the_ledger_does_not_state_ends_without_a_refund(service: Service) -> None:
    dataset = service.dataset()
    new_session = session(service, dataset)
    close(service, new_session["id"])
    entries_before = service.entries(dataset)
    with service.database.write() as connection:  # as a writer of the database would, for a second refund
        values = {"state": "open", "settled": None, "ended_at": None}
        connection.execute(sa.update(sessions).where(sessions.c.id == new_session["id"]).values(**values))
    assert close(service, new_session["id"]).json()["state"] == "closed"
    assert service.entries(dataset) == entries_before


def receipt(service: Service, session_id: str, role: str = "analyst") -> Any:
    return service.call(role, "GET", f"/v1/sessions/{session_id}/receipt")


def test_an_ended_session_has_a_receipt_that_the_ledger_confirms(service: Service) -> None:
    dataset = service.dataset()
    new_session = session(service, dataset, TARGET | {"title": "a survey"})
    record(service, new_session["id"], {"steps": 4})
    assert refused(receipt(service, new_session["id"]), "session_open")
    final = close(service, new_session["id"]).json()
    document = receipt(service, new_session["id"]).json()
    stated = document["receipt"]
    assert (stated["kind"], stated["session"], stated["state"]) == ("session", new_session["id"], "closed")
    assert (stated["title"], stated["plan"][0]["recorded"], stated["charged"]) == ("a survey", 4, "recorded")
    assert (stated["epsilon"], stated["delta"]) == (
        new_session["reserved"]["epsilon"],
        new_session["reserved"]["delta"],
    )
    assert stated["charged_epsilon"] == pytest.approx(final["charged"]["epsilon"])
    assert stated["share"] == final["charged"]["share"]
    assert receipt(service, new_session["id"], "auditor").json() == document
    report = service.call(None, "POST", "/v1/receipts/verify", json=document).json()
    assert report["valid"] is True, report
    forged = document | {"receipt": stated | {"share": 0.0}}
    assert service.call(None, "POST", "/v1/receipts/verify", json=forged).json()["valid"] is False
    ledger = [Entry.from_json(entry) for entry in service.entries(dataset)]
    assert verify_receipt(document, service.call(None, "GET", "/v1/keys").json(), ledger).holds


def test_a_receipt_needs_no_calculation(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    """The epsilon of many different events takes seconds, which only the pool of calculations may spend."""
    dataset = service.dataset()
    new_session = session(service, dataset)
    record(service, new_session["id"], {"steps": 3})
    final = close(service, new_session["id"]).json()
    monkeypatch.setattr(session_receipt, "plan_epsilon", None)
    stated = receipt(service, new_session["id"]).json()["receipt"]
    assert (stated["charged"], stated["charged_epsilon"]) == ("recorded", final["charged"]["epsilon"])


def test_the_receipt_of_an_expired_session_states_the_whole_charge(service: Service, clock: MovableClock) -> None:
    dataset = service.dataset()
    new_session = session(service, dataset, {"events": [many(10)], "lifetime": 60})
    record(service, new_session["id"], {"steps": 3})
    clock.moved = 61.0
    document = receipt(service, new_session["id"]).json()
    stated = document["receipt"]
    assert (stated["state"], stated["charged"], stated["plan"][0]["recorded"]) == ("expired", "plan", 3)
    assert stated["share"] == new_session["reserved"]["share"]
    assert service.call(None, "POST", "/v1/receipts/verify", json=document).json()["valid"] is True
    assert service.call("analyst", "GET", f"/v1/sessions/{new_session['id']}").json()["state"] == "expired"


def test_a_refunded_session_of_a_withdrawn_dataset_has_a_receipt(service: Service) -> None:
    dataset = service.dataset()
    new_session = session(service, dataset)
    assert service.call("steward", "DELETE", f"/v1/datasets/{dataset}").json()["data"] == "withdrawn"
    stated = receipt(service, new_session["id"]).json()["receipt"]
    assert (stated["charged"], stated["charged_epsilon"], stated["share"]) == ("recorded", 0.0, 0.0)


@pytest.mark.parametrize("kind", ["rdp", "gdp_rdp"])
def test_a_charge_beyond_an_exceeded_budget_states_no_share(service: Service, kind: str) -> None:
    """An outside charge may leave the most room on an order on which the session alone exceeds the threshold."""
    dataset = service.dataset(budget={"epsilon": 1.0, "delta": 1e-6, "filter": kind})
    new_session = session(
        service, dataset, {"events": [many(110, {"type": "GaussianDpEvent", "noise_multiplier": 100.0})]}
    )
    record(service, new_session["id"], {"steps": 109})
    outside = {"label": "x", "event": {"type": "EpsilonDeltaDpEvent", "epsilon": 50.0}, "exceeds": True}
    assert service.call("steward", "POST", f"/v1/datasets/{dataset}/charges", json=outside).status_code == 201
    assert close(service, new_session["id"]).json()["charged"]["share"] is None
    answer = receipt(service, new_session["id"])
    assert (answer.status_code, answer.json()["receipt"].get("share")) == (200, None)
    ledger = [Entry.from_json(entry) for entry in service.entries(dataset)]
    assert verify_receipt(answer.json(), service.call(None, "GET", "/v1/keys").json(), ledger).holds


def test_a_reserved_allotment_states_no_share_of_the_whole_budget(service: Service) -> None:
    dataset = service.dataset()
    allot = {"share": 0.2, "mode": "reserved"}
    service.call("steward", "PUT", f"/v1/datasets/{dataset}/allotments/the analyst", json=allot)
    new_session = session(service, dataset, {"events": [many(5)]})
    close(service, new_session["id"])
    assert "share" not in receipt(service, new_session["id"]).json()["receipt"]
