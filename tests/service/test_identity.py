"""Tokens: who may do what, from the first start to the last steward."""

import hashlib
import os
import stat
from pathlib import Path
from typing import Any, get_args

import pytest
import sqlalchemy as sa
from fastapi.routing import APIRoute
from fastapi.testclient import TestClient
from pydantic import SecretStr

from app.http.queries import refuse_unknown
from app.http.routing import dependants, routes
from app.identity import service as service_of_tokens
from app.identity.dependencies import Require
from app.main import ROUTERS, create_app
from app.operations.routes import READER, monitor
from app.pages.routers import PAGES
from app.settings import Settings
from purse.wire.tokens import SCOPES, Scope
from tests.service.conftest import MakeService
from tests.support.access import EVERY, PROTECTED, PUBLIC, ROLES, RULES, SCOPED, example_path
from tests.support.calculations import InlineCalculators
from tests.support.clocks import HeldClock
from tests.support.inline_engine import InlineEngine
from tests.support.service import JOB, STEWARD, Service


def _required(route: APIRoute) -> list[Require]:
    called = [READER if d.call is monitor else d.call for d in dependants(route)]
    return [call for call in called if isinstance(call, Require)]


def _named(value: object) -> str:
    return value.path if isinstance(value, APIRoute) else str(value)


def test_every_route_is_public_by_name_or_has_a_rule() -> None:
    """A new route fails here until its roles are decided."""
    declared = {(method, route.path) for method, route in EVERY}
    assert declared == PUBLIC | set(RULES), "docs/http.md needs a row with the roles of each route"


def test_every_route_refuses_unknown_parameters() -> None:
    """Exceptions: probes and metrics, the provider's redirect (RFC 6749, 4.1.2), and the pages' answer to any path."""
    all_routes = routes((*ROUTERS, *PAGES))
    tolerant_paths = {
        route.path for route in all_routes if refuse_unknown not in [dependant.call for dependant in dependants(route)]
    }
    probes = {"/health/live", "/health/ready", "/metrics"}
    assert tolerant_paths == probes | {"/pages/sign-in/return", "/pages/{path:path}"}


@pytest.mark.parametrize(("method", "route"), EVERY, ids=_named)
def test_rule_is_in_the_routes_own_dependencies(method: str, route: APIRoute) -> None:
    required = _required(route)
    if (method, route.path) in PUBLIC:
        assert required == []
        return
    assert frozenset.intersection(*(require.roles for require in required)) == RULES[method, route.path]
    usual = {"read"} if method == "GET" else {"manage"}
    assert {require.scope for require in required} == SCOPED.get((method, route.path), usual)
    assert all(
        {require.scope for require in required} <= set(SCOPES[role])
        for role in SCOPES
        if role in RULES[method, route.path]
    )


NO_TOKENS = (
    "",
    "Bearer",
    "Bearer ",
    "Bearer nobody",
    f"Basic {STEWARD}",
    f"bearer  x{STEWARD}",
    f"Bearer {STEWARD[:-1]}",
)


@pytest.mark.parametrize(("method", "route"), PROTECTED, ids=_named)
def test_no_valid_token_is_401(shared: Service, method: str, route: APIRoute) -> None:
    for headers in ({}, *({"Authorization": header} for header in NO_TOKENS)):
        response = shared.client.request(method, example_path(route), headers=headers)
        assert (response.status_code, response.json()["code"]) == (401, "unauthenticated"), headers
        assert response.headers["WWW-Authenticate"] == "Bearer"
        assert response.headers["Content-Type"] == "application/problem+json"


@pytest.mark.parametrize(("method", "route"), PROTECTED, ids=_named)
def test_wrong_role_is_403_and_right_role_is_let_in(shared: Service, method: str, route: APIRoute) -> None:
    for role in ROLES:
        response = shared.call(role, method, example_path(route))
        if role in RULES[method, route.path]:
            assert response.status_code not in (401, 403), role
        else:
            assert (response.status_code, response.json()["code"]) == (403, "forbidden"), role
            needed = " or ".join(sorted(RULES[method, route.path]))
            assert f"this action needs the role {needed}." in response.json()["detail"]


@pytest.mark.parametrize("scope", get_args(Scope))
def test_a_token_permits_only_its_scopes(shared: Service, scope: str) -> None:
    """The role permits every call, so each refusal is due to the scope."""
    token = _make(shared, "all but one", "steward", scopes=[scope])
    granted_scopes = set(token["scopes"])
    assert granted_scopes == ({"quote", "submit"} if scope == "submit" else {scope})
    for method, route in PROTECTED:
        required_scopes = {require.scope for require in _required(route)}
        response = shared.call("all but one", method, example_path(route))
        assert (response.status_code == 403) == (not required_scopes <= granted_scopes), (method, route.path)
        if response.status_code == 403:
            assert response.json()["code"] == "forbidden"
            assert "lacks the scope" in response.json()["detail"]


