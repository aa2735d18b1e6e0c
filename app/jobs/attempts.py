"""The attempts of a job. Each step is one transaction, which changes the job and its ledger.

    queued -> running(1) -> running(2) -> ... -> ended -> done | failed        running(n) -> cancelled at any time

A job is claimed again if its attempt was given back (its holder stopped in order, or its worker's disk was full), or if
its worker or holder vanished. If this happens a second time, the job fails. Every step of an attempt is a
compare-and-set on (id, running, attempt, not ended), so that a superseded attempt can no longer end. The end is stored,
and published when the grid allows it (`app.jobs.grid`). Proof of at most one release:
docs/decisions/0004-job-engine.md.
"""

import hashlib
import logging
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import sqlalchemy as sa

from accounting.errors import AccountingError
from accounting.records.chain import MOST_ENTRIES
from accounting.records.documents import fields, integer, parse
from accounting.records.events import Failed, Released, Started
from app.datasets import store as datasets
from app.datasets.store import DatasetRow
from app.http.errors import ApiError
from app.jobs import grid, queue, release, store
from app.jobs.leases import Holder
from app.jobs.queue import NO_LIMITS, QueueLimits
from app.jobs.store import JobRow
from app.ledger import store as ledger
from app.ledger.keys import SigningKeys
from app.persistence.clock import Clock, stamp
from app.persistence.session import Database

RAISED, VANISHED, FULL, HANDED_BACK = "raised", "vanished", "full", "left"  # words of `app.worker.engine`
_MOST_LOSSES = 2
_LOG = logging.getLogger("purse.jobs")


@dataclass(frozen=True, slots=True)
class Claim:
    """One attempt of one job; `spec` is the JSON of its `JobSpec`."""

    job: JobRow
    dataset: DatasetRow
    spec: str

    @property
    def id(self) -> str:
        """The job's id."""
        return self.job.id

    @property
    def attempt(self) -> int:
        """The number of the attempt, which with the id identifies it in every step."""
        return self.job.attempt


def claim(
    database: Database, holder: Holder, resting: Collection[str] = (), limits: QueueLimits = NO_LIMITS
) -> Claim | None:
    """Claim the next waiting job. It is started in the ledger before any data is read.

    Parameters
    ----------
    resting : jobs that are not tried now
    limits : largest numbers of running jobs
    """
    clock = database.clock
    while True:
        with database.write(alone="claims") as connection:
            job = queue.claimable(connection, holder.living(store.beats(connection)), resting, limits)
            if job is None:
                return None
            ledger.lock(connection, store.on(job.id))
            row = queue.unchanged(connection, job)
            if row is None:  # for example cancelled meanwhile
                continue
            lost = row.lost + (row.holder is not None)
            if lost >= _MOST_LOSSES:
                _store_end(connection, clock, row, VANISHED, lost, clock.ticks())
                continue
            at = database.timestamp()
            waiting = _claim(connection, row)
            if waiting is None or not _is_as_charged(connection, waiting):  # its charge stands
                store.end(connection, row, "failed", at, error="job_failed")
                continue
            is_own_boot = row.boot == clock.boot  # otherwise another clock measured its submission
            origin = {} if is_own_boot else {"boot": clock.boot, "ticks": clock.ticks()}
            if row.state == "queued":
                queue.take_turn(connection, row.owner_id)
            store.beat(connection, holder.id, clock.boot)
            store.start(connection, row, at, holder=holder.id, lost=lost, **origin)
            ledger.apply(connection, row.dataset_id, Started(row.id, row.attempt + 1), at)
            attempt = store.live_attempt(connection, row.id, row.attempt + 1)
            assert attempt is not None
            return replace(waiting, job=attempt)


def is_held(database: Database, job_id: str, attempt: int) -> bool:
    """Return whether this is the job's present attempt, and it has not ended."""
    with database.read() as connection:
        return store.live_attempt(connection, job_id, attempt) is not None


def is_idle(database: Database) -> bool:
    """Return whether every job has ended."""
    with database.read() as connection:
        return store.is_idle(connection)


