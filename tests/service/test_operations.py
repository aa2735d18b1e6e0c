"""Health, metrics, logs, and what becomes of errors that nobody expected."""

import json
import logging
import threading
import time
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from fastapi import APIRouter, FastAPI
from fastapi.testclient import TestClient
from pydantic import SecretStr

import app.main
from app.http import handlers
from app.http.middleware import Observed
from app.operations import routes
from app.operations.metrics import Metrics
from app.settings import Settings
from app.worker.engine import Coming
from tests.support.calculations import InlineCalculators
from tests.support.inline_engine import InlineEngine
from tests.support.patience import PATIENCE
from tests.support.service import JOB, SPEC, STEWARD, Service, people

CANARY = "canary4711"


def test_live_and_ready(shared: Service) -> None:
    assert shared.client.get("/health/live").json() == {"status": "ok"}
    assert shared.client.get("/health/ready").json() == {"status": "ok"}


def test_a_service_whose_database_does_not_answer_is_not_ready(
    shared: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = threading.Event()

    def fail(_base: Any) -> None:
        raise sa.exc.OperationalError(CANARY, {}, OSError(CANARY))

    for look, patience in ((fail, PATIENCE), (lambda _base: gate.wait(PATIENCE), 0.0)):
        with monkeypatch.context() as changed:
            changed.setattr(routes, "_look", look)
            changed.setattr(routes, "_PATIENCE", patience)
            refused = shared.client.get("/health/ready")
            assert (refused.status_code, refused.json()["code"]) == (503, "not_ready")
            assert CANARY not in refused.text
            assert shared.client.get("/health/live").status_code == 200
    gate.set()
    assert shared.client.get("/health/ready").status_code == 200


class _Cold(InlineCalculators):
    """Calculators that are warm when the gate opens, or never."""

    def __init__(self, ever: bool = True) -> None:
        self.gate, self._ever = threading.Event(), ever

    def is_warm(self) -> bool:
        self.gate.wait(PATIENCE)
        return self._ever


def test_ready_waits_for_the_warm_up(tmp_path: Any) -> None:
    cold = _Cold()
    settings = Settings(home=tmp_path, bootstrap_token=SecretStr(STEWARD))
    application = app.main.create_app(settings, engine=InlineEngine(), calculators=cold)
    with TestClient(application) as client:
        assert client.get("/health/live").status_code == 200
        early = client.get("/health/ready")
        assert (early.status_code, early.json()["code"]) == (503, "not_ready")
        cold.gate.set()
        assert application.state.services.ready.wait(PATIENCE)
        assert client.get("/health/ready").status_code == 200


def test_a_server_whose_accountants_do_not_load_never_becomes_ready(caplog: pytest.LogCaptureFixture) -> None:
    never, ready = _Cold(ever=False), threading.Event()
    never.gate.set()
    app.main._warm_up(ready, never, pytest.fail)
    assert not ready.is_set()
    assert "the accountants do not load" in caplog.text


@pytest.mark.slow
def test_a_server_is_ready_before_its_workers_are_and_its_jobs_wait_for_them(tmp_path: Path) -> None:
    gate, engine = threading.Event(), InlineEngine()

    def make() -> InlineEngine:
        gate.wait(PATIENCE)
        return engine

    settings = Settings(home=tmp_path, bootstrap_token=SecretStr(STEWARD))
    application = app.main.create_app(settings, engine=Coming(make), calculators=InlineCalculators())
    with TestClient(application, headers={"Authorization": f"Bearer {STEWARD}"}) as client:
        assert application.state.services.ready.wait(PATIENCE)
        files = {"file": ("people.csv", people())}
        dataset = client.post("/v1/datasets", data={"spec": json.dumps(SPEC)}, files=files).json()["id"]
        asked = JOB | {"dataset": dataset}
        job = client.post("/v1/jobs", json=asked, headers={"Idempotency-Key": "k1"}).json()["id"]
        assert client.get(f"/v1/jobs/{job}").json()["state"] == "queued"
        gate.set()
        deadline = time.monotonic() + PATIENCE
        while client.get(f"/v1/jobs/{job}").json()["state"] != "done":
            assert time.monotonic() < deadline
            time.sleep(0.05)
    engine.close()


def test_a_server_whose_workers_do_not_start_is_not_ready_until_they_do(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once a worker that was killed as it started left a server without any, for good."""
    ready, was_ready = threading.Event(), []
    monkeypatch.setattr(app.main, "_AGAIN", 0.0)

    def fail_twice() -> None:
        was_ready.append(ready.is_set())
        if len(was_ready) < 3:
            raise OSError("no room")

    app.main._warm_up(ready, InlineCalculators(), fail_twice)
    assert was_ready == [True, False, False]
    assert ready.is_set()
    assert caplog.text.count("the workers do not start: OSError") == 2


def test_an_engine_that_is_just_starting_is_closed_once_it_runs() -> None:
    starting, gate, engine = threading.Event(), threading.Event(), InlineEngine()

    def make() -> InlineEngine:
        starting.set()
        gate.wait(PATIENCE)
        return engine

    coming, closed = Coming(make), threading.Event()
    engine.close = closed.set  # type: ignore[method-assign]
    threads = [threading.Thread(target=coming.start), threading.Thread(target=coming.close)]
    threads[0].start()
    assert starting.wait(PATIENCE)
    threads[1].start()
    assert coming.slots == 0
    gate.set()
    for thread in threads:
        thread.join(PATIENCE)
    assert closed.is_set()
    coming.start()
    late = Coming(pytest.fail)
    late.close()
    late.start()
    assert late.slots == 0


def test_metrics_count_requests_by_template_and_jobs_by_state(service: Service) -> None:
    service.call("analyst", "GET", "/v1/datasets/nobody")
    service.call("analyst", "GET", f"/v1/datasets/{CANARY}")
    service.client.get(f"/{CANARY}?x={CANARY}")
    service.client.request("BREW", "/v1/datasets")
    text = service.client.get("/metrics").text
    assert CANARY not in text
    assert "_created" not in text, "no timing"
    assert 'purse_requests_total{method="GET",route="/v1/datasets/{dataset_id}",status="404"} 2.0' in text
    assert 'purse_requests_total{method="GET",route="-",status="404"} 1.0' in text
    assert 'purse_requests_total{method="other",route=' in text
    assert 'purse_jobs{state="queued"} 0.0' in text
    assert "purse_queue_length 0.0" in text


@pytest.mark.slow
def test_metrics_follow_the_queue(service: Service) -> None:
    service.engine.gate.clear()
    dataset = service.dataset()
    body = {"dataset": dataset, "target": "income", "privacy": {"epsilon": 0.1}}
    for _ in range(3):
        assert service.call("analyst", "POST", "/v1/jobs", json=body).status_code == 202
    while len(service.engine.submitted) < 2:
        threading.Event().wait(0.01)
    text = service.client.get("/metrics").text
    assert 'purse_jobs{state="queued"} 1.0' in text
    assert 'purse_jobs{state="running"} 2.0' in text
    assert "purse_queue_length 1.0" in text
    service.engine.gate.set()


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/nowhere", 404, "not_found"),
        ("GET", "/v1/tokens/", 404, "not_found"),
        ("PUT", "/v1/tokens", 405, "method_not_allowed"),
        ("POST", "/health/live", 405, "method_not_allowed"),
        ("GET", "/v1/keys?x=1", 422, "invalid_request"),
        ("GET", "/%00", 404, "not_found"),
        ("GET", "/..%2f..%2fetc/passwd", 404, "not_found"),
    ],
)
def test_framework_errors_are_problems(shared: Service, method: str, path: str, status: int, code: str) -> None:
    response = shared.client.request(method, path)
    assert response.status_code == status
    assert response.headers["Content-Type"] == "application/problem+json"
    problem = response.json()
    assert (problem["status"], problem["code"]) == (status, code)
    assert ("Allow" in response.headers) == (status == 405)


@pytest.mark.parametrize(
    ("path", "methods"),
    [
        ("/v1/tokens", "GET, HEAD, POST"),
        ("/v1/jobs/job_1", "DELETE, GET, HEAD"),
        ("/v1/quotes", "POST"),
        ("/health/live", "GET, HEAD"),
    ],
)
def test_allow_names_every_method_of_the_path(shared: Service, path: str, methods: str) -> None:
    for other in ("PATCH", "OPTIONS", "BREW"):
        response = shared.call("steward", other, path)
        assert (response.status_code, response.headers["Allow"]) == (405, methods)


@pytest.mark.slow
@pytest.mark.parametrize(
    "path", ["/health/live", "/v1/tokens", "/docs", "/v1/datasets/ds_none", "/nowhere", "/v1/jobs"]
)
def test_head_is_get_without_the_body(shared: Service, path: str) -> None:
    full, head = (shared.call("steward", method, path) for method in ("GET", "HEAD"))
    assert (head.status_code, head.content) == (full.status_code, b"")
    assert {**head.headers} == {**full.headers}
    assert shared.call(None, "HEAD", "/v1/tokens").status_code == 401


@pytest.mark.parametrize("name", ["Authorization", "Idempotency-Key", "Content-Type", "Last-Event-ID"])
@pytest.mark.parametrize("same", [True, False])
def test_two_headers_where_one_decides_are_refused(shared: Service, name: str, same: bool) -> None:
    """Which of two would have counted was the framework's guess."""
    once = {"Authorization": f"Bearer {shared.tokens['analyst']}", "Content-Type": "application/json"}
    given = [*once.items(), (name, f"{CANARY} 1"), (name, f"{CANARY} {1 if same else 2}")]
    response = shared.client.request("POST", "/v1/jobs", headers=given, content=b"{}")
    problem = response.json()
    assert (response.status_code, problem["code"]) == (422, "invalid_request")
    assert problem["violations"] == [{"where": f"header.{name.lower()}", "what": "is there more than once"}]
    assert CANARY not in response.text


def test_many_or_large_headers_are_refused(shared: Service) -> None:
    for headers in ([("x", "y")] * 101, [("x", "y" * 2**14)]):
        response = shared.client.get("/health/live", headers=headers)
        assert (response.status_code, response.json()["code"]) == (431, "headers_too_large")
    response = shared.client.get("/health/live?" + "y" * 2**14)
    assert response.status_code == 431


def test_answers_are_not_cached_sniffed_or_framed(shared: Service) -> None:
    headers = shared.client.get("/v1/keys").headers
    assert headers["Cache-Control"] == "no-store"
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert "frame-ancestors 'none'" in headers["Content-Security-Policy"]


@pytest.fixture
def broken() -> TestClient:
    router = APIRouter()

    @router.get("/broken/{name}")
    def fail(name: str) -> None:
        secret = f"the data says {name}"
        raise ValueError(secret)

    application = FastAPI()
    application.add_middleware(Observed, count=Metrics().count)
    handlers.install(application)
    application.include_router(router)
    return TestClient(application)  # it would raise what passes our middleware


def test_unknown_error_is_500_without_a_word_of_it(broken: TestClient, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    response = broken.get(f"/broken/{CANARY}?query={CANARY}")
    assert response.status_code == 500
    problem = response.json()
    assert problem["code"] == "internal"
    assert CANARY not in response.text
    ours = [record.getMessage() for record in caplog.records if record.name.startswith("purse")]
    assert any("ValueError in /broken/{name}" in line and "fail" in line for line in ours)
    assert any(line.startswith("GET /broken/{name} 500") for line in ours)
    assert not any(CANARY in line for line in ours)
    assert not any(record.exc_info for record in caplog.records if record.name.startswith("purse"))


def test_access_log_names_the_template_only(shared: Service, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    shared.call("analyst", "GET", f"/v1/datasets/{CANARY}?secret={CANARY}")
    lines = [record.getMessage() for record in caplog.records if record.name == "purse.access"]
    assert len(lines) == 1
    assert lines[0].startswith("GET /v1/datasets/{dataset_id} 422")


def test_packages_from_different_folders_do_not_start(monkeypatch: pytest.MonkeyPatch) -> None:
    app.main.check_installation()
    monkeypatch.setattr("solvers.__file__", "/somewhere/else/solvers/__init__.py")
    with pytest.raises(RuntimeError, match="different folders"):
        app.main.check_installation()


def test_an_application_may_start_again(tmp_path: Any) -> None:
    application = app.main.create_app(
        Settings(home=tmp_path, bootstrap_token=SecretStr(STEWARD)),
        engine=InlineEngine(),
        calculators=InlineCalculators(),
    )
    for _ in range(2):
        with TestClient(application) as client:
            assert 'purse_jobs{state="done"} 0.0' in client.get("/metrics").text


def test_bodies_of_very_many_values_are_refused_unread(service: Service) -> None:
    """Review: a stranger's megabyte of keys once held the event loop for seconds."""
    body = '{"receipt":{},"signature":"x",' + ",".join(f'"a{i}":0' for i in range(30_000)) + "}"
    answer = service.client.post("/v1/receipts/verify", content=body, headers={"content-type": "application/json"})
    assert answer.status_code == 413
    assert answer.json()["code"] == "too_large"


def test_one_that_wants_the_home_alone_is_refused_beside_a_server(service: Service) -> None:
    """Review: its dispatcher would take the server's jobs, and end them when it ends."""
    with pytest.raises(RuntimeError, match="another purse server"):
        app.main.check_free(Settings(home=service.home))
