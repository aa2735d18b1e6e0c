"""Tokens: who may do what, from the first start to the last steward."""

import hashlib
import os
import stat
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from fastapi.routing import APIRoute
from fastapi.testclient import TestClient
from pydantic import SecretStr

from app.http.routing import dependants, routes
from app.identity.dependencies import Require
from app.main import ROUTERS, create_app
from app.settings import Settings
from tests.support.calculations import InlineCalculators
from tests.support.inline_engine import InlineEngine
from tests.support.service import STEWARD, Service

ROLES = ("steward", "analyst", "auditor")
PUBLIC = {
    ("GET", "/health/live"),
    ("GET", "/health/ready"),
    ("GET", "/metrics"),
    ("GET", "/docs"),
    ("GET", "/openapi.json"),
    ("GET", "/v1/keys"),
    ("POST", "/v1/receipts/verify"),
}
# API.md's column "who"; a steward may do all that an analyst may.
ALL = frozenset(ROLES)
RULES = {
    ("POST", "/v1/tokens"): {"steward"},
    ("GET", "/v1/tokens"): {"steward"},
    ("DELETE", "/v1/tokens/{token_id}"): {"steward"},
    ("POST", "/v1/datasets"): {"steward"},
    ("GET", "/v1/datasets"): ALL,
    ("GET", "/v1/datasets/{dataset_id}"): ALL,
    ("GET", "/v1/datasets/{dataset_id}/budget"): ALL,
    ("GET", "/v1/datasets/{dataset_id}/ledger"): {"steward", "auditor"},
    ("GET", "/v1/datasets/{dataset_id}/ledger/head"): {"steward", "auditor"},
    ("POST", "/v1/quotes"): {"steward", "analyst"},
    ("POST", "/v1/jobs"): {"steward", "analyst"},
    ("GET", "/v1/jobs"): ALL,
    ("GET", "/v1/jobs/{job_id}"): {"steward", "analyst"},
    ("GET", "/v1/jobs/{job_id}/events"): {"steward", "analyst"},
    ("DELETE", "/v1/jobs/{job_id}"): {"steward", "analyst"},
    ("GET", "/v1/jobs/{job_id}/model"): {"steward", "analyst"},
    ("GET", "/v1/jobs/{job_id}/receipt"): ALL,
    ("GET", "/v1/jobs/{job_id}/profile"): ALL,
}
EVERY = [(method, route) for route in routes(ROUTERS) for method in sorted(route.methods or ())]
PROTECTED = [(method, route) for method, route in EVERY if (method, route.path) not in PUBLIC]


def _path(route: APIRoute) -> str:
    path = route.path
    for name in ("token_id", "dataset_id", "job_id"):
        path = path.replace(f"{{{name}}}", "nobody")
    assert "{" not in path
    return path


def _named(value: object) -> str:
    return value.path if isinstance(value, APIRoute) else str(value)


def test_every_route_is_public_by_name_or_has_a_rule() -> None:
    """A new route fails here until somebody has decided who may call it."""
    found = {(method, route.path) for method, route in EVERY}
    assert found == PUBLIC | set(RULES)


@pytest.mark.parametrize(("method", "route"), EVERY, ids=_named)
def test_rule_is_in_the_routes_own_dependencies(method: str, route: APIRoute) -> None:
    allowed = [d.call.roles for d in dependants(route) if isinstance(d.call, Require)]
    if (method, route.path) in PUBLIC:
        assert allowed == []
    else:
        assert frozenset.intersection(*allowed) == RULES[method, route.path]


@pytest.mark.parametrize(("method", "route"), PROTECTED, ids=_named)
@pytest.mark.parametrize(
    "header",
    [
        None,
        "",
        "Bearer",
        "Bearer ",
        "Bearer nobody",
        f"Basic {STEWARD}",
        f"bearer  x{STEWARD}",
        f"Bearer {STEWARD[:-1]}",
    ],
)
def test_no_valid_token_is_401(shared: Service, method: str, route: APIRoute, header: str | None) -> None:
    headers = {} if header is None else {"Authorization": header}
    response = shared.client.request(method, _path(route), headers=headers)
    assert response.status_code == 401
    assert response.json()["code"] == "unauthenticated"
    assert response.headers["WWW-Authenticate"] == "Bearer"
    assert response.headers["Content-Type"] == "application/problem+json"


@pytest.mark.parametrize(("method", "route"), PROTECTED, ids=_named)
@pytest.mark.parametrize("role", ROLES)
def test_wrong_role_is_403_and_right_role_is_let_in(shared: Service, method: str, route: APIRoute, role: str) -> None:
    response = shared.call(role, method, _path(route))
    if role in RULES[method, route.path]:
        assert response.status_code not in (401, 403)
    else:
        assert response.status_code == 403
        assert response.json()["code"] == "forbidden"


