"""Jobs on the real engine: Dask processes that are killed, cancelled and replaced while a job runs."""

import logging
import os
import signal
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import dask
import httpx
import psutil
import pytest
from distributed import LocalCluster, Status
from distributed.security import Security

from app.jobs import service
from app.settings import Settings
from app.worker import cluster as engines
from app.worker import orders, task
from app.worker.cluster import DaskEngine
from app.worker.dispatcher import Dispatcher
from app.worker.engine import RAISED, Handle
from app.worker.orders import Slots
from tests.support.patience import PATIENCE, until
from tests.support.running import LONG, SHORT, TIMES, Running
from tests.support.server import Server
from tests.support.service import JOB, SPEC, people
from tests.support.world import World


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaskEngine]:
    """One engine of two processes for all tests here: it takes seconds to start."""
    settings = Settings(home=tmp_path_factory.mktemp("engine") / "home", **TIMES)
    os.environ["PURSE_BOOTSTRAP_TOKEN"] = "a-secret-of-the-server-32-characters"
    os.environ["PURSE_OTHER"] = "a setting"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engines, "START_TIMEOUT_SECONDS", PATIENCE)
        engine = DaskEngine(settings)
        yield engine
        engine.close()
    os.environ.pop("PURSE_OTHER", None)


def _is_complete(engine: DaskEngine) -> bool:
    """Return whether both workers run. Reading `slots` replaces a worker that was given up."""
    return engine.slots == 2 and len(engine.client.nthreads()) == 2


def _process_ids(engine: DaskEngine) -> list[int]:
    """Return the process ids of the workers that answer."""
    return list(engine.client.run(os.getpid, on_error="ignore").values())


def _worker_of(running: Running[DaskEngine], job: str) -> int:
    """Wait until a process runs the job's attempt, and return its id."""
    client = running.engine.client

    def where() -> list[str]:
        key = f"{job}-{running.world.job(job).attempt}"
        return [address for address, keys in client.processing().items() if key in keys]

    [address] = until(where)
    return int(client.run(os.getpid, workers=[address])[address])


@pytest.fixture
def running(tmp_path: Path, engine: DaskEngine) -> Iterator[Running[DaskEngine]]:
    until(lambda: _is_complete(engine))
    running = Running(tmp_path / "home", engine)
    yield running
    running.stop()


def test_the_whole_path_on_dask(running: Running[DaskEngine]) -> None:
    jobs = [running.submit(method={"name": name}) for name in ("dp_gd", "dp_svrg")]
    assert [running.finished(job).state for job in jobs] == ["done", "done"]
    assert running.world.check()["done"] == 2
    assert list((running.world.settings.home / "scratch").glob("job_*")) == []


def test_a_killed_worker_costs_an_attempt_and_is_replaced(running: Running[DaskEngine]) -> None:
    """The new worker also wakes rarely. With the defaults of Dask it would wake often without work."""
    engine = running.engine
    job = running.submit(**LONG)
    killed = _worker_of(running, job)
    os.kill(killed, signal.SIGKILL)
    until(lambda: running.world.job(job).attempt == 2)
    end = running.finished(job)
    assert (end.state, end.attempt) == ("done", 2)
    kinds = running.world.kinds(running.dataset)
    assert [kinds.count(kind) for kind in ("charged", "started", "released")] == [1, 2, 1]
    until(lambda: _is_complete(engine))
    assert killed not in until(lambda: _process_ids(engine))

    def is_at_rest() -> bool:
        """Return whether both workers wake rarely. A worker that stops does not answer."""
        rates = engine.client.run(_wakes, on_error="ignore") if engine.slots == 2 else {}
        return len(rates) == 2 and all(wakes < 2 for wakes in rates.values())

    until(is_at_rest)
    cluster = engine.cluster
    assert cluster is not None
    until(lambda: sum(map(_wakes, (cluster.scheduler, *cluster.workers.values()))) < 12)


def _wakes(dask_worker: Any) -> float:
    """Return how many times a second the periodic callbacks of one of Dask's servers run."""
    calls = [call for call in dask_worker.periodic_callbacks.values() if call.is_running()]
    return sum(1000 / call.callback_time for call in calls)


def test_a_cancelled_job_stops_and_frees_its_slot(
    running: Running[DaskEngine], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engines, "GRACE_SECONDS", PATIENCE)  # on a busy machine five seconds may be too few to stop in
    job = running.submit(**LONG)
    worker = _worker_of(running, job)
    [attempt] = running.dispatcher.running
    service.cancel(running.world.database, running.world.analyst, job)
    running.dispatcher.wake()
    until(attempt.handle.done)
    assert worker in _process_ids(running.engine), "it stopped by itself"
    assert attempt.handle.result() == RAISED, "before its end"
    assert running.finished(running.submit(**SHORT)).state == "done"