def beat(database: Database, holder: Holder) -> None:
    """Move the holder's heartbeat counter, and delete the counters of dead holders."""
    with database.write() as connection:
        store.beat(connection, holder.id, database.clock.boot)
        beats = store.beats(connection)
        store.forget(connection, sorted(beats.keys() - set(holder.living(beats))))


def lost(database: Database, claims: Sequence[Claim]) -> list[Claim]:
    """Return the claims whose jobs were cancelled or claimed by another holder."""
    if not claims:
        return []
    with database.read() as connection:
        return [c for c in claims if store.live_attempt(connection, c.id, c.attempt) is None]


def end(database: Database, claim: Claim, how: str, observed: float) -> bool:
    """Store the end of an attempt, its output, RAISED or VANISHED, until it may be published.

    After the first vanished worker, after a full disk (FULL), and after an orderly stop (HANDED_BACK), the job is given
    back for another attempt instead.

    Parameters
    ----------
    observed : the tick at which the end was observed

    Returns
    -------
    bool
        False if the claim is lost.
    """
    with database.write() as connection:
        ledger.lock(connection, store.on(claim.id))
        row = store.live_attempt(connection, claim.id, claim.attempt)
        if row is None:
            return False
        losses = row.lost + (how == VANISHED)
        if how in (FULL, HANDED_BACK) or (how == VANISHED and losses < _MOST_LOSSES):
            store.give_back(connection, row.id, row.attempt, losses)
        else:
            _store_end(connection, database.clock, row, how, losses, observed)
    return True


def leave(database: Database, holder: Holder, claims: Sequence[Claim]) -> None:
    """End the holder in order: its claims are given back, without counting as losses."""
    with database.write() as connection:
        _give_back(connection, [(claim.id, claim.attempt) for claim in claims])
        store.forget(connection, [holder.id])


def disown(database: Database, holder: Holder, claims: Sequence[Claim]) -> None:
    """Give back claims that were committed but never acknowledged to the holder: no worker runs them.

    Parameters
    ----------
    claims : the claims that the holder knows
    """
    acknowledged = {(claim.id, claim.attempt) for claim in claims}
    with database.write(alone="claims") as connection:  # waits for a claim whose commit is in progress
        _give_back(connection, sorted(set(store.of_holder(connection, holder.id)) - acknowledged))


def _give_back(connection: sa.Connection, attempts: Sequence[tuple[str, int]]) -> None:
    ledger.lock(connection, store.on(*(job_id for job_id, _ in attempts)))
    for job_id, attempt in attempts:
        row = store.live_attempt(connection, job_id, attempt)
        if row is not None:
            store.give_back(connection, row.id, row.attempt, row.lost)


def bury(database: Database, holder_id: str) -> None:
    """Record that a holder is dead, so that its jobs are claimed without waiting for its lease."""
    with database.write() as connection:
        store.forget(connection, [holder_id])


def due(database: Database, holder: Holder) -> tuple[list[Claim], float]:
    """Return the ended attempts that may be published now, in order, and the seconds until the next one.

    An attempt on a dataset that cannot be read is left out until the operator has restored the database.

    Parameters
    ----------
    holder : publishes them; ends that a still living machine has measured are left to that machine
    """
    clock, now = database.clock, database.clock.ticks()
    with database.read() as connection:
        unpublished = store.unpublished(connection)
        foreign = {row.boot for row in unpublished} - {clock.boot}
        elsewhere = foreign and store.boots(connection, holder.living(store.beats(connection)))
        waiting = sorted(
            (_due_at(clock, row), row.number, row) for row in unpublished if row.boot not in foreign & elsewhere
        )
        ready = [_claim(connection, row) for at, _, row in waiting if at <= now]
    return list(filter(None, ready)), min((at - now for at, _, _ in waiting if at > now), default=float("inf"))


def publish(database: Database, keys: SigningKeys, claim: Claim) -> str | None:
    """Make the stored end of a job its state: the release, or the error. Return the state; None if it was cancelled.

    Raises
    ------
    release.Unreleasable
        if the output is not within the plan, or the job is not as charged; nothing has changed then, and the caller
        fails the job.
    """
    with database.read() as connection:
        how = store.document(connection, claim.id, "ended")
        if how is None:
            return None
        if not _is_as_charged(connection, claim):
            raise release.Unreleasable("the job is not as charged")
    if how in (RAISED, VANISHED):
        return fail(database, claim, "worker_lost" if how == VANISHED else "job_failed")
    return _release(database, keys, claim, how)