def _make(service: Service, name: str, role: str) -> dict[str, Any]:
    response = service.call("steward", "POST", "/v1/tokens", json={"name": name, "role": role})
    assert response.status_code == 201
    made: dict[str, Any] = response.json()
    service.tokens[name] = made["token"]
    return made


def test_token_is_long_shown_once_and_stored_as_a_hash(service: Service) -> None:
    made = _make(service, "ada", "analyst")
    assert made["token"].startswith("purse_")
    assert len(made["token"]) == len("purse_") + 43
    listed = service.call("steward", "GET", "/v1/tokens").text
    assert made["id"] in listed
    assert made["token"] not in listed
    for file in service.home.rglob("*"):
        if file.is_file():
            assert made["token"].encode() not in file.read_bytes()
    assert hashlib.sha256(made["token"].encode()).hexdigest().encode() in b"".join(
        file.read_bytes() for file in service.home.glob("purse.sqlite3*")
    )


def test_revoked_token_is_out_at_once_and_for_good(service: Service) -> None:
    made = _make(service, "ada", "analyst")
    assert service.call("ada", "GET", "/v1/datasets").status_code == 200
    assert service.call("steward", "DELETE", f"/v1/tokens/{made['id']}").status_code == 204
    assert service.call("ada", "GET", "/v1/datasets").status_code == 401
    assert made["id"] not in service.call("steward", "GET", "/v1/tokens").text
    again = service.call("steward", "DELETE", f"/v1/tokens/{made['id']}")
    assert (again.status_code, again.json()["code"]) == (404, "not_found")


def test_last_steward_stays(service: Service) -> None:
    [first] = [t for t in service.call("steward", "GET", "/v1/tokens").json()["items"] if t["role"] == "steward"]
    refused = service.call("steward", "DELETE", f"/v1/tokens/{first['id']}")
    assert (refused.status_code, refused.json()["code"]) == (409, "last_steward")
    other = _make(service, "second", "steward")
    assert service.call("steward", "DELETE", f"/v1/tokens/{first['id']}").status_code == 204
    assert service.call("second", "DELETE", f"/v1/tokens/{other['id']}").status_code == 409
    assert service.call("second", "GET", "/v1/tokens").status_code == 200


def test_list_is_paged_and_misses_nothing(service: Service) -> None:
    made = [_make(service, f"person {i}", "analyst")["id"] for i in range(7)]
    seen: list[str] = []
    cursor: str | None = None
    while True:
        query = {"limit": 3} | ({"cursor": cursor} if cursor else {})
        page = service.call("steward", "GET", "/v1/tokens", params=query).json()
        seen += [token["id"] for token in page["items"]]
        assert len(page["items"]) <= 3
        cursor = page["next"]
        if cursor is None:
            break
        service.call("steward", "DELETE", f"/v1/tokens/{cursor}")  # a page may end at a token that goes
    assert len(seen) == len(set(seen)) == 10
    assert set(made) <= set(seen)


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
    ],
)
def test_bad_request_makes_no_token(shared: Service, body: dict[str, Any]) -> None:
    before = shared.call("steward", "GET", "/v1/tokens").text
    assert shared.call("steward", "POST", "/v1/tokens", json=body).status_code == 422
    assert shared.call("steward", "GET", "/v1/tokens").text == before


@pytest.mark.parametrize(
    "query", ["limit=0", "limit=501", "limit=x", "limit=1e1", "cursor=%00", "seed=1", "limit=1&limit=2"]
)
def test_bad_query_is_refused_without_being_repeated(shared: Service, query: str) -> None:
    response = shared.call("steward", "GET", f"/v1/tokens?{query}")
    assert response.status_code == 422
    assert response.json()["code"] in ("invalid_request", "out_of_range")
    assert "seed" not in response.text


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
    tmp_path: Path, make_service: Callable[..., AbstractContextManager[Service]]
) -> None:
    with make_service(tmp_path) as service:
        [first] = [t for t in service.call("steward", "GET", "/v1/tokens").json()["items"] if t["role"] == "steward"]
        other = _make(service, "second", "steward")
        assert not (tmp_path / "steward-token").exists()
    newer = "newer---" + "n" * 32
    settings = Settings(home=tmp_path, bootstrap_token=SecretStr(newer))
    with TestClient(create_app(settings, engine=InlineEngine(), calculators=InlineCalculators())) as client:
        for token in (STEWARD, newer, other["token"]):
            assert client.get("/v1/tokens", headers={"Authorization": f"Bearer {token}"}).status_code == 200
        gone = client.delete(f"/v1/tokens/{first['id']}", headers={"Authorization": f"Bearer {newer}"})
        assert gone.status_code == 204
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
