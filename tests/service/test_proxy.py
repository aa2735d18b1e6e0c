"""Behind a proxy: a prefix before every path, and headers that are believed of the proxy alone."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI
from pydantic import ValidationError

from app.http.protocol import ConnectionLimits
from app.http.routing import own_path
from app.http.server import configured
from app.settings import Settings
from purse import Client
from tests.service.conftest import MakeService
from tests.support.live import live
from tests.support.service import JOB, Service


@pytest.fixture(scope="module")
def behind(make_service: MakeService, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with make_service(tmp_path_factory.mktemp("behind"), root_path="/purse") as service:
        yield service


@pytest.mark.slow
def test_every_link_has_the_prefix(behind: Service) -> None:
    document = behind.client.get("/purse/openapi.json").json()
    assert document["servers"] == [{"url": "/purse"}]
    assert all(path.startswith(("/v1/", "/health/", "/metrics", "/docs")) for path in document["paths"])
    assert 'href="openapi.json"' in behind.client.get("/purse/docs").text
    response = behind.call("analyst", "POST", "/purse/v1/jobs", json=JOB | {"dataset": behind.dataset()})
    assert response.headers["Location"] == f"/purse/v1/jobs/{response.json()['id']}"
    assert behind.call("analyst", "GET", response.headers["Location"]).json()["id"] == response.json()["id"]


@pytest.mark.parametrize("prefix", ["", "/purse"])
def test_a_proxy_may_strip_the_prefix_or_keep_it(behind: Service, prefix: str) -> None:
    assert behind.client.get(f"{prefix}/health/live").status_code == 200
    refused = behind.client.request("BREW", f"{prefix}/v1/tokens")
    assert (refused.status_code, refused.headers["Allow"]) == (405, "GET, HEAD, POST")
    metrics = behind.call("auditor", "GET", f"{prefix}/metrics").text
    assert 'route="/health/live"' in metrics
    assert 'route="/purse' not in metrics, "a route is its template without the prefix"
    assert behind.client.get("/elsewhere/health/live").status_code == 404


def test_a_path_that_only_starts_like_the_prefix_is_not_shortened() -> None:
    """Otherwise the routes and their guards could treat a path differently."""
    for path, own in (("/pages", "/pages"), ("/p", ""), ("/p/pages", "/pages"), ("/p/p/x", "/p/x")):
        assert own_path({"type": "http", "path": path, "root_path": "/p"}) == own
    assert own_path({"type": "http", "path": "/pages", "root_path": ""}) == "/pages"


@pytest.mark.slow
def test_the_client_takes_an_address_with_a_prefix(tmp_path: Path) -> None:
    with live(tmp_path, root_path="/purse") as server, Client(f"{server.url}/purse", server.token) as client:
        assert client.datasets.list() == client.datasets.list(columns=False) == []


@pytest.mark.parametrize(
    ("trusted", "peer", "believed"),
    [
        (None, "127.0.0.1", False),
        ("10.0.0.0/8", "127.0.0.1", False),
        ("10.0.0.0/8, 127.0.0.1", "127.0.0.1", True),
        ("10.0.0.0/8", "10.1.2.3", True),
    ],
)
def test_forwarded_headers_of_trusted_peers_only_are_used(
    monkeypatch: pytest.MonkeyPatch, trusted: str | None, peer: str, believed: bool
) -> None:
    """A caller that is not a trusted proxy could write any address into these headers."""
    monkeypatch.setenv("FORWARDED_ALLOW_IPS", "*")  # uvicorn's own setting, which is not used here
    clients: list[tuple[str, Any]] = []

    async def app(scope: Any, _receive: Any, _send: Any) -> None:
        clients.append((scope["scheme"], scope["client"]))

    headers = [(b"x-forwarded-for", b"192.0.2.7, 203.0.113.9"), (b"x-forwarded-proto", b"https")]
    scope = {"type": "http", "scheme": "http", "client": (peer, 5), "headers": headers}
    config = configured(FastAPI(), ConnectionLimits(), trusted)
    config.app = app
    config.load()
    asyncio.run(config.loaded_app(scope, None, None))
    assert clients == [("https", ("203.0.113.9", 0)) if believed else ("http", (peer, 5))]


@pytest.mark.parametrize("wrong", ["*", "everybody", "10.0.0.0/8,", "10.0.0.1/8"])
def test_proxies_are_named_by_their_networks(wrong: str) -> None:
    with pytest.raises(ValidationError):
        Settings(trusted_proxies=wrong)


@pytest.mark.parametrize("wrong", ["/", "purse", "/purse/", "//", "/a b", "/<x>"])
def test_a_prefix_is_a_path(wrong: str) -> None:
    with pytest.raises(ValidationError):
        Settings(root_path=wrong)
