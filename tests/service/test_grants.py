"""Grants: without one a dataset is to an analyst as one that was never there, by every route that there is."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest
import sqlalchemy as sa
from httpx import Response

from app.datasets import grants, store
from app.http.errors import ApiError
from app.http.middleware import REQUEST
from app.http.routing import routes
from app.identity.store import Principal
from app.main import ROUTERS
from app.persistence.session import Database
from app.persistence.tables import identities
from tests.support.access import RULES
from tests.support.engines import reader, writer
from tests.support.service import JOB, OF_THE_REQUEST, Service
from tests.support.world import World

LISTS = {
    ("GET", "/v1/datasets"),
    ("GET", "/v1/jobs"),
    ("GET", "/v1/sessions"),
}  # these are of all that the caller may see
NOWHERE = {("POST", "/v1/calibrations")} | {rule for rule in RULES if "/v1/webhooks" in rule[1]}  # these meet none
PROFILE: dict[str, Any] = {"method": {"name": "profile"}, "privacy": {"epsilon": 0.2}}
# These name a dataset in their body.
TUNING: dict[str, Any] = {"target": "income", "candidates": [{}], "privacy": {"epsilon": 0.2}}
FORECAST: dict[str, Any] = {"target": "income", "privacy": {"epsilons": [1.0]}, "method": {"name": "dp_gd", "steps": 2}}
BODIES = {
    ("POST", "/v1/quotes"): JOB,
    ("POST", "/v1/jobs"): JOB,
    ("POST", "/v1/statistics"): PROFILE,
    ("POST", "/v1/tunings"): TUNING,
    ("POST", "/v1/forecasts"): FORECAST,
}
SESSION = {
    ("POST", "/v1/datasets/{dataset_id}/sessions"): {"events": [{"type": "LaplaceDpEvent", "noise_multiplier": 1e3}]}
}
EVALUATION = {
    ("POST", "/v1/models/{job_id}/evaluations"): {"privacy": {"epsilon": 0.2}}
}  # this one a model in its path
# What a job of somebody else tells whoever may use its dataset: a profile is the dataset's.
OPEN = {("GET", "/v1/jobs/{job_id}/profile"), ("GET", "/v1/jobs/{job_id}/receipt")}
ANALYSTS = sorted(rule for rule, roles in RULES.items() if "analyst" in roles)
OF_A_DATASET = [rule for rule in ANALYSTS if "{dataset_id}" in rule[1] or rule in BODIES]
OF_A_JOB = [rule for rule in ANALYSTS if "{job_id}" in rule[1]]
OF_A_SESSION = [rule for rule in ANALYSTS if "{session_id}" in rule[1]]


@dataclass(frozen=True)
class Case:
    """A dataset with a profile that its analyst released, and a stranger with a grant on another dataset only."""

    service: Service
    dataset: str
    profile: str
    model: str


@pytest.fixture(scope="module")
def case(shared: Service) -> Case:
    dataset = shared.dataset()
    requests = (PROFILE, {"target": "income", "privacy": {"epsilon": 0.2}})
    jobs = [shared.done({"dataset": dataset, **body})["id"] for body in requests]
    for name in ("stranger", "friend"):
        shared.analyst(name)
        shared.analysts.remove(name)
    assert shared.attach(dataset).status_code == 200
    shared.grant(dataset, "friend")
    shared.grant(shared.dataset(), "stranger")
    return Case(shared, dataset, *jobs)


def _ask(service: Service, caller: str, rule: tuple[str, str], dataset: str = "", job: str = "") -> Response:
    method, path = rule
    options = (
        {"json": BODIES[rule] | {"dataset": dataset}} if rule in BODIES else {"json": (EVALUATION | SESSION).get(rule)}
    )
    path = path.replace("{dataset_id}", dataset).replace("{job_id}", job)
    assert "{" not in path, "replace the path's other parameter here too, by a name that the dataset has"
    return service.call(caller, method, path, **options)


@contextmanager
def _statements(database: Database) -> Iterator[list[str]]:
    """Collect the statements of requests, without those of background threads."""
    statements: list[str] = []

    def note(_connection: object, _cursor: object, statement: str, *_: object) -> None:
        if REQUEST.get() is not None:
            statements.append(statement)

    async def noted(question: sa.Select[Any], values: Mapping[str, str]) -> Sequence[Sequence[Any]]:
        statements.append(str(question))
        return await ask(question, values)

    ask, database.ask = database.ask, noted  # type: ignore[method-assign]
    for engine in (reader(database), writer(database)):
        sa.event.listen(engine, "before_cursor_execute", note)
    try:
        yield statements
    finally:
        database.ask = ask  # type: ignore[method-assign]
        for engine in (reader(database), writer(database)):
            sa.event.remove(engine, "before_cursor_execute", note)


def _comparable(response: Response) -> tuple[int, bytes, dict[str, str]]:
    headers = {name: value for name, value in response.headers.items() if name not in OF_THE_REQUEST}
    return response.status_code, response.content, headers


def _answers(
    service: Service, ask: Callable[[str], Response], references: Sequence[str]
) -> tuple[list[tuple[int, bytes, dict[str, str]]], list[list[str]]]:
    """Return the answers for these ids or names, and the database's statements for each."""
    answers, statements_of_all = [], []
    for reference in references:
        with _statements(service.database) as statements:
            answers.append(_comparable(ask(reference)))
        statements_of_all.append(list(statements))
    return answers, statements_of_all