def _make(service: Service, name: str, role: str, **more: Any) -> dict[str, Any]:
    token = service.token(name, role, **more)
    service.tokens[name] = token["token"]
    return token


class TestAnIdentity:
    @pytest.mark.slow
    def test_has_its_tokens_jobs_under_any_of_them(self, service: Service) -> None:
        """Tokens of one name share jobs, keys and spending, even after all of them were revoked."""
        dataset = service.dataset()
        first = _make(service, "ada", "analyst")
        service.grant(dataset, "ada")
        body = {"dataset": dataset, **JOB}
        job = service.call("ada", "POST", "/v1/jobs", json=body, headers={"Idempotency-Key": "k"}).json()["id"]
        second = _make(service, "ada", "analyst")
        assert second["identity"] == first["identity"]
        assert second["id"] != first["id"]
        assert service.call("steward", "DELETE", f"/v1/tokens/{first['id']}").status_code == 204
        again = service.call("ada", "POST", "/v1/jobs", json=body, headers={"Idempotency-Key": "k"}).json()
        assert again["id"] == job
        assert service.finished(job)["analyst"] == "ada"
        assert service.call("steward", "DELETE", f"/v1/tokens/{second['id']}").status_code == 204
        assert _make(service, "ada", "analyst")["identity"] == first["identity"]
        assert [listed_job["id"] for listed_job in service.call("ada", "GET", "/v1/jobs").json()["items"]] == [job]
        assert service.call("ada", "GET", f"/v1/jobs/{job}/model").status_code == 200
        assert service.call("ada", "GET", f"/v1/jobs/{job}/receipt").json()["receipt"]["analyst"] == "ada"
        [mine] = service.call("ada", "GET", f"/v1/datasets/{dataset}/budget").json()["analysts"]
        assert (mine["analyst"], mine["jobs"]) == ("ada", 1)

    def test_has_one_role_permanently(self, service: Service) -> None:
        token = _make(service, "ada", "analyst")
        tokens_before = service.call("steward", "GET", "/v1/tokens").text
        body = {"name": "ada", "role": "steward"}
        refused = service.call("steward", "POST", "/v1/tokens", json=body)
        assert (refused.status_code, refused.json()["code"]) == (409, "name_taken")
        assert service.call("steward", "GET", "/v1/tokens").text == tokens_before
        service.call("steward", "DELETE", f"/v1/tokens/{token['id']}")
        assert service.call("steward", "POST", "/v1/tokens", json=body).status_code == 409

    def test_of_the_services_own_finds_a_name(self, tmp_path: Path, make_service: MakeService) -> None:
        """An analyst called like the operator's token must not stop the next start."""
        with make_service(tmp_path) as service:
            [first] = service.call("steward", "GET", "/v1/tokens", params={"limit": 1, "order": "asc"}).json()["items"]
            assert (first["name"], first["role"]) == ("bootstrap", "steward")
            tokens = [service_of_tokens.own(service.database, name, "steward") for name in ("fit", "fit")]
            assert tokens[0].identity == tokens[1].identity
            assert service_of_tokens.own(service.database, "the analyst", "steward").name == "the analyst (2)"


