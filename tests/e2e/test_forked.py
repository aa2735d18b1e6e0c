"""The working process of `purse fit`: a child for each attempt and each price, that knows and says nothing else."""

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

import solvers.compiled  # noqa: F401, here, and not in each fork anew
from app.calculation import calculators
from app.calculation.calculators import CalculatingProcess
from app.calculation.process import WARM
from app.jobs import service
from app.worker import forked
from app.worker.engine import RAISED, VANISHED
from app.worker.forked import ForkedAttempt, ForkedEngine
from tests.support.patience import PATIENCE, until
from tests.support.running import LONG, SHORT, Running

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def forker() -> Iterator[CalculatingProcess]:
    """The process that forks a child for each attempt. The last test that uses it kills it."""
    forker = calculators.begin("app.worker.forked")
    assert forker.channel.recv(1) == WARM
    yield forker
    forker.end()
    forker.end()  # a second call has no effect


@pytest.fixture
def running(tmp_path: Path, forker: CalculatingProcess) -> Iterator[Running[ForkedEngine]]:
    running = Running(tmp_path / "home", ForkedEngine(forker))
    yield running
    running.stop()


def _children(forker: CalculatingProcess) -> list[psutil.Process]:
    return psutil.Process(forker.process.pid).children()


def _child(forker: CalculatingProcess) -> psutil.Process:
    """Return the child that runs the attempt, as soon as it exists."""
    [child] = until(lambda: _children(forker))
    return child


def test_a_job_is_run_to_its_end_and_each_attempt_has_its_own_noise(
    running: Running[ForkedEngine], forker: CalculatingProcess
) -> None:
    """A fork copies its parent's memory, but two attempts of one job must not share random draws."""
    jobs = [running.finished(running.submit(**SHORT)) for _ in range(2)]
    assert [job.state for job in jobs] == ["done", "done"]
    models = [
        json.loads(service.released(running.world.database, running.world.analyst, job.id, "model")) for job in jobs
    ]
    assert models[0]["coefficients"] != models[1]["coefficients"]
    assert not list((running.world.settings.home / "scratch").glob("job_*"))
    until(lambda: not _children(forker))


def test_a_killed_child_costs_an_attempt_and_the_second_time_the_job_is_lost(
    running: Running[ForkedEngine], forker: CalculatingProcess
) -> None:
    job, first = running.submit(**LONG), _child(forker)
    first.kill()
    until(lambda: running.world.job(job).attempt == 2)
    until(lambda: _child(forker) != first)
    _child(forker).kill()
    job_view = running.finished(job)
    assert (job_view.state, job_view.error, job_view.attempt) == ("failed", "worker_lost", 2)
    assert running.finished(running.submit(**SHORT)).state == "done"


def test_a_cancelled_job_ends_its_child_and_frees_the_slot(
    running: Running[ForkedEngine], forker: CalculatingProcess
) -> None:
    job, child = running.submit(**LONG), _child(forker)
    service.cancel(running.world.database, running.world.analyst, job)
    running.dispatcher.wake()
    until(lambda: not child.is_running())
    assert running.finished(running.submit(**SHORT)).state == "done"


def result_of(engine: ForkedEngine, payload: str) -> str:
    attempt = engine.submit("job_1", 1, payload)
    until(attempt.done)
    attempt.cancel()  # too late: it is nothing
    return attempt.result()


def test_a_truncated_output_is_a_lost_child() -> None:
    """Otherwise a child killed while it answers would fail its job, and charge it, for an unreadable output."""
    for received, result in ((b'{"coefficients": [0.5', VANISHED), (b"{}\n", "{}"), (b"", VANISHED)):
        ours, child = socket.socketpair()
        attempt = ForkedAttempt(ours, "{}", "job_1-1")
        with child:
            child.recv(100)
            child.sendall(received)
        until(attempt.done)
        assert attempt.result() == result


def test_an_invalid_job_is_reported_in_one_word(forker: CalculatingProcess) -> None:
    assert result_of(ForkedEngine(forker), "{}") == "raised"
    assert result_of(ForkedEngine(forker), "not JSON") == "raised"


def test_a_killed_process_fails_its_jobs_and_nothing_hangs(
    running: Running[ForkedEngine], forker: CalculatingProcess
) -> None:
    forker.process.kill()
    forker.process.wait()
    job_view = running.finished(running.submit(**SHORT))
    assert (job_view.state, job_view.error) == ("failed", "worker_lost")


SCRIPT = """
import json, os, time
from app.worker import forked

def run(payload):
    print("to stdout"); os.write(2, b"to stderr")
    told = {"settings": [name for name in os.environ if name.startswith("PURSE_")]}
    told["open"] = [os.readlink(f"/proc/self/fd/{descriptor}") for descriptor in range(3)]
    return json.dumps(told)

forked.run = run
process = forked.begin()
assert process.channel.recv(1) == forked.WARM
attempt = forked.ForkedEngine(process).submit("job_1", 1, "{}")
while not attempt.done():
    time.sleep(0.01)
print(type(process.process).__name__, attempt.result())
process.end()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_a_fork_has_no_setting_and_prints_nothing() -> None:
    run = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        env=os.environ | {"PURSE_BOOTSTRAP_TOKEN": "secret" * 6, "PURSE_OTHER": "x", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
        timeout=PATIENCE,
    )
    kind, _, printed = run.stdout.strip().partition(" ")
    assert kind == "Forked"
    assert json.loads(printed) == {"settings": [], "open": ["/dev/null"] * 3}
    assert run.stderr == ""


def test_a_command_of_several_threads_begins_a_process_instead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calculators, "begin", lambda module: f"a process of {module}")
    monkeypatch.setattr(os, "fork", pytest.fail)
    end = threading.Event()
    thread = threading.Thread(target=end.wait)
    thread.start()
    try:
        assert forked.begin() == "a process of app.worker.forked"  # type: ignore[comparison-overlap]
    finally:
        end.set()
        thread.join()


def test_a_payload_that_raises_anything_is_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(_payload: str) -> str:
        raise KeyboardInterrupt

    monkeypatch.setattr(forked, "run", stopped)
    monkeypatch.setattr(forked, "quiet", lambda: None)
    assert forked.work(b"attempt\n", b"{}\n") == RAISED.encode() + b"\n"
