"""The dispatcher: a thread that claims jobs, submits them to the engine, stores outcomes and reports their ends.

All its state is also in the database, so another dispatcher can continue after a kill at any point. It checks attempts
only at the points of a public grid (`app.jobs.grid`). Neither a job's state nor a free slot therefore shows when an
attempt really ended. Log lines contain an identifier and a code, never the text of an exception.
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
from app.jobs.queue import QueueLimits
from app.ledger.keys import SigningKeys
from app.persistence.session import Database
from app.settings import Settings
from app.sources import partitions
from app.worker.engine import DAMAGED, FULL, VANISHED, WORDS, Engine, Handle

_log = logging.getLogger(__name__)

_POLL_INTERVAL_SECONDS = 1.0  # between two checks of the queue without a wake-up
_STOP_SECONDS = 8.0  # time within which any cancelled attempt has ended; more than the engine's grace period
_FIRST_RETRY_SECONDS, _LAST_RETRY_SECONDS = 15.0, 600.0  # pauses of a job whose worker had a full disk


@dataclass(slots=True)
class RunningAttempt:
    """An attempt on the engine.

    Parameters
    ----------
    began : tick at which the grid of its slot begins: that of the claim, or of the loss of the claim
    minimum_seconds : time from `began` before the first check
    next_check : its tick
    is_ours : False once the claim is lost; the dispatcher then only waits for the slot
    """

    claim: Claim
    handle: Handle
    scratch: Path
    began: float
    minimum_seconds: float
    next_check: float = 0.0
    is_ours: bool = True
    outcome: str | None = None

    def poll(self) -> str | None:
        """Return the result of the attempt, if it has ended; this must not be reported before the next check."""
        if self.outcome is None and self.handle.done():
            self.outcome = self.handle.result()
        return self.outcome

    def schedule_check(self, now: float) -> None:
        """Set the next check: the next point of the grid of the slot, or of that of the submission."""
        submitted = self.claim.job.ticks
        slot_point = self.began + grid.next_point(now - self.began, self.minimum_seconds)
        report_point = submitted + grid.next_point(now - submitted, self.began + self.minimum_seconds - submitted)
        self.next_check = min(slot_point, report_point)


class Dispatcher:
    """The thread that keeps the engine's slots busy with jobs of the queue.

    Parameters
    ----------
    settings : lease and heartbeat times, limits, the home
    database, keys : those of the service
    engine : runs the attempts; its creator closes it
    dead_holders : returns holders that are known to be dead, each one once
    job_ended : called after each reported end with the state and the seconds from the submission, a point of the grid
    job_changed : called after each reported end with the job's id

    Attributes
    ----------
    running : attempts on the engine, including those whose claim is lost
    """

    def __init__(
        self,
        settings: Settings,
        database: Database,
        keys: SigningKeys,
        engine: Engine,
        dead_holders: Callable[[], Sequence[str]] = tuple,
        job_ended: Callable[[str, float], None] = lambda _state, _due: None,
        job_changed: Callable[[str], None] = lambda _job: None,
    ) -> None:
        self._settings, self._database, self._keys, self._engine = settings, database, keys, engine
        self._dead_holders, self._job_ended, self._job_changed = dead_holders, job_ended, job_changed
        self._limits = QueueLimits.running(settings)
        self._clock = database.clock
        self._holder = Holder(self._clock, settings.lease_seconds)
        self.running: list[RunningAttempt] = []
        self._woken = threading.Event()
        self._stopping = threading.Event()
        self._is_leaving = threading.Event()
        self._resting: dict[
            str, tuple[float, float]
        ] = {}  # job -> tick at which its pause ends, and length of the pause
        self._heartbeat_at = self._swept_at = -math.inf
        self._is_unsure = False  # whether a claim may have been committed although its commit raised
        self._thread = threading.Thread(target=self._loop, name="dispatcher", daemon=True)

    @property
    def holder(self) -> str:
        """Identifier under which this dispatcher holds its attempts."""
        return self._holder.id

    def waiting_for_disk(self) -> list[str]:
        """Return the jobs that are paused because the disk of a worker was full."""
        now = self._clock.ticks()
        return [job for job, (until, _) in list(self._resting.items()) if now < until]

    def start(self) -> None:
        """Start the thread. Attempts of an earlier dispatcher are claimed when their leases expire."""
        self._thread.start()

    def wake(self) -> None:
        """Check the queue now, because a job was submitted or cancelled. Return at once."""
        self._woken.set()

    def drain(self, seconds: float) -> bool:
        """Claim no further jobs; return whether all running ones ended, at points of the grid, within this time."""
        self._stopping.set()
        self._woken.set()
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def stop(self, patience: float = 5.0) -> None:
        """Claim no further jobs, wait for running ones unless `drain` has, and give the others back."""
        self.drain(0.0 if self._stopping.is_set() else patience)
        self._is_leaving.set()
        self._woken.set()
        self._thread.join(patience)

    def _loop(self) -> None:
        while not self._is_leaving.is_set() and not (
            self._stopping.is_set() and not any(r.is_ours for r in self.running)
        ):
            self._woken.clear()
            wait = _POLL_INTERVAL_SECONDS
            try:
                wait = self.step()
            except Exception as error:
                _log.error("dispatcher_error %s", type(error).__name__)
            self._clock.wait(self._woken, wait)
        try:
            self.leave()
        except Exception as error:
            _log.error("dispatcher_error %s", type(error).__name__)

    def step(self) -> float:
        """Store ended attempts, report ends that are due, claim jobs; return the seconds until the next step."""
        soon = _POLL_INTERVAL_SECONDS
        if self.running or not attempts.is_idle(self._database):
            for holder in self._dead_holders():
                attempts.bury(self._database, holder)
            self._check_running()
            soon = self._report_ends()
            self._send_heartbeat(has_unreported=soon < math.inf)
            self._notice_losses()
            while self._may_claim() and self._claim():
                pass
            self._engine.hold(len(self.running))
        self._sweep()
        return max(
            0.0,
            min(
                _POLL_INTERVAL_SECONDS,
                soon,
                self._settings.renew_seconds,
                *(r.next_check - self._clock.ticks() for r in self.running),
            ),
        )

    def _may_claim(self) -> bool:
        may_claim = not self._stopping.is_set() and self._settings.has_free_disk
        return may_claim and self._engine.take(len(self.running))

    def leave(self) -> None:
        """Store attempts that have ended, and give the others back without counting them as lost."""
        for running in [r for r in self.running if r.is_ours and r.poll()]:
            self._finish(running, self._clock.ticks())
        attempts.leave(self._database, self._holder, [r.claim for r in self.running if r.is_ours])
        self.running.clear()

    def _check_running(self) -> None:
        """Store outcomes at points of the grid; lost workers and full disks, which do not depend on the data, at once.

        The time at which a worker hands an attempt back shows how long a step took. It is therefore stored at a point
        of the grid as well. If the database does not answer, the next step tries again.
        """
        for running in list(self.running):
            outcome = running.poll()
            now = self._clock.ticks()
            if outcome in (VANISHED, FULL):
                self._finish(running, now)
            elif running.next_check <= now and outcome is not None:
                self._finish(running, running.next_check)
            elif running.next_check <= now:
                running.schedule_check(now)

    def _finish(self, running: RunningAttempt, at: float) -> None:
        claim, outcome = running.claim, running.poll()
        assert outcome is not None
        if outcome == DAMAGED:
            values.mark(self._database, claim.dataset.id, True)
        if running.is_ours:
            stored_end = attempts.RAISED if outcome == DAMAGED else outcome
            is_stored = attempts.end(self._database, claim, stored_end, at)
            level = logging.WARNING if outcome == FULL else logging.INFO
            word = outcome if outcome in WORDS else "ok"
            _log_attempt(claim, f"attempt_{word if is_stored else 'lost'}", level)
        if outcome == FULL:
            _, last_pause = self._resting.get(claim.id, (0.0, _FIRST_RETRY_SECONDS / 2))
            pause = min(2 * last_pause, _LAST_RETRY_SECONDS)
            self._resting[claim.id] = (at + pause, pause)
        else:
            self._resting.pop(claim.id, None)
        self.running.remove(running)
        shutil.rmtree(running.scratch, ignore_errors=True)

    def _report_ends(self) -> float:
        """Set the states of jobs whose end is due; return the seconds until another end is due."""
        ready, soon = attempts.due(self._database, self._holder)
        for claim in ready:
            try:
                state = attempts.publish(self._database, self._keys, claim)
            except (sa.exc.OperationalError, OSError):  # such as a full disk; the next step tries again
                raise
            except Exception as error:
                _log_attempt(claim, f"release_failed {type(error).__name__}", logging.ERROR)
                state = attempts.fail(self._database, claim)
            if state is not None and claim.job.due is not None:  # None if it was cancelled or reported elsewhere
                self._job_changed(claim.id)
                _log_attempt(claim, f"job_{state}")
                with in_request(claim.job.request_id):
                    self._job_ended(state, claim.job.due)
        return soon

    def _claim(self) -> bool:
        now = self._clock.ticks()
        self._resting = {job: rest for job, rest in self._resting.items() if now < rest[0] + _LAST_RETRY_SECONDS}
        if self._is_unsure:
            attempts.disown(self._database, self._holder, [r.claim for r in self.running])
        self._is_unsure = True
        claim = attempts.claim(self._database, self._holder, self.waiting_for_disk(), self._limits)
        if claim is None:
            self._is_unsure = False
            return False
        scratch = self._settings.home / "scratch" / f"{claim.id}-{claim.attempt}"
        _log_attempt(claim, "attempt_started")
        now = self._clock.ticks()
        try:
            handle = self._engine.submit(claim.id, claim.attempt, self._payload(claim, scratch))
        except Exception as error:
            _log_attempt(claim, f"engine_refused {type(error).__name__}", logging.ERROR)
            attempts.end(self._database, claim, attempts.VANISHED, now)
            self._is_unsure = False
            return False
        running = RunningAttempt(claim, handle, scratch, now, claim.job.forecast)
        running.schedule_check(now)
        self.running.append(running)
        self._is_unsure = False
        self._heartbeat_at = now
        return True

    def _send_heartbeat(self, has_unreported: bool) -> None:
        """Send a heartbeat every `renew_seconds` while attempts are held or ends of this boot are not yet reported."""
        now = self._clock.ticks()
        is_needed = has_unreported or any(r.is_ours for r in self.running)
        if is_needed and now - self._heartbeat_at >= self._settings.renew_seconds:
            attempts.beat(self._database, self._holder)
            self._heartbeat_at = now

    def _notice_losses(self) -> None:
        """Stop attempts that were cancelled or claimed elsewhere; a new grid for the slot begins now."""
        ours = [r for r in self.running if r.is_ours]
        lost = attempts.lost(self._database, [r.claim for r in ours])
        for running in (r for r in ours if r.claim in lost):
            _log_attempt(running.claim, "attempt_abandoned")
            running.is_ours = False
            running.handle.cancel()
            running.began, running.minimum_seconds = self._clock.ticks(), _STOP_SECONDS
            running.next_check = running.began + grid.point_at(0.0, _STOP_SECONDS)

    def _sweep(self) -> None:
        """Remove files of killed attempts from the scratch folder, and abandoned uploads."""
        if self._clock.ticks() - self._swept_at < self._settings.lease_seconds:
            return
        self._swept_at = self._clock.ticks()
        spool.sweep(self._settings.home, self._settings.upload_seconds)
        for folder in (self._settings.home / "scratch").glob("job_*-*"):
            job_id, _, attempt = folder.name.rpartition("-")
            if not (attempt.isdecimal() and attempts.is_held(self._database, job_id, int(attempt))):
                shutil.rmtree(folder, ignore_errors=True)

    def _payload(self, claim: Claim, scratch: Path) -> str:
        """Return the JSON of `Payload`, which contains nothing of the ledger, no name of a person and no key."""
        folder = folders.path(self._settings.home, claim.dataset.folder)
        document = {
            "folder": str(folder),
            "scratch": str(scratch),
            "checksum": claim.dataset.checksum,
            "spec": json.loads(claim.spec),
            "partitions": partitions.described(folder),
        }
        return json.dumps(document)


def _log_attempt(claim: Claim, event: str, level: int = logging.INFO) -> None:
    """Log an event of an attempt, with the id of the request that submitted its job."""
    with in_request(claim.job.request_id):
        _log.log(level, "%s %s %d", event, claim.id, claim.attempt)