@pytest.mark.parametrize("stands_still", [False, True])
def test_an_attempt_that_does_not_stop_loses_its_worker(
    running: Running[DaskEngine], monkeypatch: pytest.MonkeyPatch, stands_still: bool
) -> None:
    """Previously the engine waited for a stopped worker's answer, and the slot was lost meanwhile."""
    monkeypatch.setattr(engines, "GRACE_SECONDS", 0.2)
    monkeypatch.setattr(orders, "stop", _deaf)
    job = running.submit(**LONG)
    worker = _worker_of(running, job)
    if stands_still:
        os.kill(worker, signal.SIGSTOP)
    service.cancel(running.world.database, running.world.analyst, job)
    running.dispatcher.wake()
    until(lambda: running.dispatcher.running == [])
    until(lambda: _is_complete(running.engine))
    until(lambda: worker not in until(lambda: _process_ids(running.engine)))
    assert running.finished(running.submit(**SHORT)).state == "done"


def _deaf(_key: str) -> None:
    """Stands in for `orders.stop`."""


def test_workers_hold_no_setting_and_no_secret(engine: DaskEngine) -> None:
    """The environment that a worker sees and the one that it was started with are checked."""

    def names() -> list[str]:
        raw = Path("/proc/self/environ").read_bytes().split(b"\0")
        return [*os.environ, *(entry.split(b"=")[0].decode() for entry in raw if b"TOKEN" in entry)]

    for names_found in engine.client.run(names).values():
        assert not [name for name in names_found if name.startswith("PURSE_")]
        assert "OMP_NUM_THREADS" in names_found


def test_workers_have_imported_the_solvers_before_the_first_job(engine: DaskEngine) -> None:
    needed = {"solvers.solve", "solvers.compiled", "randomgen"}
    assert all(engine.client.run(lambda: needed <= sys.modules.keys()).values())


