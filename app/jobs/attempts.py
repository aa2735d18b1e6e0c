"""The attempts of a job, one transaction a step; the ledger moves in the same transaction as the job.

    queued -> running(1) -> running(2) -> ... -> ended -> done | failed        running(n) -> cancelled at any time

A job is claimed again when its attempt was given back (its holder stopped in order, or its worker's disk was full), or
when its worker or its holder vanished: after the second one that vanished it has failed. Every step of an attempt is a
compare-and-set on (id, running, attempt, not ended): one that was overtaken can no longer end. What has ended is kept,
and told when the grid says (`app.jobs.grid`). Proof of at most one release: docs/decisions/0004-job-engine.md.
"""

import hashlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import sqlalchemy as sa

from accounting.records.events import Failed, Released, Started
from app.datasets import store as datasets
from app.datasets.store import DatasetRow
from app.jobs import grid, queue, release, store
from app.jobs.leases import Holder
from app.jobs.queue import ANY_NUMBER, Limits
from app.jobs.store import JobRow
from app.ledger import store as ledger
from app.ledger.keys import SigningKeys
from app.persistence.clock import Clock, stamp
from app.persistence.session import Database

RAISED, VANISHED, FULL, LEFT = "raised", "vanished", "full", "left"  # how an attempt ended, if not with an output
_LOSSES = 2


@dataclass(frozen=True, slots=True)
class Claim:
    """One attempt of one job: `spec` is what runs, JSON of `JobSpec`."""

    job: JobRow
    dataset: DatasetRow
    spec: str

    @property
    def id(self) -> str:
        """The job."""
        return self.job.id

    @property
    def attempt(self) -> int:
        """The attempt: with the id, the fence."""
        return self.job.attempt


def claim(
    database: Database, holder: Holder, resting: Collection[str] = (), limits: Limits = ANY_NUMBER
) -> Claim | None:
    """The next job that waits for a slot, started in the ledger before anything of the data is read.

    Parameters
    ----------
    resting : jobs that are not to be tried now
    limits : how many may run at once
    """
    clock = database.clock
    while True:
        with database.write(alone="claims") as connection:
            found = queue.claimable(connection, holder.living(store.beats(connection)), resting, limits)
            if found is None:
                return None
            ledger.lock(connection, store.on(found.id))
            row = queue.unchanged(connection, found)
            if row is None:  # cancelled meanwhile, say
                continue
            lost = row.lost + (row.holder is not None)
            if lost >= _LOSSES:
                _keep(connection, clock, row, VANISHED, lost, clock.ticks())
                continue
            at = database.timestamp()
            here = row.boot == clock.boot  # else its submission was measured elsewhere
            origin = {} if here else {"boot": clock.boot, "ticks": clock.ticks()}
            if row.state == "queued":
                queue.take_turn(connection, row.owner_id)
            store.beat(connection, holder.id, clock.boot)
            store.start(connection, row, at, holder=holder.id, lost=lost, **origin)
            ledger.apply(connection, row.dataset_id, Started(row.id, row.attempt + 1), at)
            return _claim(connection, store.held(connection, row.id, row.attempt + 1))


def is_held(database: Database, job_id: str, attempt: int) -> bool:
    """Whether this attempt is the job's own and goes on."""
    with database.read() as connection:
        return store.held(connection, job_id, attempt) is not None


def is_idle(database: Database) -> bool:
    """Whether every job is over."""
    with database.read() as connection:
        return store.is_idle(connection)


def beat(database: Database, holder: Holder) -> None:
    """The holder lives; the counters of those who do not are taken away."""
    with database.write() as connection:
        store.beat(connection, holder.id, database.clock.boot)
        beats = store.beats(connection)
        store.forget(connection, sorted(beats.keys() - set(holder.living(beats))))


def lost(database: Database, claims: Sequence[Claim]) -> list[Claim]:
    """Those of the claims that are somebody else's now, or nobody's: cancelled, or taken over."""
    if not claims:
        return []
    with database.read() as connection:
        return [c for c in claims if store.held(connection, c.id, c.attempt) is None]


def end(database: Database, claim: Claim, how: str, seen: float) -> bool:
    """The attempt ended: its output, RAISED or VANISHED is kept until it may be told; False if the claim is lost.

    A job whose worker vanished is up for another attempt instead, the first time; one whose worker's disk was FULL, or
    that its worker LEFT in order, every time.

    Parameters
    ----------
    seen : the tick at which it was looked at
    """
    with database.write() as connection:
        ledger.lock(connection, store.on(claim.id))
        row = store.held(connection, claim.id, claim.attempt)
        if row is None:
            return False
        gone = row.lost + (how == VANISHED)
        if how in (FULL, LEFT) or (how == VANISHED and gone < _LOSSES):
            store.give_back(connection, row.id, row.attempt, gone)
        else:
            _keep(connection, database.clock, row, how, gone, seen)
    return True


def leave(database: Database, holder: Holder, claims: Sequence[Claim]) -> None:
    """An orderly end of the holder: what it holds goes back, uncounted, since nothing happened to it."""
    with database.write() as connection:
        _give_back(connection, [(claim.id, claim.attempt) for claim in claims])
        store.forget(connection, [holder.id])


