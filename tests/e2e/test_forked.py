"""The working process of `purse fit`: a child for each attempt and each price, that knows and says nothing else."""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

import solvers.compiled  # noqa: F401, here, and not in each fork anew
from app.calculation.calculators import ForkedCalculators
from app.jobs import service
from app.worker import forked
from app.worker.engine import FAILED
from app.worker.forked import ForkedAttempt, ForkedEngine
from tests.support.insides import begun_process
from tests.support.patience import PATIENCE, until
from tests.support.running import LONG, SHORT, Running

ROOT = Path(__file__).parents[2]


def _child(running: Running[ForkedEngine]) -> psutil.Process:
    """The one that runs the attempt, once one does."""
    [child] = until(lambda: psutil.Process(begun_process(running.engine).pid).children())
    return child


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running[ForkedEngine]]:
    begun = forked.begin()
    running = Running(tmp_path / "home", ForkedEngine(begun))
    yield running
    running.stop()
    begun.end()
    begun.end()  # a second time it is nothing


def test_the_whole_path_and_each_attempt_has_noise_of_its_own(running: Running[ForkedEngine]) -> None:
    """A fork copies its parent's memory: two attempts of one job must not share what it drew, or would draw."""
    jobs = [running.finished(running.submit(**SHORT)) for _ in range(2)]
    assert [job.state for job in jobs] == ["done", "done"]
    models = [
        json.loads(service.released(running.world.database, running.world.analyst, job.id, "model")) for job in jobs
    ]
    assert models[0]["coefficients"] != models[1]["coefficients"]
    assert not list((running.world.settings.home / "scratch").glob("job_*"))
    until(lambda: not psutil.Process(begun_process(running.engine).pid).children())


def test_a_killed_child_costs_an_attempt_and_the_second_time_the_job_is_lost(running: Running[ForkedEngine]) -> None:
    job, first = running.submit(**LONG), _child(running)
    first.kill()
    until(lambda: running.world.job(job).attempt == 2)
    until(lambda: _child(running) != first)
    _child(running).kill()
    found = running.finished(job)
    assert (found.state, found.error, found.attempt) == ("failed", "worker_lost", 2)
    assert running.finished(running.submit(**SHORT)).state == "done"


def test_a_cancelled_job_ends_its_child_and_frees_the_slot(running: Running[ForkedEngine]) -> None:
    job, child = running.submit(**LONG), _child(running)
    service.cancel(running.world.database, running.world.analyst, job)
    running.dispatcher.wake()
    until(lambda: not child.is_running())
    assert running.finished(running.submit(**SHORT)).state == "done"


def test_a_process_that_was_killed_fails_its_jobs_and_nothing_hangs(running: Running[ForkedEngine]) -> None:
    os.kill(begun_process(running.engine).pid, signal.SIGKILL)
    begun_process(running.engine).wait()
    found = running.finished(running.submit(**SHORT))
    assert (found.state, found.error) == ("failed", "worker_lost")


def _said(engine: ForkedEngine, payload: str) -> str:
    attempt = engine.submit("job_1", 1, payload)
    until(attempt.done)
    attempt.cancel()  # too late: it is nothing
    return attempt.result().kind


def test_an_output_that_was_cut_off_is_a_lost_child() -> None:
    """Review: a child that was killed as it answered failed its job, and charged it, for an output nobody can read."""
    for said, kind in ((b'{"coefficients": [0.5', "vanished"), (b"{}\n", "ok"), (b"", "vanished")):
        ours, child = socket.socketpair()
        attempt = ForkedAttempt(ours, "{}", "job_1-1")
        with child:
            child.recv(100)
            child.sendall(said)
        until(attempt.done)
        assert attempt.result().kind == kind


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
    assert forked._work(b"attempt\n", b"{}\n") == FAILED.encode() + b"\n"