class TestATokensLife:
    def test_ends_when_it_says(self, tmp_path: Path, make_service: MakeService) -> None:
        clock = HeldClock()
        with make_service(tmp_path, clock=clock) as service:
            token = _make(service, "ada", "analyst", lifetime=60)
            assert token["expires_at"] == "1970-01-01T00:01:00.000Z"
            clock.set_wall(59.9)
            assert service.call("ada", "GET", "/v1/datasets").status_code == 200
            clock.set_wall(0.1)
            assert service.call("ada", "GET", "/v1/datasets").json()["code"] == "unauthenticated"
            assert token["id"] not in service.call("steward", "GET", "/v1/tokens").text
            for method, path in (("DELETE", ""), ("POST", "/rotate")):
                assert service.call("steward", method, f"/v1/tokens/{token['id']}{path}").status_code == 404

    def test_gets_a_new_lifetime_when_it_is_rotated(self, tmp_path: Path, make_service: MakeService) -> None:
        clock = HeldClock()
        with make_service(tmp_path, clock=clock) as service:
            old = _make(service, "ada", "analyst", lifetime=3600, scopes=["read"])
            clock.set_wall(3000.0)
            new = service.call("steward", "POST", f"/v1/tokens/{old['id']}/rotate").json()
            assert service.call("ada", "GET", "/v1/datasets").status_code == 401
            service.tokens["ada"] = new["token"]
            assert service.call("ada", "GET", "/v1/datasets").status_code == 200
            unchanged = {name: old[name] for name in ("identity", "name", "role", "scopes")}
            assert {name: new[name] for name in unchanged} == unchanged
            assert new["expires_at"] == "1970-01-01T01:50:00.000Z"
            [first] = service.call("steward", "GET", "/v1/tokens", params={"limit": 1, "order": "asc"}).json()["items"]
            assert service.call("steward", "POST", f"/v1/tokens/{first['id']}/rotate").status_code == 201

    def test_is_no_longer_than_the_operator_allows(self, tmp_path: Path, make_service: MakeService) -> None:
        with make_service(tmp_path, clock=HeldClock(), max_token_lifetime=100) as service:
            assert _make(service, "ada", "analyst")["expires_at"] == "1970-01-01T00:01:40.000Z"
            body = {"name": "ada", "role": "analyst", "lifetime": 101}
            refused = service.call("steward", "POST", "/v1/tokens", json=body)
            assert (refused.status_code, refused.json()["code"]) == (422, "out_of_range")
            assert refused.json()["violations"][0]["where"] == "body.lifetime"

    @pytest.mark.slow
    def test_gets_an_end_when_a_token_without_one_is_rotated(self, tmp_path: Path, make_service: MakeService) -> None:
        with make_service(tmp_path, clock=HeldClock()) as service:
            endless, short = (_make(service, "ada", "analyst", lifetime=end) for end in (None, 60))
            assert endless["expires_at"] is None
        with make_service(tmp_path, clock=HeldClock(), max_token_lifetime=100) as service:
            for old, end in ((endless, "1970-01-01T00:01:40.000Z"), (short, "1970-01-01T00:01:00.000Z")):
                new = service.call("steward", "POST", f"/v1/tokens/{old['id']}/rotate").json()
                assert new["expires_at"] == end


def test_token_is_long_shown_once_and_stored_as_a_hash(service: Service) -> None:
    token = _make(service, "ada", "analyst")
    assert token["token"].startswith("purse_")
    assert len(token["token"]) == len("purse_") + 43
    token_list = service.call("steward", "GET", "/v1/tokens").text
    assert token["id"] in token_list
    assert token["token"] not in token_list
    for file in service.home.rglob("*"):
        if file.is_file():
            assert token["token"].encode() not in file.read_bytes()
    assert hashlib.sha256(token["token"].encode()).hexdigest().encode() in b"".join(
        file.read_bytes() for file in service.home.glob("purse.sqlite3*")
    )


def test_a_revoked_token_is_refused_at_once(service: Service) -> None:
    token = _make(service, "ada", "analyst")
    assert service.call("ada", "GET", "/v1/datasets").status_code == 200
    assert service.call("steward", "DELETE", f"/v1/tokens/{token['id']}").status_code == 204
    assert service.call("ada", "GET", "/v1/datasets").status_code == 401
    assert token["id"] not in service.call("steward", "GET", "/v1/tokens").text
    again = service.call("steward", "DELETE", f"/v1/tokens/{token['id']}")
    assert (again.status_code, again.json()["code"]) == (404, "not_found")


def test_last_steward_stays(service: Service) -> None:
    """A token of another role, or one that may only read, does not count as a steward."""
    _make(service, "watcher", "steward", scopes=["read", "submit"])
    [first] = [t for t in service.call("steward", "GET", "/v1/tokens").json()["items"] if "manage" in t["scopes"]]
    refused = service.call("steward", "DELETE", f"/v1/tokens/{first['id']}")
    assert (refused.status_code, refused.json()["code"]) == (409, "last_steward")
    second = _make(service, "second", "steward")
    assert service.call("steward", "DELETE", f"/v1/tokens/{first['id']}").status_code == 204
    assert service.call("second", "DELETE", f"/v1/tokens/{second['id']}").status_code == 409
    assert service.call("second", "GET", "/v1/tokens").status_code == 200


def test_a_page_may_end_at_a_token_that_is_revoked(service: Service) -> None:
    identifiers = {_make(service, f"person {i}", "analyst")["id"] for i in range(4)}
    page = service.call("steward", "GET", "/v1/tokens", params={"limit": 2}).json()
    assert service.call("steward", "DELETE", f"/v1/tokens/{page['next']}").status_code == 204
    following = service.call("steward", "GET", "/v1/tokens", params={"cursor": page["next"]}).json()
    assert identifiers < {token["id"] for token in (*page["items"], *following["items"])}