def _look_the_same(service: Service, ask: Callable[[str], Response], hidden: str, unknown: str) -> None:
    """Assert that both are answered with the same 404 after the same statements."""
    answers, statements = _answers(service, ask, (hidden, unknown))
    assert answers[0] == answers[1]
    assert statements[0] == statements[1] != []
    assert answers[0][0] == 404


def test_every_route_has_a_rule_for_datasets_without_a_grant() -> None:
    """A new route that analysts may call fails here until its answer without a grant is decided."""
    known_routes = {*OF_A_DATASET, *OF_A_JOB, *OF_A_SESSION, *LISTS, *NOWHERE}
    assert set(ANALYSTS) == known_routes, "add a route without dataset or job in its path to LISTS, NOWHERE or BODIES"
    assert {(method, route.path) for route in routes(ROUTERS) for method in route.methods or ()} >= set(ANALYSTS)


@pytest.mark.parametrize("rule", OF_A_DATASET, ids=" ".join)
def test_without_a_grant_a_dataset_looks_like_an_unknown_one(case: Case, rule: tuple[str, str]) -> None:
    """The answers and the database's statements are equal, for an id and for a name."""
    name = case.service.call("steward", "GET", f"/v1/datasets/{case.dataset}").json()["name"]
    for hidden, unknown in ((case.dataset, "ds_" + "a" * 20), (name, "nobody 1")):
        _look_the_same(case.service, partial(_ask, case.service, "stranger", rule), hidden, unknown)
    by_name = _ask(case.service, "friend", rule, name)
    assert by_name.status_code in (200, 201, 202)
    if rule in BODIES:  # test_dataset_names.py reads by name
        assert by_name.json().get("dataset", by_name.json().get("quote", {}).get("dataset")) == case.dataset


def test_jobs_are_listed_by_the_name_of_their_dataset(case: Case) -> None:
    name = case.service.call("steward", "GET", f"/v1/datasets/{case.dataset}").json()["name"]

    def listed(caller: str, reference: str) -> list[str]:
        page = case.service.call(caller, "GET", "/v1/jobs", params={"dataset": reference}).json()
        return [job["id"] for job in page["items"]]

    assert set(listed("analyst", name)) >= {case.profile, case.model}
    assert listed("analyst", "nobody 1") == listed("stranger", name) == []


def test_a_lock_that_finds_no_grant_refuses_the_request(case: Case) -> None:
    """On PostgreSQL a grant may be committed between the lock, which finds no row, and the later reads."""
    with case.service.database.write() as connection:
        [stranger] = connection.execute(sa.select(identities.c.id).where(identities.c.name == "stranger")).scalars()
        with pytest.raises(ApiError, match="not_found"):
            store.lock(connection, case.dataset, Principal(stranger, "stranger", "analyst"))


@pytest.mark.parametrize("rule", OF_A_JOB, ids=" ".join)
@pytest.mark.parametrize("kind", ["profile", "model"])
def test_without_a_grant_its_jobs_look_like_unknown_ones(case: Case, rule: tuple[str, str], kind: str) -> None:
    job, answers_by_name = getattr(case, kind), {}
    for name in ("stranger", "friend"):
        answers, statements = _answers(
            case.service, partial(_ask, case.service, name, rule, ""), (job, "job_" + "a" * 20)
        )
        answers_by_name[name] = answers
        assert answers[1][0] == 404
        assert (answers[0] == answers[1]) == (statements[0] == statements[1]) or answers[0][0] == 200
    assert answers_by_name["stranger"][0] == answers_by_name["stranger"][1]
    assert answers_by_name["friend"][0][0] == (200 if kind == "profile" and rule in OPEN else 404)


