"""Hands jobs to the engine: claims, submits, renews, commits. One thread, beside the server or alone.

It keeps nothing that is not also in the database: killed at any point, the leases of what it held run out, and
whoever claims next goes on. A log line holds an identifier and a code, never a word of an exception.
"""

import json
import logging
import math
import shutil
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import sqlalchemy as sa

from app.datasets import folders
from app.jobs import service
from app.jobs.service import Claim
from app.ledger.keys import SigningKeys
from app.persistence.session import Database
from app.settings import Settings
from app.worker.engine import Engine, Handle, Outcome

_log = logging.getLogger(__name__)

_BUSY = 0.1  # seconds between two looks while something runs
_IDLE = 1.0  # seconds between two looks at the queue when nobody wakes us
_NOTE = 0.5  # seconds between two writes of step counts


@dataclass(slots=True)
class _Steps:
    """Answers given so far, as the engine's thread heard of them."""

    done: int = 0

    def heard(self, done: int) -> None:
        self.done = max(self.done, done)


@dataclass(slots=True)
class _Running:
    """An attempt on the engine. `ours` is False once its claim is lost: then only its slot is waited for."""

    claim: Claim
    handle: Handle
    scratch: Path
    steps: _Steps
    noted: int = 0
    ours: bool = True


class Dispatcher:
    """Keeps the engine's slots busy with the queue's jobs.

    Parameters
    ----------
    settings : lease and renewal times, the home
    database, keys : the service's
    engine : who runs the attempts; closed by whoever made it
    """

    def __init__(self, settings: Settings, database: Database, keys: SigningKeys, engine: Engine) -> None:
        self._settings, self._database, self._keys, self._engine = settings, database, keys, engine
        self._running: list[_Running] = []
        self._woken = threading.Event()
        self._stopping = threading.Event()
        self._left = threading.Event()
        self._renewed = self._noted = 0.0
        self._swept = -math.inf
        self._thread = threading.Thread(target=self._loop, name="dispatcher", daemon=True)

    def start(self) -> None:
        """Begin; what an earlier dispatcher left is picked up as its leases run out."""
        self._thread.start()

    def wake(self) -> None:
        """Look now: a job was submitted or cancelled. Returns at once."""
        self._woken.set()

    def stop(self, patience: float = 5.0) -> None:
        """Claim nothing more, wait a little for what runs, then leave it to its lease."""
        self._stopping.set()
        self._woken.set()
        self._thread.join(patience)
        self._left.set()
        self._thread.join(patience)

    def _loop(self) -> None:
        while not self._left.is_set() and not (self._stopping.is_set() and not self._running):
            woken = self._woken.is_set()
            self._woken.clear()
            try:
                self.step(woken)
            except Exception as error:
                _log.error("dispatcher_error %s", type(error).__name__)
            self._woken.wait(_BUSY if self._running else _IDLE)

    def step(self, woken: bool = True) -> None:
        """One look: finish what has ended, renew what runs, claim what fits."""
        for running in [r for r in self._running if r.handle.done()]:
            self._finish(running)
        self._renew(woken)
        while not self._stopping.is_set() and len(self._running) < self._engine.slots and self._claim():
            pass
        self._sweep()

    def _claim(self) -> bool:
        claim = service.claim(self._database, self._settings.lease_seconds)
        if claim is None:
            return False
        scratch = self._settings.home / "scratch" / f"{claim.id}-{claim.attempt}"
        _log.info("attempt_started %s %d", claim.id, claim.attempt)
        steps = _Steps()
        try:
            handle = self._engine.submit(claim.id, claim.attempt, self._payload(claim, scratch), steps.heard)
        except Exception as error:
            _log.error("engine_refused %s %s", claim.id, type(error).__name__)
            service.vanish(self._database, claim)
            return False
        self._running.append(_Running(claim, handle, scratch, steps))
        return True

    def _renew(self, woken: bool) -> None:
        """Every `renew_seconds`; sooner to note progress, and at once when woken, which may be by a cancellation."""
        now = time.monotonic()
        news = any(r.steps.done > r.noted for r in self._running) and now - self._noted >= _NOTE
        held = [r for r in self._running if r.ours]
        if not held or not (woken or news or now - self._renewed >= self._settings.renew_seconds):
            return
        counts = [(r.claim, r.steps.done) for r in held]
        lost = service.renew(self._database, counts, self._settings.lease_seconds)
        self._renewed = self._noted = now
        for running, (_, done) in zip(held, counts, strict=True):
            running.noted = done
            if running.claim in lost:
                _log.info("attempt_abandoned %s %d", running.claim.id, running.claim.attempt)
                running.ours = False
                running.handle.cancel()

    def _finish(self, running: _Running) -> None:
        """Records how an attempt ended. If the database does not answer, the next look tries again."""
        claim = running.claim
        if running.ours:
            try:
                said = self._record(claim, running.handle.result())
            except sa.exc.OperationalError:
                raise
            except Exception as error:
                _log.error("commit_failed %s %d %s", claim.id, claim.attempt, type(error).__name__)
                service.fail(self._database, claim)
                said = "attempt_failed"
            _log.info("%s %s %d", said, claim.id, claim.attempt)
        self._running.remove(running)
        shutil.rmtree(running.scratch, ignore_errors=True)

    def _record(self, claim: Claim, outcome: Outcome) -> str:
        match outcome.kind:
            case "ok":
                held, said = service.commit(self._database, self._keys, claim, outcome.output), "attempt_released"
            case "raised":
                held, said = service.fail(self._database, claim), "attempt_failed"
            case "vanished":
                held, said = service.vanish(self._database, claim), "attempt_vanished"
        return said if held else "attempt_lost"

    def _sweep(self) -> None:
        """Removes what attempts that were killed have left on the scratch disk."""
        if time.monotonic() - self._swept < self._settings.lease_seconds:
            return
        self._swept = time.monotonic()
        for folder in (self._settings.home / "scratch").glob("job_*-*"):
            job_id, _, attempt = folder.name.rpartition("-")
            if not (attempt.isdecimal() and service.is_held(self._database, job_id, int(attempt))):
                shutil.rmtree(folder, ignore_errors=True)

    def _payload(self, claim: Claim, scratch: Path) -> str:
        """What the worker is told; nothing of the ledger, no name of a person, no key."""
        plan = json.loads(claim.job.plan)
        document = {
            "folder": str(folders.path(self._settings.home, claim.dataset.folder)),
            "scratch": str(scratch),
            "rows": claim.dataset.rows,
            "spec": claim.dataset.spec.model_dump(mode="json"),
            "request": json.loads(claim.job.request),
            "loss": plan["loss"],
            "method": plan["method"],
            "release_plan": plan["release_plan"],
        }
        return json.dumps(document)