@pytest.mark.parametrize(
    "body",
    [
        {"name": "x", "role": "root"},
        {"name": "", "role": "analyst"},
        {"name": "a\nb", "role": "analyst"},
        {"name": "x" * 201, "role": "analyst"},
        {"name": "x", "role": "analyst", "token": "I would like this one, 32 characters long"},
        {"role": "analyst"},
        {"name": 5, "role": "analyst"},
        {"name": "x", "role": "analyst", "scopes": []},
        {"name": "x", "role": "analyst", "scopes": ["manage"]},
        {"name": "x", "role": "auditor", "scopes": ["read", "quote"]},
        {"name": "x", "role": "analyst", "lifetime": 59},
        {"name": "x", "role": "analyst", "lifetime": 1e9},
        {"name": "x", "role": "analyst", "lifetime": 315_360_001},
    ],
)
def test_bad_request_makes_no_token(shared: Service, body: dict[str, Any]) -> None:
    tokens_before = shared.call("steward", "GET", "/v1/tokens").text
    assert shared.call("steward", "POST", "/v1/tokens", json=body).status_code == 422
    assert shared.call("steward", "GET", "/v1/tokens").text == tokens_before


@pytest.mark.parametrize(
    "query", ["limit=0", "limit=501", "limit=zzz", "limit=1e1", "cursor=%00", "seed=zzz", "limit=1&limit=2"]
)
def test_a_bad_query_is_refused_without_repeating_its_value(shared: Service, query: str) -> None:
    response = shared.call("steward", "GET", f"/v1/tokens?{query}")
    assert response.status_code == 422
    assert response.json()["code"] in ("invalid_request", "out_of_range")
    assert "zzz" not in response.text


@pytest.fixture
def unset(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PURSE_BOOTSTRAP_TOKEN", raising=False)


@pytest.mark.usefixtures("unset")
def test_first_start_draws_a_token_and_prints_it_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings = Settings(home=tmp_path / "home")
    with TestClient(create_app(settings, engine=InlineEngine(), calculators=InlineCalculators())) as client:
        file = tmp_path / "home" / "steward-token"
        secret = file.read_text().strip()
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
        assert capsys.readouterr().out.count(secret) == 1
        assert client.get("/v1/tokens", headers={"Authorization": f"Bearer {secret}"}).status_code == 200
    with TestClient(create_app(settings, engine=InlineEngine(), calculators=InlineCalculators())) as client:
        assert secret not in capsys.readouterr().out
        assert client.get("/v1/tokens", headers={"Authorization": f"Bearer {secret}"}).status_code == 200


@pytest.mark.usefixtures("unset")
def test_bootstrap_token_leaves_the_environment_before_anything_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PURSE_BOOTSTRAP_TOKEN", STEWARD)
    create_app(Settings(home=tmp_path), engine=InlineEngine(), calculators=InlineCalculators())
    assert "PURSE_BOOTSTRAP_TOKEN" not in os.environ


@pytest.mark.slow
def test_bootstrap_token_is_ensured_at_every_start_but_not_after_its_revocation(
    tmp_path: Path, make_service: MakeService
) -> None:
    with make_service(tmp_path) as service:
        [first] = [t for t in service.call("steward", "GET", "/v1/tokens").json()["items"] if t["role"] == "steward"]
        second = _make(service, "second", "steward")
        assert not (tmp_path / "steward-token").exists()
    newer = "newer---" + "n" * 32
    settings = Settings(home=tmp_path, bootstrap_token=SecretStr(newer))
    with TestClient(create_app(settings, engine=InlineEngine(), calculators=InlineCalculators())) as client:
        for token in (STEWARD, newer, second["token"]):
            assert client.get("/v1/tokens", headers={"Authorization": f"Bearer {token}"}).status_code == 200
        revoked = client.delete(f"/v1/tokens/{first['id']}", headers={"Authorization": f"Bearer {newer}"})
        assert revoked.status_code == 204
    settings = Settings(home=tmp_path, bootstrap_token=SecretStr(STEWARD))
    with TestClient(create_app(settings, engine=InlineEngine(), calculators=InlineCalculators())) as client:
        assert client.get("/v1/tokens", headers={"Authorization": f"Bearer {STEWARD}"}).status_code == 401


def test_hash_lookup_uses_an_index(shared: Service) -> None:
    """The time of a lookup must not grow with the tokens, nor with how much of a hash agrees."""
    with shared.database.read() as connection:
        plan = connection.execute(
            sa.text("explain query plan select id from tokens where sha256 = 'x' and revoked_at is null")
        ).all()
    assert "USING INDEX" in str(plan)