@pytest.mark.parametrize("rule", OF_A_SESSION, ids=" ".join)
def test_another_analysts_session_looks_like_an_unknown_one(case: Case, rule: tuple[str, str]) -> None:
    [(opening, body)] = SESSION.items()
    opened_session = case.service.call(
        "analyst", "POST", opening[1].replace("{dataset_id}", case.dataset), json=body
    ).json()

    def ask(session: str) -> Response:
        path = rule[1].replace("{session_id}", session)
        return case.service.call("friend", rule[0], path, json={} if "steps" in path else None)

    _look_the_same(case.service, ask, opened_session["id"], "sess_" + "a" * 20)


def test_without_a_grant_a_dataset_is_in_no_list_and_on_no_page(case: Case) -> None:
    def page(cursor: str | None) -> dict[str, Any]:
        query = {"limit": 1} | ({"cursor": cursor} if cursor else {})
        answer: dict[str, Any] = case.service.call("stranger", "GET", "/v1/datasets", params=query).json()
        return answer

    first = page(None)
    assert len(first["items"]) == 1
    assert (first["items"][0]["id"], first["next"]) != (case.dataset, None)
    assert first["next"] is None
    assert page(case.dataset) == page("ds_" + "a" * 20) == {"items": [], "next": None}
    for path in ("/v1/jobs", "/v1/sessions"):
        assert case.service.call("stranger", "GET", path).json() == {"items": [], "next": None}


@pytest.mark.slow
def test_the_next_page_of_jobs_shows_nothing_of_other_analysts(case: Case) -> None:
    """A cursor that counts all jobs would reveal how many jobs others submitted."""
    service, [own] = case.service, case.service.call("stranger", "GET", "/v1/datasets").json()["items"]

    def submit(role: str, dataset: str) -> str:
        body = PROFILE | {"dataset": dataset, "privacy": {"epsilon": 0.05}}
        job: str = service.call(role, "POST", "/v1/statistics", json=body).json()["id"]
        return job

    def page(cursor: str | None, order: str) -> dict[str, Any]:
        query = {"limit": 1, "order": order} | ({"cursor": cursor} if cursor else {})
        listing: dict[str, Any] = service.call("stranger", "GET", "/v1/jobs", params=query).json()
        return {"ids": [job["id"] for job in listing["items"]], "next": listing["next"]}

    first = submit("stranger", own["id"])
    foreign_jobs = [submit("friend", case.dataset) for _ in range(3)]
    second = submit("stranger", own["id"])
    for order, (first_listed, second_listed) in (("desc", (second, first)), ("asc", (first, second))):
        assert page(None, order) == {"ids": [first_listed], "next": first_listed}
        assert page(first_listed, order) == {"ids": [second_listed], "next": None}
        for foreign in (case.profile, *foreign_jobs, "job_" + "a" * 20):
            assert page(foreign, order) == {"ids": [], "next": None}
    assert {service.finished(job)["state"] for job in (first, *foreign_jobs, second)} == {"done"}


def test_a_profile_of_a_dataset_without_a_grant_does_not_exist(case: Case) -> None:
    """The answer "that profile is of another dataset" would reveal that the job exists."""
    [own] = case.service.call("stranger", "GET", "/v1/datasets").json()["items"]
    answers = []
    for job in (case.profile, case.model, "job_" + "a" * 20):
        body = JOB | {"dataset": own["id"], "preparation": {"name": "profile", "job": job}}
        answers.append(_comparable(case.service.call("stranger", "POST", "/v1/quotes", json=body)))
    assert answers[0] == answers[1] == answers[2]
    assert answers[0][0] == 422