def test_a_nanny_that_brings_no_worker_back_is_given_up(engine: DaskEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Previously a busy machine waited for minutes for a worker that never started."""
    until(lambda: _is_complete(engine))
    cluster = engine.cluster
    assert cluster is not None
    nanny = next(iter(cluster.workers.values()))
    assert nanny.process is not None
    nanny.process.on_exit = lambda _code: None  # it does not hear that its worker has ended
    os.kill(nanny.pid, signal.SIGKILL)
    until(lambda: len(engine.client.nthreads()) == 1)
    monkeypatch.setattr(engines, "CHECK_INTERVAL_SECONDS", 0.0)
    assert engine.slots == 2
    time.sleep(0.5)
    assert len(engine.client.nthreads()) == 1
    with monkeypatch.context() as soon:
        soon.setattr(engines, "START_TIMEOUT_SECONDS", 0.1)
        assert engine.slots == 2
    until(lambda: _is_complete(engine))
    assert nanny not in cluster.workers.values()


class Stuck:
    """Part of an engine that does not end in time."""

    def __init__(self) -> None:
        self.patience: list[float] = []
        self.workers: dict[str, Any] = {}

    def close(self, timeout: float) -> None:
        self.patience.append(timeout)
        raise TimeoutError


def test_an_engine_that_does_not_close_in_time_fails_no_shutdown(caplog: pytest.LogCaptureFixture) -> None:
    engine, client, cluster = DaskEngine.__new__(DaskEngine), Stuck(), Stuck()
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        pass
    cluster.workers["0"] = SimpleNamespace(
        pid=process.pid, process=SimpleNamespace(status=Status.starting), close_gracefully=lambda: None
    )
    engine.client, engine.cluster = client, cluster  # type: ignore[assignment]
    engine.close()
    assert (client.patience, cluster.patience) == ([5], [10])
    assert "engine_not_closed TimeoutError" in caplog.text


def test_an_engine_closes_in_time_while_a_worker_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Previously Dask waited for the start of a worker that replaced a lost one, longer than a stop may take."""
    monkeypatch.setattr(engines, "START_TIMEOUT_SECONDS", PATIENCE)
    engine = DaskEngine(Settings(home=tmp_path / "home", workers=1, **TIMES))
    assert engine.cluster is not None
    [nanny] = engine.cluster.workers.values()
    lost_worker = nanny.pid
    os.kill(lost_worker, signal.SIGKILL)
    until(lambda: nanny.pid not in (lost_worker, None))
    os.kill(nanny.pid, signal.SIGSTOP)  # its start does not end
    engine.close()
    assert "engine_not_closed" not in caplog.text
    assert nanny.process is None


def test_an_attempt_that_raises_says_one_word(engine: DaskEngine) -> None:
    handle = engine.submit("job_x", 1, '{"folder": "of somebody"}')
    until(handle.done)
    assert handle.result() == RAISED
    with ThreadPoolExecutor(1) as threads:
        assert threads.submit(task.attempt, "{}", "outside of any worker").result() == RAISED


def test_threads_that_wait_for_one_attempt_get_the_same_result(engine: DaskEngine) -> None:
    """Previously the first thread released the result while others fetched it, and they saw a vanished worker."""

    def result_after(handle: Handle, wait: float) -> str:
        time.sleep(wait)
        return handle.result()

    with ThreadPoolExecutor(4) as threads:
        for i in range(100):
            handle = engine.submit(f"job_{i}", 1, "{}")
            until(handle.done)
            waits = [k * i / 100_000 for k in range(4)]  # seconds; a fetch takes one or two thousandths
            assert set(threads.map(result_after, [handle] * 4, waits)) == {RAISED}


def test_the_channel_is_authenticated(engine: DaskEngine) -> None:
    assert engine.cluster is not None
    address = engine.cluster.scheduler_address
    assert address.startswith("tls://127.0.0.1:")
    host, port = address.removeprefix("tls://").split(":")
    anybody = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    anybody.check_hostname, anybody.verify_mode = False, ssl.CERT_NONE
    with (
        socket.create_connection((host, int(port)), timeout=PATIENCE) as plain,
        anybody.wrap_socket(plain) as channel,
        pytest.raises((ssl.SSLError, ConnectionError)),
    ):
        _ask(channel)


def _ask(channel: ssl.SSLSocket) -> None:
    """Send a message and raise if the channel is closed. TLS 1.3 rejects a missing certificate only after it."""
    channel.sendall(b"hello")
    if not channel.recv(1):
        raise ConnectionResetError


def test_a_remote_scheduler_with_mutual_tls(tmp_path: Path) -> None:
    """Attempts run on an external cluster, which does not retry them by itself."""
    security = Security.temporary()
    files: dict[str, Any] = {}
    for name, text in (
        ("ca", security.tls_ca_file),
        ("cert", security.tls_client_cert),
        ("key", security.tls_client_key),
    ):
        files[f"scheduler_{name}"] = tmp_path / f"{name}.pem"
        files[f"scheduler_{name}"].write_text(text)
    theirs = dask.config.set({"distributed.scheduler.allowed-failures": 3})
    with (
        theirs,
        LocalCluster(
            n_workers=1, threads_per_worker=1, security=security, dashboard_address=None, silence_logs=logging.CRITICAL
        ) as cluster,
    ):
        settings = Settings(home=tmp_path / "home", scheduler=cluster.scheduler_address, **files)
        engine = DaskEngine(settings)
        try:
            assert engine.slots == 1
            world = World.at(tmp_path / "home")  # time stands still: nothing is told before it is looked at
            job = world.submit(world.dataset()).id
            dispatcher = Dispatcher(world.settings, world.database, world.keys, engine)
            dispatcher.step()
            assert cluster.scheduler.allowed_failures == 0
            [running] = dispatcher.running
            until(running.handle.done)
            assert world.job(job).state == "running"
            world.clock.pass_(1000.0)
            dispatcher.step()
            assert world.job(job).state == "done"
            world.check()
            forgotten = engine.client
            forgotten.run_on_scheduler(_forget, forgotten.id)
            assert forgotten.status == "running", "Dask does not notice it"
            assert not engine.take(0)
            until(lambda: engine.take(0))
            assert engine.client is not forgotten
            engine.client.run_on_scheduler(_forget)
            assert engine.take(0), "the plugin is added again"
        finally:
            engine.close()
    assert engine.slots == 0, "nobody is there"


def _forget(client: str = "", dask_scheduler: Any = None) -> None:
    """Remove the plugin and a client, as a scheduler that was restarted or paused has lost them."""
    dask_scheduler.remove_plugin(Slots.name)
    if client:
        dask_scheduler.remove_client(client)


class TestServer:
    """A server that is killed, and one that is stopped."""

    def test_workers_end_with_a_killed_server_and_the_next_server_finishes_its_jobs(self, tmp_path: Path) -> None:
        server = Server(tmp_path / "home", workers=1, lease_seconds=3600.0)  # the next one need not wait for it
        try:
            server.start()
            spec = SPEC | {"budget": {"epsilon": 20.0, "delta": 1e-6}}
            dataset = server.upload(spec, people(2000))
            running = server.submit(JOB | {"dataset": dataset} | LONG, "k1")
            waiting = server.submit(JOB | {"dataset": dataset} | SHORT, "w")
            until(lambda: server.job(running)["state"] == "running")
            workers = server.workers()
            assert len(workers) == 1
            server.kill()
            until(lambda: not any(psutil.pid_exists(pid) for pid in workers))
            with pytest.raises(httpx.HTTPError):
                server.job(running)
            server.start()
            jobs = {job: server.finished(job) for job in (running, waiting)}
            assert {job["state"] for job in jobs.values()} == {"done"}
            assert jobs[running]["attempt"] == 2
            assert server.submit(JOB | {"dataset": dataset} | LONG, "k1") == running, "the same request is the same job"
            books = server.books()
            assert books["done"] == 2
            for job in jobs:
                assert server.verifies(job)
            last = server.submit(JOB | {"dataset": dataset} | LONG, "k2")
            until(lambda: server.job(last)["state"] == "running")
            workers = server.workers()
            server.stop()
            until(lambda: not any(psutil.pid_exists(pid) for pid in workers))
            assert server.books()["running"] <= 1
            assert "distributed" not in server.log(None), "Dask says nothing of our jobs"
        finally:
            server.kill()