def fail(database: Database, claim: Claim, error: str = "job_failed") -> str | None:
    """Fail the job of an ended attempt: it stays charged, without a reason; return None if the job was cancelled."""
    with database.write() as connection:
        ledger.lock(connection, store.on(claim.id))
        if not _is_publishable(connection, claim):
            return None
        at = _published_at(database.clock, claim.job)
        if _is_as_charged(connection, claim):  # otherwise its ledger is unknown
            ledger.apply(connection, claim.job.dataset_id, Failed(claim.id, claim.attempt), at)
        store.end(connection, claim.job, "failed", at, error=error)
    return "failed"


def _release(database: Database, keys: SigningKeys, claim: Claim, output: str) -> str | None:
    """Store the release, receipt, ledger entry and state `done` in one transaction."""
    result = release.read(claim.spec, output)
    model = release.document(claim.job, result)
    digest = hashlib.sha256(model.encode()).hexdigest()
    with database.write() as connection:
        ledger.lock(connection, store.on(claim.id))
        if not _is_publishable(connection, claim):
            return None
        at = _published_at(database.clock, claim.job)
        entry = ledger.apply(connection, claim.job.dataset_id, Released(claim.id, claim.attempt, digest), at)
        receipt = release.receipt(claim.job, claim.dataset, result, digest, entry, at, keys)
        store.end(connection, claim.job, "done", at, model=model, receipt=receipt)
    return "done"


def _store_end(connection: sa.Connection, clock: Clock, row: JobRow, how: str, losses: int, observed: float) -> None:
    elapsed = observed - row.ticks if row.boot == clock.boot else 0.0
    due = grid.point_at(elapsed, row.forecast)
    store.store_end(connection, row.id, row.attempt, outcome=how, due=due, lost=losses)


def _claim(connection: sa.Connection, row: JobRow) -> Claim | None:
    """Return the claim of a job's present attempt; None if the row of its dataset cannot be read."""
    try:
        dataset = datasets.get(connection, row.dataset_id)
    except (AccountingError, ValueError):
        _LOG.error("dataset_unreadable %s", row.dataset_id)
        return None
    spec = store.document(connection, row.id, "spec")
    assert dataset is not None
    assert spec is not None
    return Claim(row, dataset, spec)


def _is_as_charged(connection: sa.Connection, claim: Claim) -> bool:
    """Return whether the rows of a job and its dataset state what the ledger states about them.

    A job that has ended in the ledger is not as charged: a second run would release a second answer for one charge.
    """
    job = claim.job
    with suppress(ApiError, AccountingError):
        datasets.refuse_changed(connection, claim.dataset)
        own = fields(parse(job.charge), ("cost",), "a charge", optional=("share", "entry"))
        first = integer(own.get("entry", 1), 1, MOST_ENTRIES, "entry")
        charge = ledger.charged(connection, job.dataset_id, job.id, first)
        sha256 = store.spec_sha256(claim.spec)
        if charge.dataset == job.dataset_id and charge.spec_sha256 in (None, sha256):
            return True
    _LOG.error("job_differs_from_charge %s", job.id)
    return False


def _is_publishable(connection: sa.Connection, claim: Claim) -> bool:
    """Return whether the stored end is that of this attempt."""
    row = store.get(connection, claim.id)
    return row is not None and row.state == "running" and row.due is not None and row.attempt == claim.attempt


def _due_at(clock: Clock, row: JobRow) -> float:
    """Return the tick at which the end may be published: at once, if the machine that measured it has restarted."""
    assert row.due is not None
    return row.ticks + row.due if row.boot == clock.boot else float("-inf")


def _published_at(clock: Clock, row: JobRow) -> str:
    """Return the due time of the end as a timestamp, even if it is published later."""
    late = clock.ticks() - _due_at(clock, row)
    return stamp(clock.wall() - (late if late < float("inf") else 0.0))