def disown(database: Database, holder: Holder, claims: Sequence[Claim]) -> None:
    """What the holder has beside these claims it has claimed without hearing so: nobody runs it, and it goes back."""
    known = {(claim.id, claim.attempt) for claim in claims}
    with database.write(alone="claims") as connection:  # a claim whose commit is on its way is waited for
        _give_back(connection, sorted(set(store.of_holder(connection, holder.id)) - known))


def _give_back(connection: sa.Connection, held: Sequence[tuple[str, int]]) -> None:
    ledger.lock(connection, store.on(*(job_id for job_id, _ in held)))
    for job_id, attempt in held:
        row = store.held(connection, job_id, attempt)
        if row is not None:
            store.give_back(connection, row.id, row.attempt, row.lost)


def bury(database: Database, holder_id: str) -> None:
    """This holder is known to be dead: what it held is claimed without waiting for its lease."""
    with database.write() as connection:
        store.forget(connection, [holder_id])


def due(database: Database, holder: Holder) -> tuple[list[Claim], float]:
    """What has ended and may be told now, in the order of its times; and the seconds until the next is, if any is.

    Parameters
    ----------
    holder : who would tell it. What a boot has measured that still lives elsewhere is not this one's to tell
    """
    clock, now = database.clock, database.clock.ticks()
    with database.read() as connection:
        kept = store.kept(connection)
        foreign = {row.boot for row in kept} - {clock.boot}
        elsewhere = foreign and store.boots(connection, holder.living(store.beats(connection)))
        waiting = sorted((_due_at(clock, row), row.number, row) for row in kept if row.boot not in foreign & elsewhere)
        ready = [_claim(connection, row) for at, _, row in waiting if at <= now]
    return ready, min((at - now for at, _, _ in waiting if at > now), default=float("inf"))


def tell(database: Database, keys: SigningKeys, claim: Claim) -> str | None:
    """The kept end of a job becomes its state: the release, or the error. What it is now; None if it was cancelled.

    Raises
    ------
    release.Unreleasable
        if the output is not what the plan allows; nothing has changed then, and the caller fails the job.
    """
    with database.read() as connection:
        how = store.ended(connection, claim.id)
    if how is None:
        return None
    if how in (RAISED, VANISHED):
        return fail(database, claim, "worker_lost" if how == VANISHED else "job_failed")
    return _release(database, keys, claim, how)


def fail(database: Database, claim: Claim, error: str = "job_failed") -> str | None:
    """An ended attempt without a release: charged, and no word of why; None if the job was cancelled."""
    with database.write() as connection:
        ledger.lock(connection, store.on(claim.id))
        if not _is_told(connection, claim):
            return None
        at = _told_at(database.clock, claim.job)
        ledger.apply(connection, claim.job.dataset_id, Failed(claim.id, claim.attempt), at)
        store.end(connection, claim.job, "failed", at, error=error)
    return "failed"


def _release(database: Database, keys: SigningKeys, claim: Claim, output: str) -> str | None:
    """Model or profile, receipt, ledger entry and state `done` in one transaction."""
    result = release.read(claim.spec, output)
    model = release.document(claim.job, result)
    digest = hashlib.sha256(model.encode()).hexdigest()
    with database.write() as connection:
        ledger.lock(connection, store.on(claim.id))
        if not _is_told(connection, claim):
            return None
        at = _told_at(database.clock, claim.job)
        entry = ledger.apply(connection, claim.job.dataset_id, Released(claim.id, claim.attempt, digest), at)
        receipt = release.receipt(claim.job, claim.dataset, result, digest, entry, at, keys)
        store.end(connection, claim.job, "done", at, model=model, receipt=receipt)
    return "done"


def _keep(connection: sa.Connection, clock: Clock, row: JobRow, how: str, gone: int, seen: float) -> None:
    elapsed = seen - row.ticks if row.boot == clock.boot else 0.0
    due = grid.point_at(elapsed, row.forecast)
    store.keep(connection, row.id, row.attempt, ended=how, due=due, lost=gone)


def _claim(connection: sa.Connection, row: JobRow | None) -> Claim:
    assert row is not None
    dataset = datasets.get(connection, row.dataset_id)
    assert dataset is not None
    return Claim(row, dataset, store.spec(connection, row.id))


def _is_told(connection: sa.Connection, claim: Claim) -> bool:
    """Whether this very end is the job's to be told."""
    row = store.get(connection, claim.id)
    return row is not None and row.state == "running" and row.due is not None and row.attempt == claim.attempt


def _due_at(clock: Clock, row: JobRow) -> float:
    """The tick at which the end may be told; what a boot has measured that is no more is over by now."""
    assert row.due is not None
    return row.ticks + row.due if row.boot == clock.boot else float("-inf")


def _told_at(clock: Clock, row: JobRow) -> str:
    """The stamp of the moment at which the end may be told, whenever that then happens."""
    late = clock.ticks() - _due_at(clock, row)
    return stamp(clock.wall() - (late if late < float("inf") else 0.0))
