"""The working process of `purse fit`: a child for each attempt and each price, that knows and says nothing else."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from app.calculation.calculators import Begun, ForkedCalculators
from app.jobs import service
from app.persistence.clock import SystemClock
from app.wire.jobs import Job
from app.worker import forked
from app.worker.dispatcher import Dispatcher
from app.worker.engine import FAILED
from app.worker.forked import ForkedEngine
from tests.support.patience import PATIENCE
from tests.support.world import World

ROOT = Path(__file__).parents[2]
LONG = {"method": {"name": "dp_gd", "steps": 20_000}, "privacy": {"epsilon": 0.2}}
SHORT = {"method": {"name": "dp_gd", "steps": 10}, "privacy": {"epsilon": 0.2}}


def _until(what: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + PATIENCE
    while not (found := what()):
        assert time.monotonic() < deadline, "waited too long"
        time.sleep(0.02)
    return found


class Running:
    """A world whose dispatcher runs on the engine."""

    def __init__(self, home: Path, begun: Begun) -> None:
        self.begun = begun
        self.world = World.at(home, SystemClock(), lease_seconds=4.0, renew_seconds=0.5)
        self.dataset = self.world.dataset(rows=2000, budget={"epsilon": 20.0, "delta": 1e-6})
        self.dispatcher = Dispatcher(self.world.settings, self.world.database, self.world.keys, ForkedEngine(begun))
        self.dispatcher.start()

    def submit(self, **changes: Any) -> str:
        job = self.world.submit(self.dataset, **changes).id
        self.dispatcher.wake()
        return job

    def finished(self, job: str) -> Job:
        _until(lambda: self.world.job(job).state not in ("queued", "running"))
        return self.world.job(job)

    def child(self) -> psutil.Process:
        """The one that runs the attempt, once one does."""
        [child] = _until(lambda: psutil.Process(self.begun.process.pid).children())
        assert isinstance(child, psutil.Process)
        return child


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    begun = forked.begin()
    running = Running(tmp_path / "home", begun)
    yield running
    running.dispatcher.stop()
    running.world.check()
    running.world.database.close()
    begun.end()
    begun.end()  # a second time it is nothing


def test_the_whole_path_and_each_attempt_has_noise_of_its_own(running: Running) -> None:
    """A fork copies its parent's memory: two attempts of one job must not share what it drew, or would draw."""
    jobs = [running.finished(running.submit(**SHORT)) for _ in range(2)]
    assert [job.state for job in jobs] == ["done", "done"]
    models = [json.loads(service.model(running.world.database, running.world.analyst, job.id)) for job in jobs]
    assert models[0]["coefficients"] != models[1]["coefficients"]
    assert not list((running.world.settings.home / "scratch").glob("job_*"))
    _until(lambda: not psutil.Process(running.begun.process.pid).children())


def test_a_killed_child_costs_an_attempt_and_the_second_time_the_job_is_lost(running: Running) -> None:
    job, first = running.submit(**LONG), running.child()
    first.kill()
    _until(lambda: running.world.job(job).attempt == 2)
    _until(lambda: running.child() != first)
    running.child().kill()
    found = running.finished(job)
    assert (found.state, found.error, found.attempt) == ("failed", "worker_lost", 2)
    assert running.finished(running.submit(**SHORT)).state == "done"


def test_a_cancelled_job_ends_its_child_and_frees_the_slot(running: Running) -> None:
    job, child = running.submit(**LONG), running.child()
    service.cancel(running.world.database, running.world.analyst, job)
    running.dispatcher.wake()
    _until(lambda: not child.is_running())
    assert running.finished(running.submit(**SHORT)).state == "done"


def test_a_process_that_was_killed_fails_its_jobs_and_nothing_hangs(running: Running) -> None:
    os.kill(running.begun.process.pid, signal.SIGKILL)
    running.begun.process.wait()
    found = running.finished(running.submit(**SHORT))
    assert (found.state, found.error) == ("failed", "worker_lost")


def _said(engine: ForkedEngine, payload: str) -> str:
    attempt = engine.submit("job_1", 1, payload)
    _until(attempt.done)
    attempt.cancel()  # too late: it is nothing
    return attempt.result().kind


def test_what_is_no_job_is_one_word() -> None:
    begun = forked.begin()
    try:
        assert _said(ForkedEngine(begun), "{}") == "raised"
        assert _said(ForkedEngine(begun), "not JSON") == "raised"
    finally:
        begun.end()


def test_prices_come_from_the_same_process() -> None:
    calculators = ForkedCalculators(60, forked.begin())
    try:
        assert calculators.is_warm()
    finally:
        calculators.close()


SCRIPT = """
import json, os, sys, threading
from app.worker import forked
from app.worker.engine import FAILED

def run(payload):
    print("to stdout"); os.write(2, b"to stderr")
    told = {"settings": [name for name in os.environ if name.startswith("PURSE_")]}
    told["open"] = [os.readlink(f"/proc/self/fd/{descriptor}") for descriptor in range(3)]
    return json.dumps(told)

if "threads" in sys.argv:
    threading.Thread(target=threading.Event().wait, daemon=True).start()
else:
    forked.run = run
begun = forked.begin()
assert begun.channel.recv(1) == forked.WARM
attempt = forked.ForkedEngine(begun).submit("job_1", 1, "{}")
attempt._thread.join()
print(type(begun.process).__name__, attempt.result().output or attempt.result().kind)
begun.end()
"""


def _script(*arguments: str) -> tuple[str, str, str]:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, *arguments],
        env=os.environ | {"PURSE_BOOTSTRAP_TOKEN": "secret" * 6, "PURSE_OTHER": "x", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
        timeout=PATIENCE,
    )
    kind, _, said = done.stdout.strip().partition(" ")
    return kind, said, done.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_a_fork_knows_no_setting_and_says_nothing() -> None:
    kind, said, errors = _script()
    assert kind == "Forked"
    assert json.loads(said) == {"settings": [], "open": ["/dev/null"] * 3}
    assert errors == ""


def test_a_command_of_several_threads_begins_a_process_instead() -> None:
    assert _script("threads")[:2] == ("Popen", "raised")


def test_a_payload_that_raises_anything_is_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(_payload: str) -> str:
        raise KeyboardInterrupt

    monkeypatch.setattr(forked, "run", stopped)
    monkeypatch.setattr(forked, "quiet", lambda: None)
    assert forked._work(b"attempt\n", b"{}\n") == FAILED.encode()
