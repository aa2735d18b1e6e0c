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
from app.ledger import audit, checkpoints
from app.persistence.tables import sessions
from tests.service.conftest import MakeService
from tests.support.clocks import FastClock
from tests.support.patience import PATIENCE
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


@pytest.fixture(autouse=True)
def _without_checkpoints(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the server settles expired sessions five seconds after its start, at any point of a test."""
    monkeypatch.setattr(checkpoints, "FIRST_SECONDS", PATIENCE)


@pytest.fixture
def clock() -> MovableClock:
    return MovableClock(1.0)


@pytest.fixture
def service(tmp_path: Path, make_service: MakeService, clock: MovableClock) -> Iterator[Service]:
    with make_service(tmp_path / "home", clock=clock) as made:
        yield made
        audit.refuse_unsound(made.database)


def opened(service: Service, dataset: str, body: Any = None, who: str = "analyst", **headers: str) -> Any:
    """Open a session, by default of ten Gaussian answers, and return the response."""
    body = {"events": [many(10)]} if body is None else body
    return service.call(who, "POST", f"/v1/datasets/{dataset}/sessions", json=body, headers=headers)


def session(service: Service, dataset: str, body: Any = None) -> Any:
    response = opened(service, dataset, body)
    assert response.status_code == 201, response.text
    return response.json()


def record(service: Service, session_id: str, body: Any = None, who: str = "analyst", **headers: str) -> Any:
    path = f"/v1/sessions/{session_id}/steps"
    return service.call(who, "POST", path, json={} if body is None else body, headers=headers)


def close(service: Service, session_id: str, who: str = "analyst") -> Any:
    return service.call(who, "POST", f"/v1/sessions/{session_id}/close")


def budget(service: Service, dataset: str) -> Any:
    return service.call("steward", "GET", f"/v1/datasets/{dataset}/budget").json()


def entries(service: Service, dataset: str) -> list[Any]:
    listed: list[Any] = service.call("auditor", "GET", f"/v1/datasets/{dataset}/ledger").json()["items"]
    return listed


def refused(response: Any, code: str) -> bool:
    return bool(response.json().get("code") == code)


def test_a_session_reserves_its_whole_plan_before_the_first_answer(service: Service) -> None:
    dataset = service.dataset()
    response = opened(service, dataset, {"events": [many(10), LAPLACE], "title": "a survey", "lifetime": 3600})
    made = response.json()
    assert response.status_code == 201, response.text
    assert response.headers["Location"] == f"/v1/sessions/{made['id']}"
    assert (made["dataset"], made["analyst"], made["title"], made["state"]) == (
        dataset,
        "the analyst",
        "a survey",
        "open",
    )
    assert made["plan"] == [
        {"event": GAUSSIAN, "count": 10, "recorded": 0, "refundable": True},
        {"event": LAPLACE, "count": 1, "recorded": 0, "refundable": True},
    ]
    assert made["noise_multiplier"] is None
    assert made["charged"] == made["reserved"]
    spent = budget(service, dataset)
    assert spent["jobs"] == 1
    assert spent["share"] == pytest.approx(made["reserved"]["share"])
    assert 0 < made["reserved"]["epsilon"] <= spent["spent"]["epsilon"] * (1 + 1e-9)
    assert [entry["kind"] for entry in entries(service, dataset)] == ["opened", "reserved"]
    assert service.call("analyst", "GET", f"/v1/sessions/{made['id']}").json() == made


def test_a_composed_event_becomes_entries_of_the_plan(service: Service) -> None:
    composed = {"type": "ComposedDpEvent", "events": [many(3), LAPLACE]}
    made = session(service, service.dataset(), {"events": [composed, GAUSSIAN]})
    assert [(part["event"], part["count"]) for part in made["plan"]] == [(GAUSSIAN, 3), (LAPLACE, 1), (GAUSSIAN, 1)]


@pytest.mark.parametrize("q", [1.0, 0.1])
def test_a_target_gets_the_noise_that_keeps_it(service: Service, q: float) -> None:
    dataset = service.dataset()
    made = session(service, dataset, TARGET | {"sampling_probability": q})
    assert 0.99 < made["reserved"]["epsilon"] <= 1.0
    [part] = made["plan"]
    answer = part["event"] if q == 1.0 else part["event"]["event"]
    assert (part["count"], answer["noise_multiplier"]) == (10, made["noise_multiplier"])
    assert part["event"].get("sampling_probability", 1.0) == q


def test_recording_counts_the_answers_and_stops_at_the_plan(service: Service) -> None:
    dataset = service.dataset()
    made = session(service, dataset, {"events": [many(10), LAPLACE]})
    before = budget(service, dataset)
    assert record(service, made["id"]).json()["plan"][0]["recorded"] == 1
    assert record(service, made["id"], {"steps": 9}).json()["plan"][0]["recorded"] == 10
    assert refused(record(service, made["id"]), "session_exhausted")
    assert refused(record(service, made["id"], {"event": 1, "steps": 2}), "session_exhausted")
    last = record(service, made["id"], {"event": 1}).json()
    assert [part["recorded"] for part in last["plan"]] == [10, 1]
    assert last["charged"] == made["reserved"]
    assert refused(record(service, made["id"], {"event": 2}), "out_of_range")
    assert budget(service, dataset) == before


def test_a_repeated_key_has_no_second_effect(service: Service) -> None:
    dataset, key = service.dataset(), {"Idempotency-Key": "k"}
    first, again = opened(service, dataset, **key), opened(service, dataset, **key)
    assert first.json() == again.json()
    assert budget(service, dataset)["jobs"] == 1
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
    made = session(service, dataset)
    record(service, made["id"], {"steps": 4})
    ended = close(service, made["id"]).json()
    assert (ended["state"], ended["ended_at"] is not None) == ("closed", True)
    assert ended["charged"]["share"] == pytest.approx(0.4 * made["reserved"]["share"], rel=1e-6)
    assert ended["charged"]["epsilon"] < made["reserved"]["epsilon"]
    assert ended["reserved"] == made["reserved"]
    assert budget(service, dataset)["share"] == pytest.approx(ended["charged"]["share"])
    assert close(service, made["id"]).json() == ended
    assert refused(record(service, made["id"]), "session_ended")
    [*_, entry] = entries(service, dataset)
    assert (entry["kind"], entry["body"]["recorded"], entry["body"]["reason"]) == ("settled", [4], "closed")


def test_a_session_without_answers_is_refunded_in_full(service: Service) -> None:
    dataset = service.dataset()
    ended = close(service, session(service, dataset)["id"]).json()
    assert ended["charged"] == {"share": 0.0, "epsilon": 0.0, "delta": 1e-6}
    assert budget(service, dataset)["jobs"] == 0


def test_an_expired_session_stays_charged_as_a_whole(service: Service, clock: MovableClock) -> None:
    dataset = service.dataset()
    made = session(service, dataset, {"events": [many(10)], "lifetime": 60})
    record(service, made["id"], {"steps": 3}, **{"Idempotency-Key": "k"})
    kinds = [entry["kind"] for entry in entries(service, dataset)]
    clock.moved = 61.0
    shown = service.call("auditor", "GET", f"/v1/sessions/{made['id']}").json()
    assert (shown["state"], shown["ended_at"], shown["charged"]) == ("expired", made["expires_at"], made["reserved"])
    assert [entry["kind"] for entry in entries(service, dataset)] == kinds, "reading writes nothing"
    assert refused(record(service, made["id"]), "session_ended")
    assert [entry["kind"] for entry in entries(service, dataset)] == [*kinds, "settled"]
    assert close(service, made["id"]).json() == shown
    assert service.call("analyst", "GET", "/v1/sessions").json()["items"] == [shown]
    assert budget(service, dataset)["jobs"] == 1


def test_a_session_that_took_the_whole_budget_returns_nothing_after_its_first_answer(service: Service) -> None:
    whole = TARGET | {"privacy": {"epsilon": 3.0}, "steps": 500, "sampling_probability": 0.05}
    dataset = service.dataset(budget={"epsilon": 3.0, "delta": 1e-6, "filter": "rdp"})
    made = session(service, dataset, whole)
    assert made["plan"][0]["refundable"] is False
    assert budget(service, dataset)["share"] == 1.0
    assert refused(opened(service, dataset), "budget_exhausted")
    assert close(service, made["id"]).json()["charged"]["share"] == 0.0
    second = session(service, dataset, whole)
    record(service, second["id"])
    assert close(service, second["id"]).json()["charged"] == second["reserved"]
    assert budget(service, dataset)["share"] == 1.0


def test_a_whole_budget_stays_charged_beside_an_outside_charge(service: Service) -> None:
    """A refund would allow other answers in some runs, and the certificate of the plan has used all of delta."""
    dataset = service.dataset(budget={"epsilon": 1.0, "delta": 1e-6})
    made = session(service, dataset, TARGET)
    record(service, made["id"])
    outside = {"label": "x", "event": LAPLACE, "exceeds": True}
    assert service.call("steward", "POST", f"/v1/datasets/{dataset}/charges", json=outside).status_code == 201
    close(service, made["id"])
    assert not any(int(units) for units in entries(service, dataset)[-1]["body"]["refund"])
    assert budget(service, dataset)["exceeded"] is True


def test_a_plan_beyond_the_budget_is_refused_with_the_remaining_budget(service: Service) -> None:
    dataset = service.dataset()
    before = service.durable(dataset)
    answer = opened(service, dataset, {"events": [many(10**6)]})
    assert (answer.status_code, answer.json()["code"]) == (409, "budget_exhausted")
    assert answer.json()["remaining"] == {"epsilon": 3.0, "delta": 1e-6}
    assert service.durable(dataset) == before


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
    before = shared.durable(dataset)
    answer = opened(shared, dataset, body)
    assert (answer.status_code, answer.json()["code"]) == (422, code), answer.text
    assert shared.durable(dataset) == before


def test_gaussian_noise_has_no_price_under_pure(shared: Service) -> None:
    dataset = shared.dataset(budget={"epsilon": 3.0, "delta": 0.0, "filter": "pure"})
    assert refused(opened(shared, dataset), "method_filter_mismatch")
    made = session(shared, dataset, {"events": [LAPLACE]})
    assert made["reserved"]["delta"] == 0.0
    assert made["reserved"]["epsilon"] == pytest.approx(2 / 50)


def test_a_freeze_stops_new_sessions_and_steps_but_not_closing(service: Service) -> None:
    dataset = service.dataset()
    made = session(service, dataset)
    record(service, made["id"])
    service.call("steward", "PATCH", f"/v1/datasets/{dataset}", json={"frozen": True})
    assert refused(opened(service, dataset), "dataset_frozen")
    assert refused(record(service, made["id"]), "dataset_frozen")
    assert close(service, made["id"]).json()["plan"][0]["recorded"] == 1


@pytest.mark.parametrize(("steps", "data"), [(0, "withdrawn"), (2, "deleted")])
def test_deleting_the_values_ends_the_sessions(service: Service, steps: int, data: str) -> None:
    dataset = service.dataset()
    made = session(service, dataset)
    if steps:
        record(service, made["id"], {"steps": steps})
    assert service.call("steward", "DELETE", f"/v1/datasets/{dataset}").json()["data"] == data
    ended = service.call("analyst", "GET", f"/v1/sessions/{made['id']}").json()
    assert ended["state"] == "closed"
    assert ended["charged"]["share"] == (made["reserved"]["share"] if steps else 0.0)
    assert refused(record(service, made["id"]), "session_ended")
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
        assert budget(service, part)["jobs"] == 0


def test_the_steward_decides_whether_sessions_are_opened_and_refunded(service: Service) -> None:
    dataset = service.dataset(sessions="no_refund")
    kept = session(service, dataset)
    assert kept["plan"][0]["refundable"] is False
    assert close(service, kept["id"]).json()["charged"] == kept["reserved"]
    service.call("steward", "PATCH", f"/v1/datasets/{dataset}", json={"sessions": "refund"})
    returned = session(service, dataset)
    service.call("steward", "PATCH", f"/v1/datasets/{dataset}", json={"sessions": "refused"})
    answer = opened(service, dataset)
    assert (answer.status_code, answer.json()["code"]) == (409, "sessions_refused")
    assert record(service, returned["id"]).status_code == 200
    assert close(service, returned["id"]).json()["charged"]["share"] < returned["reserved"]["share"]
    listed = entries(service, dataset)
    stated = [entry["body"] for entry in listed if entry["kind"] == "session_rule"]
    assert listed[0]["body"]["session_rule"] == "no_refund"
    assert [body["rule"] for body in stated] == ["refund", "refused"]
    assert {(body["dataset"], body["by"]) for body in stated} == {(dataset, "bootstrap")}
    verify_ledger([Entry.from_json(entry) for entry in listed])


def test_records_elsewhere_have_sessions(service: Service) -> None:
    spec = {"name": "registry", "data": "elsewhere", "rows": 5000, "budget": {"epsilon": 3.0, "delta": 1e-6}}
    made = service.call("steward", "POST", "/v1/datasets", files={"spec": (None, json.dumps(spec))}).json()
    service.grant(made["id"], "the analyst")
    sampled = {"type": "SampledWithoutReplacementDpEvent", "source_dataset_size": 5000, "sample_size": 50}
    held = session(service, made["id"], {"events": [many(10, sampled | {"event": GAUSSIAN})]})
    record(service, held["id"], {"steps": 5})
    assert close(service, held["id"]).json()["charged"]["share"] < held["reserved"]["share"]


def test_a_family_shares_the_charge(service: Service) -> None:
    dataset, other = service.dataset(family="people"), service.dataset(family="people")
    session(service, dataset)
    session(service, other)
    assert budget(service, dataset)["jobs"] == budget(service, other)["jobs"] == 2


def test_jobs_and_sessions_share_one_budget_and_a_top_up_adds_to_it(service: Service) -> None:
    dataset = service.dataset(budget={"epsilon": 1.0, "delta": 1e-6})
    made = session(service, dataset, TARGET | {"privacy": {"epsilon": 0.6}})
    job = JOB | {"dataset": dataset, "privacy": {"epsilon": 0.9}}
    assert refused(service.call("analyst", "POST", "/v1/jobs", json=job), "budget_exhausted")
    record(service, made["id"], {"steps": 2})
    larger = {"budget": {"epsilon": 2.0, "delta": 1e-6}}
    assert service.call("steward", "PATCH", f"/v1/datasets/{dataset}", json=larger).status_code == 200
    assert service.call("analyst", "POST", "/v1/jobs", json=job).status_code == 202
    close(service, made["id"])
    assert budget(service, dataset)["jobs"] == 2


def test_an_allotment_bounds_sessions_and_gets_their_refunds(service: Service) -> None:
    dataset = service.dataset()
    path = f"/v1/datasets/{dataset}/allotments/the analyst"
    allot = {"share": 0.2, "mode": "reserved"}
    assert service.call("steward", "PUT", path, json=allot).status_code == 200
    assert refused(opened(service, dataset, {"events": [many(20)]}), "budget_exhausted")
    made = session(service, dataset, {"events": [many(5)]})
    assert 0.2 < made["reserved"]["share"] <= 1.0, "the share of the own part"
    used = service.call("steward", "GET", path).json()["used"]
    assert used == pytest.approx(made["reserved"]["share"])
    record(service, made["id"])
    ended = close(service, made["id"]).json()
    assert ended["charged"]["share"] == pytest.approx(used / 5, rel=1e-6)
    assert service.call("steward", "GET", path).json()["used"] == pytest.approx(used / 5, rel=1e-6)


def test_others_cannot_see_a_session_and_stewards_can_end_it(service: Service) -> None:
    dataset = service.dataset()
    service.analyst("bob", dataset)
    made = session(service, dataset)
    path = f"/v1/sessions/{made['id']}"
    for method, of in (("GET", ""), ("GET", "/receipt"), ("POST", "/close")):
        assert refused(service.call("bob", method, path + of), "not_found")
    assert refused(record(service, made["id"], who="bob"), "not_found")
    assert service.call("bob", "GET", "/v1/sessions").json()["items"] == []
    for who in ("auditor", "steward"):
        assert service.call(who, "GET", "/v1/sessions").json()["items"] == [made]
        assert service.call(who, "GET", path).json() == made
    assert refused(close(service, made["id"], "auditor"), "forbidden")
    assert close(service, made["id"], "steward").json()["state"] == "closed"


def test_a_session_outlives_its_grant_and_its_token(service: Service) -> None:
    dataset = service.dataset()
    token = service.analyst("bob", dataset)
    made = opened(service, dataset, who="bob").json()
    service.call("steward", "DELETE", f"/v1/datasets/{dataset}/grants/bob")
    assert refused(opened(service, dataset, who="bob"), "not_found")
    assert record(service, made["id"], who="bob").status_code == 200
    service.call("steward", "DELETE", f"/v1/tokens/{token['id']}")
    assert refused(record(service, made["id"], who="bob"), "unauthenticated")
    service.analyst("bob")
    assert close(service, made["id"], "bob").json()["plan"][0]["recorded"] == 1


def test_the_scope_decides_over_sessions(service: Service) -> None:
    dataset = service.dataset()
    for name, scopes in (("reads", ["read", "submit"]), ("runs", ["session"])):
        body = {"name": name, "role": "analyst", "scopes": scopes}
        service.tokens[name] = service.call("steward", "POST", "/v1/tokens", json=body).json()["token"]
        service.grant(dataset, name)
    assert refused(opened(service, dataset, who="reads"), "forbidden")
    made = opened(service, dataset, who="runs").json()
    assert record(service, made["id"], who="runs").status_code == 200
    assert refused(service.call("runs", "GET", f"/v1/sessions/{made['id']}"), "forbidden")


def test_the_number_of_open_sessions_is_limited(tmp_path: Path, make_service: MakeService) -> None:
    clock = MovableClock(1.0)
    with make_service(tmp_path / "home", clock=clock, max_open_sessions_per_analyst=2) as service:
        dataset = service.dataset()
        first = session(service, dataset, {"events": [GAUSSIAN], "lifetime": 60})
        session(service, dataset)
        answer = opened(service, dataset)
        assert (answer.status_code, answer.json()["code"]) == (429, "too_many_requests")
        assert answer.headers["Retry-After"]
        assert opened(service, dataset, who="steward").status_code == 201
        clock.moved = 61.0
        session(service, dataset)
        assert refused(opened(service, dataset), "too_many_requests")
        assert close(service, first["id"]).json()["state"] == "expired"


def test_lists_have_pages_and_a_filter(service: Service) -> None:
    datasets = [service.dataset(name=f"d{i}") for i in range(2)]
    made = [session(service, datasets[i % 2]) for i in range(4)]
    ids = [each["id"] for each in made]
    first = service.call("analyst", "GET", "/v1/sessions", params={"limit": 3}).json()
    rest = service.call("analyst", "GET", "/v1/sessions", params={"limit": 3, "cursor": first["next"]}).json()
    assert sorted(each["id"] for each in first["items"] + rest["items"]) == sorted(ids)
    assert rest["next"] is None
    for named in (datasets[1], "d1"):
        found = service.call("analyst", "GET", "/v1/sessions", params={"dataset": named}).json()["items"]
        assert {each["id"] for each in found} == {ids[1], ids[3]}


def test_the_ledger_lists_an_analysts_sessions_and_the_head_follows_them(service: Service) -> None:
    dataset = service.dataset()
    service.analyst("bob", dataset)
    made = session(service, dataset)
    opened(service, dataset, who="bob")
    close(service, made["id"])
    path = f"/v1/datasets/{dataset}/ledger"
    mine = service.call("auditor", "GET", path, params={"analyst": "the analyst"}).json()["items"]
    assert [(entry["kind"], entry["body"]["session"]) for entry in mine] == [
        ("reserved", made["id"]),
        ("settled", made["id"]),
    ]
    settled = service.call("auditor", "GET", path, params={"kind": "settled"}).json()["items"]
    assert settled == mine[1:]
    assert service.call("analyst", "GET", f"{path}/head").json()["sequence"] == mine[1]["sequence"]
    assert service.call("bob", "GET", f"{path}/head").json()["sequence"] == 1


def test_a_session_that_the_ledger_does_not_state_ends_without_a_refund(service: Service) -> None:
    dataset = service.dataset()
    made = session(service, dataset)
    close(service, made["id"])
    before = entries(service, dataset)
    with service.database.write() as connection:  # as a writer of the database would, for a second refund
        values = {"state": "open", "settled": None, "ended_at": None}
        connection.execute(sa.update(sessions).where(sessions.c.id == made["id"]).values(**values))
    assert close(service, made["id"]).json()["state"] == "closed"
    assert entries(service, dataset) == before


def receipt(service: Service, session_id: str, who: str = "analyst") -> Any:
    return service.call(who, "GET", f"/v1/sessions/{session_id}/receipt")


def test_an_ended_session_has_a_receipt_that_the_ledger_confirms(service: Service) -> None:
    dataset = service.dataset()
    made = session(service, dataset, TARGET | {"title": "a survey"})
    record(service, made["id"], {"steps": 4})
    assert refused(receipt(service, made["id"]), "session_open")
    ended = close(service, made["id"]).json()
    document = receipt(service, made["id"]).json()
    stated = document["receipt"]
    assert (stated["kind"], stated["session"], stated["state"]) == ("session", made["id"], "closed")
    assert (stated["title"], stated["plan"][0]["recorded"], stated["charged"]) == ("a survey", 4, "recorded")
    assert (stated["epsilon"], stated["delta"]) == (made["reserved"]["epsilon"], made["reserved"]["delta"])
    assert stated["charged_epsilon"] == pytest.approx(ended["charged"]["epsilon"])
    assert stated["share"] == ended["charged"]["share"]
    assert receipt(service, made["id"], "auditor").json() == document
    report = service.call(None, "POST", "/v1/receipts/verify", json=document).json()
    assert report["valid"] is True, report
    forged = document | {"receipt": stated | {"share": 0.0}}
    assert service.call(None, "POST", "/v1/receipts/verify", json=forged).json()["valid"] is False
    listed = [Entry.from_json(entry) for entry in entries(service, dataset)]
    assert verify_receipt(document, service.call(None, "GET", "/v1/keys").json(), listed).holds


def test_a_receipt_is_made_without_a_calculation(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    """The epsilon of many different events takes seconds, which only the pool of calculations may spend."""
    dataset = service.dataset()
    made = session(service, dataset)
    record(service, made["id"], {"steps": 3})
    ended = close(service, made["id"]).json()
    monkeypatch.setattr(session_receipt, "plan_epsilon", None)
    stated = receipt(service, made["id"]).json()["receipt"]
    assert (stated["charged"], stated["charged_epsilon"]) == ("recorded", ended["charged"]["epsilon"])


def test_the_receipt_of_an_expired_session_states_the_whole_charge(service: Service, clock: MovableClock) -> None:
    dataset = service.dataset()
    made = session(service, dataset, {"events": [many(10)], "lifetime": 60})
    record(service, made["id"], {"steps": 3})
    clock.moved = 61.0
    document = receipt(service, made["id"]).json()
    stated = document["receipt"]
    assert (stated["state"], stated["charged"], stated["plan"][0]["recorded"]) == ("expired", "plan", 3)
    assert stated["share"] == made["reserved"]["share"]
    assert service.call(None, "POST", "/v1/receipts/verify", json=document).json()["valid"] is True
    assert service.call("analyst", "GET", f"/v1/sessions/{made['id']}").json()["state"] == "expired"


def test_a_refunded_session_of_a_withdrawn_dataset_has_a_receipt(service: Service) -> None:
    dataset = service.dataset()
    made = session(service, dataset)
    assert service.call("steward", "DELETE", f"/v1/datasets/{dataset}").json()["data"] == "withdrawn"
    stated = receipt(service, made["id"]).json()["receipt"]
    assert (stated["charged"], stated["charged_epsilon"], stated["share"]) == ("recorded", 0.0, 0.0)


@pytest.mark.parametrize("kind", ["rdp", "gdp_rdp"])
def test_a_charge_beyond_an_exceeded_budget_states_no_share(service: Service, kind: str) -> None:
    """An outside charge may leave the most room on an order on which the session alone exceeds the threshold."""
    dataset = service.dataset(budget={"epsilon": 1.0, "delta": 1e-6, "filter": kind})
    made = session(service, dataset, {"events": [many(110, {"type": "GaussianDpEvent", "noise_multiplier": 100.0})]})
    record(service, made["id"], {"steps": 109})
    outside = {"label": "x", "event": {"type": "EpsilonDeltaDpEvent", "epsilon": 50.0}, "exceeds": True}
    assert service.call("steward", "POST", f"/v1/datasets/{dataset}/charges", json=outside).status_code == 201
    assert close(service, made["id"]).json()["charged"]["share"] is None
    answer = receipt(service, made["id"])
    assert (answer.status_code, answer.json()["receipt"].get("share")) == (200, None)
    listed = [Entry.from_json(entry) for entry in entries(service, dataset)]
    assert verify_receipt(answer.json(), service.call(None, "GET", "/v1/keys").json(), listed).holds


def test_a_reserved_allotment_states_no_share_of_the_whole_budget(service: Service) -> None:
    dataset = service.dataset()
    allot = {"share": 0.2, "mode": "reserved"}
    service.call("steward", "PUT", f"/v1/datasets/{dataset}/allotments/the analyst", json=allot)
    made = session(service, dataset, {"events": [many(5)]})
    close(service, made["id"])
    assert "share" not in receipt(service, made["id"]).json()["receipt"]
