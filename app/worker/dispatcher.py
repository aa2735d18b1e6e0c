"""Hands jobs to the engine: claims, submits, keeps what they end with, tells it when it is due. One thread.

It keeps nothing that is not also in the database: killed at any point, whoever claims next goes on. It looks at an
attempt only at the points of a public grid, so that neither a state nor a free slot ever tells when an attempt really
ended (`app.jobs.grid`). A log line holds an identifier and a code, never a word of an exception.
"""

import json
import logging
import math
import shutil
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import sqlalchemy as sa

from app.datasets import folders, spool, values
from app.http.middleware import in_request
from app.jobs import attempts, grid
from app.jobs.attempts import Claim
from app.jobs.leases import Holder
from app.jobs.queue import Limits
from app.ledger.keys import SigningKeys
from app.persistence.session import Database
from app.settings import Settings
from app.sources import partitions
from app.worker.engine import Engine, Handle, Outcome

_log = logging.getLogger(__name__)

_IDLE = 1.0  # seconds between two looks at the queue when nobody wakes us
# seconds within which a cancelled attempt has ended, however long its steps: the engine's grace and more
_STOPPED = 8.0
_RESTS = (15.0, 600.0)  # seconds for which a job without room is left alone, the first time and at the most


@dataclass(slots=True)
class _Running:
    """An attempt on the engine. `ours` is False once its claim is lost: then only its slot is waited for.

    Parameters
    ----------
    began : the tick from which its slot's grid counts; that of its claim, or of the loss of it
    least : the seconds from then before which it is not looked at
    look : the tick of the next look
    """

    claim: Claim
    handle: Handle
    scratch: Path
    began: float
    least: float
    look: float = 0.0
    ours: bool = True
    outcome: Outcome | None = None

    def ended(self) -> Outcome | None:
        """How it ended, if it has; nobody may be told before the next look."""
        if self.outcome is None and self.handle.done():
            self.outcome = self.handle.result()
        return self.outcome

    def look_after(self, now: float) -> None:
        """The next look: at the next point of the grid from its slot's begin, or of that from its submission."""
        submitted = self.claim.job.ticks
        slot = self.began + grid.next_point(now - self.began, self.least)
        told = submitted + grid.next_point(now - submitted, self.began + self.least - submitted)
        self.look = min(slot, told)


