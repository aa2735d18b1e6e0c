"""Rates: every route refuses who asks too often, and nobody else."""

import math
from collections.abc import Iterator

import httpx
import pytest
from fastapi.testclient import TestClient

from app.http import work
from app.http.rates import UNLIMITED
from tests.service.conftest import MakeService
from tests.support.access import EVERY, PROTECTED, PUBLIC, example_path
from tests.support.clocks import HeldClock
from tests.support.service import Service

QUOTA = 30
pytestmark = pytest.mark.slow


@pytest.fixture
def clock() -> HeldClock:
    return HeldClock()


@pytest.fixture(autouse=True)
def _cheap_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let each request cost one, independently of its duration. tests/unit/app/test_work.py tests the real costs."""
    monkeypatch.setattr(work, "SECONDS_EACH", math.inf)


@pytest.fixture
def service(tmp_path_factory: pytest.TempPathFactory, make_service: MakeService, clock: HeldClock) -> Iterator[Service]:
    """A service that accepts three requests a second by caller and by address, with a stopped clock."""
    home = tmp_path_factory.mktemp("rates") / "home"
    with make_service(home, clock=clock, caller_rate=3, stranger_rate=3, total_rate=1000) as limited:
        for role in limited.tokens:
            limited.call(role, "GET", "/v1/datasets")
        yield limited


def _drain(service: Service, role: str | None, path: str = "/v1/keys") -> httpx.Response:
    """The first answer that is a refusal."""
    for _ in range(QUOTA):
        answer = service.call(role, "GET", path)
        if answer.status_code == 429:
            return answer
    return service.call(role, "GET", path)


def _is_refused(answer: httpx.Response, kind: str, quota: int = QUOTA) -> bool:
    if answer.status_code != 429:
        return False
    assert answer.json()["code"] == "too_many_requests"
    assert answer.headers["Retry-After"] == "1"
    assert answer.headers["RateLimit-Policy"] == f'"{kind}";q={quota};w=10'
    assert answer.headers["RateLimit"] == f'"{kind}";r=0;t=10'
    return True


def test_every_route_refuses_too_many_requests(service: Service, clock: HeldClock) -> None:
    """A caller is limited over all of its requests, a stranger by address. Other callers and probes are served."""
    assert _is_refused(_drain(service, "analyst", "/v1/datasets"), "caller")
    for method, route in EVERY:
        refused = _is_refused(service.call("analyst", method, example_path(route)), "caller")
        assert refused == (route.path not in UNLIMITED), (method, route.path)
    assert service.call("auditor", "GET", "/v1/datasets").status_code == 200
    assert _is_refused(_drain(service, None), "address")
    for method, path in PUBLIC:
        assert _is_refused(service.call(None, method, path), "address") == (path not in UNLIMITED), path
    for method, route in PROTECTED:
        assert _is_refused(service.call(None, method, example_path(route)), "address")
    assert service.call("auditor", "GET", "/v1/datasets").status_code == 200, "a known caller has no address"
    other_address = TestClient(service.app, client=("192.0.2.7", 1))
    assert other_address.get("/v1/keys").status_code == 200
    clock.pass_(1.1)
    assert service.call("analyst", "GET", "/v1/datasets").status_code == 200
    assert service.call(None, "GET", "/v1/keys").status_code == 200


def test_an_answer_states_the_remaining_requests(service: Service, clock: HeldClock) -> None:
    clock.pass_(20)
    for remaining in (29, 28, 27):
        answer = service.call("analyst", "GET", "/v1/datasets")
        assert answer.headers["RateLimit"] == f'"caller";r={remaining};t={-(-(QUOTA - remaining) // 3)}'
        assert answer.headers["RateLimit-Policy"] == f'"caller";q={QUOTA};w=10'
    assert "RateLimit" not in service.call(None, "GET", "/health/live").headers


def test_guesses_of_tokens_are_limited_by_address(service: Service) -> None:
    service.tokens |= {str(guess): f"purse_{guess}" for guess in range(QUOTA + 1)}
    statuses = [service.call(str(guess), "GET", "/v1/datasets").status_code for guess in range(QUOTA + 1)]
    assert set(statuses) == {401, 429}
    assert statuses == sorted(statuses)
    assert service.call("analyst", "GET", "/v1/datasets").status_code == 200


def test_a_revoked_token_counts_as_a_guess(service: Service, clock: HeldClock) -> None:
    """A person who found a revoked token cannot use up the limits of its identity."""
    clock.pass_(20)
    tokens = {token["name"]: token["id"] for token in service.call("steward", "GET", "/v1/tokens").json()["items"]}
    assert service.call("steward", "DELETE", f"/v1/tokens/{tokens['the analyst']}").status_code == 204
    first, second = (service.call("analyst", "GET", "/v1/datasets") for _ in range(2))
    assert first.status_code == second.status_code == 401
    assert first.headers["RateLimit"].startswith('"caller"')
    assert second.headers["RateLimit"].startswith('"address"')


def test_tokens_of_one_identity_share_a_bucket(service: Service, clock: HeldClock) -> None:
    clock.pass_(20)
    service.tokens["again"] = service.token("the analyst")["token"]
    service.call("again", "GET", "/v1/datasets")
    assert _is_refused(_drain(service, "again", "/v1/datasets"), "caller")
    assert _is_refused(service.call("analyst", "GET", "/v1/datasets"), "caller")


def test_all_requests_together_are_bounded_except_probes(
    tmp_path_factory: pytest.TempPathFactory, make_service: MakeService, clock: HeldClock
) -> None:
    """Strangers get half of the rate, so that callers are still served."""
    with make_service(tmp_path_factory.mktemp("all") / "home", clock=clock, total_rate=4) as service:
        clock.pass_(20)
        service.call("analyst", "GET", "/v1/datasets")
        responses = [service.call(None, "GET", "/v1/keys") for _ in range(25)]
        assert {response.status_code for response in responses} == {200, 503}
        assert (responses[-1].json()["code"], responses[-1].headers["Retry-After"]) == ("overloaded", "1")
        responses = [service.call("analyst", "GET", "/v1/datasets") for _ in range(30)]
        assert [response.status_code for response in responses[:5]] == [200] * 5
        assert responses[-1].status_code == 503
        for path in UNLIMITED:
            assert service.call(None, "GET", path).status_code == 200


def test_probes_are_recognised_behind_a_prefix(
    tmp_path_factory: pytest.TempPathFactory, make_service: MakeService, clock: HeldClock
) -> None:
    with make_service(
        tmp_path_factory.mktemp("prefix") / "h", clock=clock, stranger_rate=1, root_path="/purse"
    ) as service:
        assert _is_refused(_drain(service, None), "address", quota=10)
        for path in UNLIMITED:
            for probe in (path, f"/purse{path}"):
                assert service.call(None, "GET", probe).status_code == 200


def test_simultaneous_uploads_are_limited(service: Service) -> None:
    """A steward may send four uploads at once. The fifth is refused before a byte is written."""
    uploads = service.app.state.services.uploads
    tokens = service.call("steward", "GET", "/v1/tokens").json()["items"]
    steward = {token["name"]: token["identity"] for token in tokens}["bootstrap"]
    for _ in range(4):
        uploads.take(steward)
    refusal = service.upload()
    assert (refusal.status_code, refusal.json()["code"]) == (429, "too_many_requests")
    uploads.leave(steward)
    assert service.upload().status_code == 201