@pytest.mark.slow
def test_after_a_revocation_the_analyst_keeps_only_own_releases(service: Service) -> None:
    dataset = service.dataset()
    mine = service.done(JOB | {"dataset": dataset})["id"]
    theirs = service.done(PROFILE | {"dataset": dataset}, role="steward")["id"]
    service.engine.gate.clear()
    waiting = service.call("analyst", "POST", "/v1/jobs", json=JOB | {"dataset": dataset}).json()["id"]
    assert service.call("steward", "DELETE", f"/v1/datasets/{dataset}/grants/the analyst").status_code == 204
    budget_before = service.budget(dataset)
    for rule in OF_A_DATASET:
        assert _ask(service, "analyst", rule, dataset).status_code == 404
    assert service.call("analyst", "GET", f"/v1/jobs/{theirs}/profile").status_code == 404
    assert service.budget(dataset) == budget_before
    service.engine.gate.set()
    assert service.finished(waiting)["state"] == "done"
    for job in (mine, waiting):
        for path in ("", "/model", "/receipt"):
            assert service.call("analyst", "GET", f"/v1/jobs/{job}{path}").status_code == 200
    assert [job["id"] for job in service.call("analyst", "GET", "/v1/jobs").json()["items"]] == [waiting, mine]


def test_a_grant_is_checked_in_the_transaction_of_the_charge(world: World) -> None:
    """A quote from before the revocation does not admit a job."""
    dataset = world.dataset()
    grants.revoke(world.database, dataset, "ada")
    state_before = world.dump()
    with pytest.raises(ApiError) as refused:
        world.submit(dataset)
    assert refused.value.code == "not_found"
    assert world.dump() == state_before


class TestGranting:
    def test_by_name_by_identity_or_as_the_answer_named_its_token(self, service: Service) -> None:
        dataset, token = service.dataset(), service.analyst("ada / \u738b")
        path = f"/v1/datasets/{dataset}/grants"
        for named in (token["identity"], token["id"]):
            grant = service.call("steward", "PUT", f"{path}/{named}")
            assert grant.status_code == 200
            assert grant.json()["analyst"] == "ada / \u738b"
            assert grant.json()["granted_by"] == "bootstrap"
            assert service.call("steward", "PUT", f"{path}/{named}").json() == grant.json()
            assert service.call("steward", "GET", f"{path}/{named}").json() == grant.json()
            assert service.call("steward", "DELETE", f"{path}/{named}").status_code == 204
            for method in ("GET", "DELETE"):
                assert service.call("steward", method, f"{path}/{named}").status_code == 404

    def test_is_for_analysts_and_datasets_that_are_there(self, service: Service) -> None:
        dataset = service.dataset()
        for method in ("PUT", "GET", "DELETE"):
            for path in (
                f"{dataset}/grants/nobody",
                f"{dataset}/grants/bootstrap",
                f"{dataset}/grants/the auditor",
                "ds_none/grants/the analyst",
                f"{dataset}/grants/x%00y",
            ):
                refused = service.call("steward", method, f"/v1/datasets/{path}")
                assert refused.status_code == (422 if "%00" in path else 404)
        assert service.call("steward", "GET", "/v1/datasets/ds_none/grants").status_code == 404

    def test_a_new_analyst_or_a_new_dataset_has_no_grant(self, service: Service) -> None:
        old_dataset = service.dataset()
        service.analyst("ada")
        service.analysts.clear()
        service.dataset()
        assert service.call("ada", "GET", "/v1/datasets").json()["items"] == []
        [listed_dataset] = service.call("analyst", "GET", "/v1/datasets").json()["items"]
        assert listed_dataset["id"] == old_dataset

    def test_is_listed_page_by_page(self, service: Service) -> None:
        dataset = service.dataset()
        names = ["the analyst", *(f"analyst {number}" for number in range(4))]
        for name in names[1:]:
            service.analyst(name, dataset)
        analysts: list[str] = []
        query: dict[str, Any] = {"limit": 2}
        while query:
            page = service.call("steward", "GET", f"/v1/datasets/{dataset}/grants", params=query).json()
            analysts += [grant["analyst"] for grant in page["items"]]
            query = {"limit": 2, "cursor": page["next"]} if page["next"] else {}
            service.call(
                "steward", "DELETE", f"/v1/datasets/{dataset}/grants/{analysts[-1]}"
            )  # a page may end at a revoked grant
        assert analysts == names[::-1]


def test_an_analysts_list_walks_no_dataset_that_is_not_granted(case: Case) -> None:
    with _statements(case.service.database) as statements:
        case.service.call("friend", "GET", "/v1/datasets")
    [listing] = [text for text in statements if "ORDER BY datasets.created_at" in text]
    with case.service.database.read() as connection:
        plan = connection.exec_driver_sql(f"explain query plan {listing}", ("idn", 1, 0)).all()
    assert not [row.detail for row in plan if row.detail.startswith("SCAN datasets")]
    assert any("ix_grants_identity" in row.detail for row in plan)
