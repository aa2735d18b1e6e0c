"""Health, metrics, logs, and what becomes of errors that nobody expected."""

import asyncio
import json
import logging
import re
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal

import pytest
import sqlalchemy as sa
import yaml
from fastapi import APIRouter, FastAPI
from fastapi.testclient import TestClient
from pydantic import SecretStr

import app.main
from app.http import handlers
from app.http.middleware import Observed
from app.operations import readiness, warming
from app.operations.logs import Lines
from app.operations.metrics import Metrics
from app.operations.warming import WarmUp
from app.persistence.schema import NEWEST
from app.persistence.session import Database
from app.settings import Settings
from app.worker.engine import StartingEngine
from app.worker.lives import check_free
from tests.service.conftest import MakeService
from tests.support.calculations import InlineCalculators
from tests.support.engines import reader, writer
from tests.support.inline_engine import InlineEngine
from tests.support.patience import PATIENCE, until
from tests.support.service import JOB, SPEC, STEWARD, Service, people

CANARY = "canary4711"


def test_probes_and_metrics_ignore_unknown_query_parameters(shared: Service) -> None:
    """A probe answered 422, which the OpenAPI document did not name, to a query that somebody appended."""
    paths = shared.client.get("/openapi.json").json()["paths"]
    for path in ("/health/live", "/health/ready", "/metrics"):
        assert shared.call("steward", "GET", f"{path}?zzz=1&zzz=2").status_code == 200
        assert "422" not in paths[path]["get"]["responses"]


@contextmanager
def _read_only(service: Service) -> Iterator[None]:
    def deny(connection: Any, _record: Any, _proxy: Any) -> None:
        connection.execute("PRAGMA query_only=ON")

    engine = writer(service.database)
    sa.event.listen(engine, "checkout", deny)
    yield
    sa.event.remove(engine, "checkout", deny)
    engine.dispose()


@contextmanager
def _of_another_version(service: Service) -> Iterator[None]:
    with service.database.write() as connection:
        connection.execute(sa.text("UPDATE alembic_version SET version_num = '9999'"))
    yield
    with service.database.write() as connection:
        connection.execute(sa.text(f"UPDATE alembic_version SET version_num = '{NEWEST}'"))


@contextmanager
def _without_key(service: Service) -> Iterator[None]:
    key, aside = service.home / "signing-key.json", service.home / "aside"
    key.rename(aside)
    yield
    aside.rename(key)


@contextmanager
def _full(_service: Service) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("app.settings.shutil.disk_usage", lambda _: SimpleNamespace(free=2**20))
        yield


@contextmanager
def _without_workers(service: Service) -> Iterator[None]:
    slots, service.engine.slots = service.engine.slots, 0
    yield
    service.engine.slots = slots


@contextmanager
def _starting(service: Service) -> Iterator[None]:
    service.app.state.services.ready.clear()
    yield
    service.app.state.services.ready.set()


@contextmanager
def _unsound(service: Service) -> Iterator[None]:
    service.database.is_closed_to_writes = True
    yield
    service.database.is_closed_to_writes = False


_WRONG: dict[str, Callable[[Service], AbstractContextManager[None]]] = {
    "starting": _starting,
    "database": _read_only,
    "ledgers": _unsound,
    "migrations": _of_another_version,
    "keys": _without_key,
    "disk": _full,
    "workers": _without_workers,
}


def test_each_reason_not_to_be_ready_is_reported_alone(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readiness, "CACHE_SECONDS", 0.0)
    assert {*_WRONG, "draining"} == {*readiness.REASONS}
    for reason, wrong in _WRONG.items():
        with wrong(service):
            _is_not_ready(service, reason)
        assert service.client.get("/health/ready").status_code == 200, reason
    service.app.state.services.readiness.drain()
    _is_not_ready(service, "draining")


def _is_not_ready(service: Service, reason: str) -> None:
    """Assert that the service is not ready for this reason alone."""
    refused = service.client.get("/health/ready")
    assert (refused.status_code, refused.json()["code"]) == (503, "not_ready"), reason
    assert refused.json()["detail"] == f"Not ready: {reason} ({readiness.REASONS[reason]})."
    assert service.client.get("/health/live").status_code == 200
    metrics = service.call("auditor", "GET", "/metrics").text
    assert [line for line in metrics.splitlines() if re.fullmatch(r"purse_not_ready\{.*\} 1.0", line)] == [
        f'purse_not_ready{{reason="{reason}"}} 1.0'
    ]