class Dispatcher:
    """Keeps the engine's slots busy with the queue's jobs.

    Parameters
    ----------
    settings : lease and renewal times, the home
    database, keys : the service's
    engine : who runs the attempts; closed by whoever made it
    ended : the holders that are known to be dead, each told once
    told : hears of each end that was told: the state, and the seconds from the submission, a point of the grid
    changed : hears at once whose end that was
    """

    def __init__(
        self,
        settings: Settings,
        database: Database,
        keys: SigningKeys,
        engine: Engine,
        ended: Callable[[], Sequence[str]] = tuple,
        told: Callable[[str, float], None] = lambda _state, _due: None,
        changed: Callable[[str], None] = lambda _job: None,
    ) -> None:
        self._settings, self._database, self._keys, self._engine = settings, database, keys, engine
        self._ended, self._told, self._changed, self._limits = ended, told, changed, Limits.running(settings)
        self._clock = database.clock
        self._holder = Holder(self._clock, settings.lease_seconds)
        self._running: list[_Running] = []
        self._woken = threading.Event()
        self._stopping = threading.Event()
        self._left = threading.Event()
        self._resting: dict[str, tuple[float, float]] = {}  # job -> the tick until which it rests, and for how long
        self._beaten = self._swept = -math.inf
        self._is_unsure = False  # whether a claim may have been committed without an answer
        self._thread = threading.Thread(target=self._loop, name="dispatcher", daemon=True)

    @property
    def holder(self) -> str:
        """The name under which it holds its attempts."""
        return self._holder.id

    def without_room(self) -> list[str]:
        """The jobs that are left alone for now, because a worker's disk had no room for them."""
        now = self._clock.ticks()
        return [job for job, (until, _) in list(self._resting.items()) if now < until]

    def start(self) -> None:
        """Begin; what an earlier dispatcher held is picked up as its leases run out."""
        self._thread.start()

    def wake(self) -> None:
        """Look now: a job was submitted or cancelled. Returns at once."""
        self._woken.set()

    def drain(self, seconds: float) -> bool:
        """Claim nothing more: whether all that it holds has come to its end, at points of the grid, in this time."""
        self._stopping.set()
        self._woken.set()
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def stop(self, patience: float = 5.0) -> None:
        """Claim nothing more, wait a little for what runs (not again after `drain`), then give it back."""
        self.drain(0.0 if self._stopping.is_set() else patience)
        self._left.set()
        self._woken.set()
        self._thread.join(patience)

    def _loop(self) -> None:
        while not self._left.is_set() and not (self._stopping.is_set() and not any(r.ours for r in self._running)):
            self._woken.clear()
            rest = _IDLE
            try:
                rest = self.step()
            except Exception as error:
                _log.error("dispatcher_error %s", type(error).__name__)
            self._clock.wait(self._woken, rest)
        try:
            self.leave()
        except Exception as error:
            _log.error("dispatcher_error %s", type(error).__name__)

    def step(self) -> float:
        """One look: finish what has ended, tell what is due, claim what fits. The seconds until the next one."""
        soon = _IDLE
        if self._running or not attempts.is_idle(self._database):
            for holder in self._ended():
                attempts.bury(self._database, holder)
            self._look()
            soon = self._tell()
            self._beat(is_owing=soon < math.inf)
            self._notice_losses()
            while self._has_room() and self._claim():
                pass
            self._engine.hold(len(self._running))
        self._sweep()
        return max(
            0.0, min(_IDLE, soon, self._settings.renew_seconds, *(r.look - self._clock.ticks() for r in self._running))
        )

    def _has_room(self) -> bool:
        may = not self._stopping.is_set() and self._settings.has_room
        return may and self._engine.take(len(self._running))

    def leave(self) -> None:
        """An orderly end: what has ended by now is kept, and the rest is given back, uncounted."""
        for running in [r for r in self._running if r.ours and r.ended()]:
            self._finish(running, self._clock.ticks())
        attempts.leave(self._database, self._holder, [r.claim for r in self._running if r.ours])
        self._running.clear()

    def _look(self) -> None:
        """At the points of the grid, and never between; but a worker gone or full is not the data's doing.

        When a worker that is told to stop hands an attempt back tells how long a step took: that waits for the grid.
        If the database does not answer, the next step tries again.
        """
        for running in list(self._running):
            ended, now = running.ended(), self._clock.ticks()
            if ended is not None and ended.kind in ("vanished", "full"):
                self._finish(running, now)
            elif running.look <= now and ended is not None:
                self._finish(running, running.look)
            elif running.look <= now:
                running.look_after(now)

    def _finish(self, running: _Running, seen: float) -> None:
        claim, outcome = running.claim, running.ended()
        assert outcome is not None
        if outcome.kind == "damaged":
            values.mark(self._database, claim.dataset.id, True)
        if running.ours:
            held = attempts.end(self._database, claim, _word(outcome), seen)
            level = logging.WARNING if outcome.kind == "full" else logging.INFO
            _say(claim, f"attempt_{outcome.kind if held else 'lost'}", level)
        if outcome.kind == "full":
            rest = min(2 * self._resting.get(claim.id, (0.0, _RESTS[0] / 2))[1], _RESTS[1])
            self._resting[claim.id] = (seen + rest, rest)
        else:
            self._resting.pop(claim.id, None)
        self._running.remove(running)
        shutil.rmtree(running.scratch, ignore_errors=True)

    def _tell(self) -> float:
        """What may be told now becomes the state of its job; the seconds until there is more."""
        ready, soon = attempts.due(self._database, self._holder)
        for claim in ready:
            try:
                said = attempts.publish(self._database, self._keys, claim)
            except (sa.exc.OperationalError, OSError):  # a full disk, say: later
                raise
            except Exception as error:
                _say(claim, f"release_failed {type(error).__name__}", logging.ERROR)
                said = attempts.fail(self._database, claim)
            if said is not None and claim.job.due is not None:  # else it was cancelled, or another server was first
                self._changed(claim.id)
                _say(claim, f"job_{said}")
                with in_request(claim.job.request_id):
                    self._told(said, claim.job.due)
        return soon

    def _claim(self) -> bool:
        now = self._clock.ticks()
        self._resting = {job: rest for job, rest in self._resting.items() if now < rest[0] + _RESTS[1]}
        if self._is_unsure:
            attempts.disown(self._database, self._holder, [r.claim for r in self._running])
        self._is_unsure = True
        claim = attempts.claim(self._database, self._holder, self.without_room(), self._limits)
        if claim is None:
            self._is_unsure = False
            return False
        scratch = self._settings.home / "scratch" / f"{claim.id}-{claim.attempt}"
        _say(claim, "attempt_started")
        now = self._clock.ticks()
        try:
            handle = self._engine.submit(claim.id, claim.attempt, self._payload(claim, scratch))
        except Exception as error:
            _say(claim, f"engine_refused {type(error).__name__}", logging.ERROR)
            attempts.end(self._database, claim, attempts.VANISHED, now)
            self._is_unsure = False
            return False
        running = _Running(claim, handle, scratch, now, claim.job.forecast)
        running.look_after(now)
        self._running.append(running)
        self._is_unsure = False
        self._beaten = now
        return True

    def _beat(self, is_owing: bool) -> None:
        """Every `renew_seconds`, as long as anything is held, or an end that this boot has measured is to be told."""
        now = self._clock.ticks()
        is_needed = is_owing or any(r.ours for r in self._running)
        if is_needed and now - self._beaten >= self._settings.renew_seconds:
            attempts.beat(self._database, self._holder)
            self._beaten = now

    def _notice_losses(self) -> None:
        """What was cancelled, or taken over, is stopped. Its slot comes free on a grid of its own, from here."""
        held = [r for r in self._running if r.ours]
        lost = attempts.lost(self._database, [r.claim for r in held])
        for running in (r for r in held if r.claim in lost):
            _say(running.claim, "attempt_abandoned")
            running.ours = False
            running.handle.cancel()
            running.began, running.least = self._clock.ticks(), _STOPPED
            running.look = running.began + grid.point_at(0.0, _STOPPED)

    def _sweep(self) -> None:
        """Removes what killed attempts have left on the scratch disk, and uploads that nobody goes on with."""
        if self._clock.ticks() - self._swept < self._settings.lease_seconds:
            return
        self._swept = self._clock.ticks()
        spool.sweep(self._settings.home, self._settings.upload_seconds)
        for folder in (self._settings.home / "scratch").glob("job_*-*"):
            job_id, _, attempt = folder.name.rpartition("-")
            if not (attempt.isdecimal() and attempts.is_held(self._database, job_id, int(attempt))):
                shutil.rmtree(folder, ignore_errors=True)

    def _payload(self, claim: Claim, scratch: Path) -> str:
        """`Payload`: what the worker is told; nothing of the ledger, no name of a person, no key."""
        folder = folders.path(self._settings.home, claim.dataset.folder)
        document = {
            "folder": str(folder),
            "scratch": str(scratch),
            "checksum": claim.dataset.checksum,
            "spec": json.loads(claim.spec),
            "partitions": partitions.described(folder),
        }
        return json.dumps(document)


def _say(claim: Claim, what: str, level: int = logging.INFO) -> None:
    """A line about an attempt, as a part of the request that submitted its job."""
    with in_request(claim.job.request_id):
        _log.log(level, "%s %s %d", what, claim.id, claim.attempt)


def _word(outcome: Outcome) -> str:
    """To people, values that are damaged are a failure like any other."""
    words = {"ok": outcome.output, "vanished": attempts.VANISHED, "full": attempts.FULL, "left": attempts.STOPPED}
    return words.get(outcome.kind, attempts.RAISED)