def test_a_database_that_hangs_makes_the_server_not_ready_and_keeps_one_thread(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate, checks = threading.Event(), []

    def hang(_connection: Any) -> bool:
        checks.append(gate.wait(PATIENCE))
        return True

    monkeypatch.setattr(readiness, "CACHE_SECONDS", 0.0)
    with monkeypatch.context() as changed:
        changed.setattr(readiness, "is_current", hang)
        changed.setattr(readiness, "CHECK_TIMEOUT_SECONDS", 0.01)
        for _ in range(3):
            assert "database" in service.client.get("/health/ready").json()["detail"]
        gate.set()
    assert service.client.get("/health/ready").status_code == 200
    assert len(checks) == 1


def test_the_database_is_checked_once_a_second_for_all_requests(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    checks = []

    def check(connection: Any) -> bool:
        checks.append(connection)
        return True

    monkeypatch.setattr(readiness, "CACHE_SECONDS", 3600.0)
    monkeypatch.setattr(readiness, "is_current", check)
    for _ in range(5):
        assert service.client.get("/health/ready").status_code == 200
    assert len(checks) <= 1


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


def test_a_calculating_process_killed_at_its_start_is_started_again(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the server accepts and charges jobs that no worker ever runs."""
    monkeypatch.setattr(warming, "RETRY_SECONDS", 0.0)
    warm, ready, started = iter([False, False, True]), threading.Event(), threading.Event()
    calculators = InlineCalculators()
    calculators.is_warm = lambda: next(warm)  # type: ignore[method-assign]
    WarmUp(ready, calculators, started.set).run()
    assert ready.is_set()
    assert started.is_set(), "the workers start once prices can be calculated"
    assert len(caplog.records) == 2


def test_a_server_that_stops_makes_no_further_attempt_to_start_processes() -> None:
    ready, never = threading.Event(), _Cold(ever=False)
    never.gate.set()
    warm_up = WarmUp(ready, never, pytest.fail)
    warm_up.stop()
    warm_up.run()
    assert not ready.is_set()


@pytest.mark.slow
def test_a_server_is_ready_before_its_workers_and_its_jobs_wait_for_them(tmp_path: Path) -> None:
    gate, engine = threading.Event(), InlineEngine()

    def make() -> InlineEngine:
        gate.wait(PATIENCE)
        return engine

    settings = Settings(home=tmp_path, bootstrap_token=SecretStr(STEWARD))
    application = app.main.create_app(settings, engine=StartingEngine(make), calculators=InlineCalculators())
    with TestClient(application, headers={"Authorization": f"Bearer {STEWARD}"}) as client:
        assert application.state.services.ready.wait(PATIENCE)
        files = {"file": ("people.csv", people())}
        dataset = client.post("/v1/datasets", data={"spec": json.dumps(SPEC)}, files=files).json()["id"]
        body = JOB | {"dataset": dataset}
        job = client.post("/v1/jobs", json=body, headers={"Idempotency-Key": "k1"}).json()["id"]
        assert client.get(f"/v1/jobs/{job}").json()["state"] == "queued"
        gate.set()
        until(lambda: client.get(f"/v1/jobs/{job}").json()["state"] == "done")
    engine.close()


def test_a_server_whose_workers_do_not_start_is_not_ready_until_they_do(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a worker killed at its start leaves the server without workers."""
    ready, was_ready = threading.Event(), []
    monkeypatch.setattr(warming, "RETRY_SECONDS", 0.0)

    def fail_twice() -> None:
        was_ready.append(ready.is_set())
        if len(was_ready) < 3:
            raise OSError("no room")

    WarmUp(ready, InlineCalculators(), fail_twice).run()
    assert was_ready == [True, False, False]
    assert ready.is_set()
    assert caplog.text.count("OSError") == 2


def test_an_engine_that_is_just_starting_is_closed_once_it_runs() -> None:
    starting, gate, engine = threading.Event(), threading.Event(), InlineEngine()

    def make() -> InlineEngine:
        starting.set()
        gate.wait(PATIENCE)
        return engine

    coming, closed = StartingEngine(make), threading.Event()
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
    late = StartingEngine(pytest.fail)
    late.close()
    late.start()
    assert late.slots == 0


def test_metrics_count_requests_by_template_and_jobs_by_state(service: Service) -> None:
    service.call("analyst", "GET", "/v1/datasets/nobody")
    service.call("analyst", "GET", f"/v1/datasets/{CANARY}")
    service.client.get(f"/{CANARY}?x={CANARY}")
    service.client.request("BREW", "/v1/datasets")
    text = service.call("auditor", "GET", "/metrics").text
    assert CANARY not in text
    assert "_created" not in text, "no timing"
    assert 'purse_requests_total{method="GET",route="/v1/datasets/{dataset_id}",status="404"} 2.0' in text
    assert 'purse_requests_total{method="GET",route="-",status="404"} 1.0' in text
    assert 'purse_requests_total{method="other",route=' in text
    assert 'purse_jobs{state="queued"} 0.0' in text
    assert "purse_queue_length 0.0" in text


def test_metrics_count_sessions_by_state_and_recorded_answers(service: Service) -> None:
    dataset, event = service.dataset(), {"type": "GaussianDpEvent", "noise_multiplier": 40.0}
    plan = {"events": [{"type": "SelfComposedDpEvent", "count": 5, "event": event}]}
    opened = [service.call("analyst", "POST", f"/v1/datasets/{dataset}/sessions", json=plan).json() for _ in range(2)]
    path, headers = f"/v1/sessions/{opened[0]['id']}", {"Idempotency-Key": "k"}
    for _ in range(2):
        service.call("analyst", "POST", f"{path}/steps", json={"steps": 3}, headers=headers)
    service.call("analyst", "POST", f"{path}/close")
    text = service.call("auditor", "GET", "/metrics").text
    for line in ('{state="open"} 1.0', '{state="closed"} 1.0', '{state="expired"} 0.0'):
        assert f"purse_sessions{line}" in text
    assert "purse_session_answers_total 3.0" in text, "a repeated request records nothing"


def test_every_metric_has_a_row_in_the_page_and_every_row_a_metric(shared: Service) -> None:
    page = (Path(__file__).parents[2] / "docs/operations.md").read_text()
    metrics = shared.call("auditor", "GET", "/metrics").text
    rows = re.findall(r"^\| `(purse_\w+)` \| ([a-z, ]*)\|", page, re.M)
    assert sorted(name for name, _ in rows) == sorted(
        re.findall(r"^# TYPE (\w+?)(?<!_gsum)(?<!_gcount) ", metrics, re.M)
    )


def test_every_query_of_the_dashboard_and_the_alerts_uses_existing_metrics(shared: Service) -> None:
    metrics = shared.call("auditor", "GET", "/metrics").text
    kind_by_metric = dict(re.findall(r"^# TYPE (\w+) (\w+)$", metrics, re.M))
    of_histograms = [name for name, kind in kind_by_metric.items() if kind == "histogram"]
    kind_by_metric |= {f"{name}_{end}": "" for name in of_histograms for end in ("bucket", "count")}
    deploy = Path(__file__).parents[2] / "deploy"
    panels = json.loads((deploy / "grafana/privy-purse.json").read_text())["panels"]
    rules = yaml.safe_load((deploy / "prometheus.yaml").read_text())["groups"][0]["rules"]
    queries = [target["expr"] for panel in panels for target in panel["targets"]] + [rule["expr"] for rule in rules]
    assert len(queries) > 20
    for query in queries:
        names = re.findall(r"purse_\w+", query)
        assert names
        assert set(names) <= kind_by_metric.keys(), query
        assert set(re.findall(r'(?:reason|state)[!=]~?"([^"]*)"', query)) <= {"draining", "queued|running"}


@pytest.mark.slow
def test_a_monitors_token_only_reads_metrics(make_service: MakeService, tmp_path: Path) -> None:
    token = "monitor-" + "m" * 32
    with make_service(tmp_path, metrics_token=SecretStr(token)) as service:
        service.tokens["monitor"] = token
        assert service.call("monitor", "GET", "/metrics").status_code == 200
        assert service.call("monitor", "GET", "/v1/datasets").status_code == 401
        assert service.call("auditor", "GET", "/metrics").status_code == 200
        service.tokens["monitor"] = token[:-1]
        assert service.call("monitor", "GET", "/metrics").status_code == 401
        service.tokens["monitor"] = token
        reader(service.database).dispose()
        broken = sa.exc.OperationalError(CANARY, {}, OSError(CANARY))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Database, "read", lambda _: (_ for _ in ()).throw(broken))
            response = service.call("monitor", "GET", "/metrics")
        assert response.status_code == 200, "counters outlive the database"
        assert "purse_requests_total{" in response.text
        assert "purse_jobs{" not in response.text


@pytest.mark.slow
def test_metrics_time_requests_prices_and_jobs_but_no_upload(service: Service) -> None:
    dataset = service.dataset()
    body = JOB | {"dataset": dataset}
    for _ in range(2):
        assert service.call("analyst", "POST", "/v1/quotes", json=body).status_code == 200
    service.done(body)

    def metrics() -> str:
        return service.call("auditor", "GET", "/metrics").text

    until(lambda: 'purse_job_seconds_count{state="done"}' in metrics())  # counted after the state is stored
    lines = metrics().splitlines()
    samples = {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines if line[0] != "#")}
    assert samples['purse_request_seconds_count{method="POST",route="/v1/quotes",status="200"}'] == 2
    assert samples['purse_requests_total{method="POST",route="/v1/datasets",status="201"}'] == 1
    assert not any('route="/v1/datasets"' in name for name in samples if name.startswith("purse_request_seconds"))
    assert samples['purse_prices_total{source="calculated"}'] == 1
    assert samples['purse_prices_total{source="remembered"}'] == 2
    assert samples["purse_calculation_seconds_count"] == 1
    assert samples['purse_job_seconds_count{state="done"}'] == 1
    job_seconds = samples['purse_job_seconds_sum{state="done"}']
    assert job_seconds in {2.0**k / 4 for k in range(40)}, "times are points of the grid"
    assert samples['purse_budget_share_bucket{le="1.0"}'] == samples['purse_budget_share_bucket{le="+Inf"}'] == 1
    assert 0 < samples["purse_largest_share"] == pytest.approx(samples["purse_budget_share_gsum"])
    assert (samples["purse_worker_slots"], samples["purse_holders"]) == (2, 0)


@pytest.mark.slow
def test_metrics_follow_the_queue(service: Service) -> None:
    service.engine.gate.clear()
    dataset = service.dataset()
    body = {"dataset": dataset, "target": "income", "privacy": {"epsilon": 0.1}}
    for _ in range(3):
        assert service.call("analyst", "POST", "/v1/jobs", json=body).status_code == 202
    until(lambda: len(service.engine.submitted) == 2)
    text = service.call("auditor", "GET", "/metrics").text
    assert 'purse_jobs{state="queued"} 1.0' in text
    assert 'purse_jobs{state="running"} 2.0' in text
    assert "purse_queue_length 1.0" in text
    assert "purse_holders 1.0" in text
    assert "purse_lease_age_seconds 0.0" in text
    service.engine.gate.set()


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/", 404, "not_found"),
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
    assert ("/docs" in problem["detail"]) == (status == 404)  # somebody who looks around is told where to look
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
    for method in ("PATCH", "OPTIONS", "BREW"):
        response = shared.call("steward", method, path)
        assert (response.status_code, response.headers["Allow"]) == (405, methods)


@pytest.mark.slow
@pytest.mark.parametrize(
    "path", ["/health/live", "/v1/tokens", "/docs", "/v1/datasets/ds_none", "/nowhere", "/v1/jobs"]
)
def test_head_is_get_without_the_body(shared: Service, path: str) -> None:
    full, head = (shared.call("steward", method, path) for method in ("GET", "HEAD"))
    assert (head.status_code, head.content) == (full.status_code, b"")
    del head.headers["X-Request-ID"], full.headers["X-Request-ID"]
    assert {**head.headers} == {**full.headers}
    assert shared.call(None, "HEAD", "/v1/tokens").status_code == 401


@pytest.mark.parametrize("name", ["Authorization", "Idempotency-Key", "Content-Type", "Last-Event-ID"])
@pytest.mark.parametrize("are_equal", [True, False])
def test_two_headers_of_one_kind_are_refused(shared: Service, name: str, are_equal: bool) -> None:
    """Otherwise the framework decides which of two headers counts."""
    once = {"Authorization": f"Bearer {shared.tokens['analyst']}", "Content-Type": "application/json"}
    headers = [*once.items(), (name, f"{CANARY} 1"), (name, f"{CANARY} {1 if are_equal else 2}")]
    response = shared.client.request("POST", "/v1/jobs", headers=headers, content=b"{}")
    problem = response.json()
    assert (response.status_code, problem["code"]) == (422, "invalid_request")
    assert problem["violations"] == [{"where": f"header.{name.lower()}", "what": "occurs more than once. Send it once"}]
    assert CANARY not in response.text


def test_many_or_large_headers_are_refused(shared: Service) -> None:
    for headers in ([("x", "y")] * 101, [("x", "y" * 2**14)]):
        response = shared.client.get("/health/live", headers=headers)
        assert (response.status_code, response.json()["code"]) == (431, "headers_too_large")
    response = shared.client.get("/health/live?" + "y" * 2**14)
    assert response.status_code == 431


def test_answers_are_not_cached_sniffed_or_framed(shared: Service) -> None:
    headers = shared.client.get("/health/live").headers
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
    application.add_middleware(Observed, on_end=Metrics().count)
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


def test_a_request_cut_off_by_a_stop_gets_503() -> None:
    """After the grace period the server cancels waiting requests. Otherwise they get a 500 without a code."""
    messages: list[Any] = []

    async def waits(*_: Any) -> Any:
        await asyncio.Event().wait()

    async def send(message: Any) -> None:
        messages.append(message)

    async def stopped() -> None:
        scope = {"type": "http", "method": "POST", "path": "/v1/jobs", "headers": []}
        request = asyncio.create_task(Observed(waits, Metrics().count)(scope, waits, send))
        await asyncio.sleep(0)
        request.cancel()
        await request

    asyncio.run(stopped())
    start, body = messages
    assert (start["status"], json.loads(body["body"])["code"]) == (503, "not_ready")
    assert dict(start["headers"])[b"retry-after"] == b"5"


def test_a_request_has_one_id_in_its_headers_the_log_and_the_job(
    service: Service, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    written: list[str] = []
    keep = logging.Handler()
    keep.emit = lambda record: written.append(Lines("json").format(record))  # type: ignore[method-assign]
    logging.getLogger().addHandler(keep)
    request_id = "0F9A31C2-5d1e-4b5c-9d2f-7a6b5c4d3e2f"
    try:
        body, headers = JOB | {"dataset": service.dataset()}, {"X-Request-ID": request_id}
        response = service.call("analyst", "POST", "/v1/jobs", json=body, headers=headers)
    finally:
        logging.getLogger().removeHandler(keep)
    assert response.headers["X-Request-ID"] == request_id
    lines = [json.loads(line) for line in written]
    own_lines = {line["message"]: line for line in lines if line.get("request_id") == request_id}
    assert f"job_submitted {response.json()['id']}" in own_lines
    (access,) = (line for line in own_lines.values() if line["logger"] == "purse.access")
    assert (access["method"], access["route"], access["status"]) == ("POST", "/v1/jobs", 202)


@pytest.mark.parametrize("request_id", ["short", "x" * 32, "a" * 65, "secret income 70000!", "a" * 32 + "\u00e9"])
def test_an_id_of_another_form_is_replaced(shared: Service, request_id: str) -> None:
    replacement = shared.client.get("/nowhere", headers=[("X-Request-ID", request_id.encode())]).headers["X-Request-ID"]
    assert re.fullmatch("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", replacement)


@pytest.mark.parametrize("layout", ["json", "text"])
def test_a_line_contains_no_text_of_exceptions_or_libraries(layout: Literal["json", "text"]) -> None:
    def line(name: str, message: str, error: Exception | None = None) -> str:
        try:
            if error:
                raise error
            exc_info: Any = None
        except Exception:
            exc_info = sys.exc_info()
        return Lines(layout).format(logging.LogRecord(name, logging.ERROR, "/x/part.py", 7, message, (), exc_info))

    theirs = line("asyncio", f"Task failed: {CANARY}", ValueError(CANARY))
    ours = line("app.worker.dispatcher", "attempt_raised job_1 1", ValueError(CANARY))
    assert CANARY not in theirs + ours
    assert "ValueError" in theirs
    assert "part:7" in theirs
    assert "attempt_raised job_1 1" in ours
    assert "\n" not in theirs + ours


@pytest.mark.parametrize("package", ["accounting", "solvers", "purse", "app"])
def test_packages_from_different_folders_do_not_start(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    app.main.check_installation()
    monkeypatch.setattr(f"{package}.__file__", f"/somewhere/else/{package}/__init__.py")
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
            metrics = client.get("/metrics", headers={"Authorization": f"Bearer {STEWARD}"}).text
            assert 'purse_jobs{state="done"} 0.0' in metrics


def test_bodies_with_very_many_values_are_refused_before_parsing(service: Service) -> None:
    """Otherwise a megabyte of keys blocks the event loop for seconds."""
    body = '{"receipt":{},"signature":"x",' + ",".join(f'"a{i}":0' for i in range(30_000)) + "}"
    answer = service.client.post("/v1/receipts/verify", content=body, headers={"content-type": "application/json"})
    assert answer.status_code == 413
    assert answer.json()["code"] == "too_large"


def test_a_command_that_needs_the_home_alone_is_refused_while_a_server_runs(service: Service) -> None:
    """Otherwise its dispatcher claims the server's jobs, and ends them when it stops."""
    with pytest.raises(RuntimeError, match="another purse server"):
        check_free(Settings(home=service.home))
