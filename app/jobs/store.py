"""Jobs in the database. Every function except `submitted` runs inside the caller's transaction."""

import hashlib
import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal

import sqlalchemy as sa

from app.http.lists import Paging
from app.persistence.dialect import announce
from app.persistence.session import Database
from app.persistence.tables import datasets, holders, jobs
from app.webhooks import store as webhooks
from app.wire import Job, Quote
from purse.wire.jobs import JobKind, JobState, Progress


@dataclass(frozen=True, slots=True)
class JobRow:
    """A job as stored, without its larger documents, which are read separately. Documents are JSON text.

    Parameters
    ----------
    kind : what it releases
    lost : attempts whose worker or holder vanished; attempts that were given back do not count
    holder : the holder of the present attempt
    boot, ticks : time of the submission, as `Clock` measures it
    due : time at which its end may be published, in seconds from then; None until its attempt has ended
    request_id : of the request that submitted it
    method : name of the method in the quote
    """

    id: str
    number: int
    kind: JobKind
    dataset_id: str
    owner_id: str
    analyst: str
    idempotency_key: str
    request_sha256: str
    quote: str
    charge: str
    state: JobState
    attempt: int
    lost: int
    holder: str | None
    boot: str
    ticks: float
    due: float | None
    error: Any
    created_at: str
    started_at: str | None
    finished_at: str | None
    request_id: str | None
    method: str | None

    @property
    def forecast(self) -> float:
        """The predicted duration in seconds."""
        return float(json.loads(self.quote)["forecast"]["seconds"])

    @property
    def is_refunded(self) -> bool:
        """Whether the job was cancelled before it started, which refunds its charge."""
        return self.state == "cancelled" and self.started_at is None

    def to_wire(self, share: float | None) -> Job:
        """Return the job as its reader sees it.

        Parameters
        ----------
        share : share of the budget that the job uses now; None if the reader cannot see the budget
        """
        quote = Quote.model_validate_json(self.quote)
        total = answers(quote)
        return Job(
            id=self.id,
            kind=self.kind,
            dataset=self.dataset_id,
            analyst=self.analyst,
            state=self.state,
            attempt=self.attempt,
            progress=Progress(done=total if self.state == "done" else 0, total=total),
            quote=quote,
            share=share,
            error=self.error,
            created_at=self.created_at,
            started_at=self.started_at,
            finished_at=self.finished_at,
        )


_COLUMNS = tuple(jobs.c[field.name] for field in fields(JobRow))
_BY_KEY = sa.select(*_COLUMNS).where(
    jobs.c.owner_id == sa.bindparam("owner"), jobs.c.idempotency_key == sa.bindparam("key")
)
_INSERTED = sa.insert(jobs)
_OPEN = sa.select(jobs.c.id).where(jobs.c.state.in_(("queued", "running"))).limit(1)
_UNPUBLISHED = sa.select(*_COLUMNS).where(jobs.c.state == "running", jobs.c.ended.is_not(None)).order_by(jobs.c.number)


def answers(quote: Quote) -> int:
    """Return the number of planned private answers."""
    return sum(query.answers for query in quote.queries)


def get(connection: sa.Connection, job_id: str, *visible: sa.ColumnElement[bool]) -> JobRow | None:
    """Return a job by its id if it meets the conditions, else None."""
    return _row_where(connection, sa.and_(jobs.c.id == job_id, *visible))


def on(*job_ids: str, visible: sa.ColumnElement[bool] | None = None) -> sa.ColumnElement[bool]:
    """Return the condition, for `ledger.lock`, that selects the datasets of these jobs, as far as they are visible."""
    condition: sa.ColumnElement[bool] = jobs.c.id.in_(job_ids)
    if visible is not None:
        condition &= visible
    return datasets.c.id.in_(sa.select(jobs.c.dataset_id).where(condition))


def by_key(connection: sa.Connection, owner_id: str, key: str) -> JobRow | None:
    """Return the job that this owner submitted under this idempotency key, or None if there is none."""
    row = connection.execute(_BY_KEY, {"owner": owner_id, "key": key}).one_or_none()
    return None if row is None else JobRow(*row)


async def submitted(database: Database, owner_id: str, key: str) -> JobRow | None:
    """Return `by_key` of a transaction of its own, without a thread: before a submission it is almost always None."""
    rows = await database.ask(_BY_KEY, {"owner": owner_id, "key": key})
    return JobRow(*rows[0]) if rows else None


def numbered(connection: sa.Connection, number: int, *conditions: sa.ColumnElement[bool]) -> JobRow | None:
    """Return the job with this number in the queue if it meets the conditions, else None."""
    return _row_where(connection, sa.and_(jobs.c.number == number, *conditions))


def live_attempt(connection: sa.Connection, job_id: str, attempt: int) -> JobRow | None:
    """Return the job if this is its present attempt and has not ended; every step of an attempt checks this first."""
    return _row_where(connection, _running(job_id, attempt))


def of_holder(connection: sa.Connection, holder: str) -> list[tuple[str, int]]:
    """Return job id and number of the attempts of this holder."""
    rows = connection.execute(sa.select(jobs.c.id, jobs.c.attempt).where(jobs.c.holder == holder))
    return [(row.id, row.attempt) for row in rows]


def listed(*conditions: sa.ColumnElement[bool]) -> sa.Select[Any]:
    """Return the query of the jobs that meet the conditions."""
    return sa.select(*_COLUMNS).where(*conditions)


def page(
    connection: sa.Connection, paging: Paging, visible: sa.ColumnElement[bool], *conditions: sa.ColumnElement[bool]
) -> list[JobRow]:
    """Return a page of visible jobs in the order of submission; an empty one after an invisible job.

    A cursor is a job's id, because numbers would reveal how many jobs others submit.
    """
    cursor = sa.select(jobs.c.number).where(jobs.c.id == paging.cursor, visible)
    query = paging.of(listed(visible, *conditions), jobs.c.number, at=cursor)
    return [JobRow(*row) for row in connection.execute(query)]


def unfinished(connection: sa.Connection, dataset_id: str) -> list[JobRow]:
    """Return the jobs on a dataset that have not ended, oldest first."""
    query = listed(jobs.c.dataset_id == dataset_id, jobs.c.state.in_(("queued", "running")))
    return [JobRow(*row) for row in connection.execute(query.order_by(jobs.c.number))]


def insert(connection: sa.Connection, row: JobRow, *, request: str, spec: str) -> None:
    """Store a new job, with its request for the record and the spec that will run."""
    announce(connection, row.id)
    values = {c.name: getattr(row, c.name) for c in _COLUMNS}
    connection.execute(_INSERTED, values | {"request": request, "spec": spec})


def beats(connection: sa.Connection) -> dict[str, int]:
    """Return every holder's heartbeat counter."""
    return {row.id: row.beat for row in connection.execute(sa.select(holders))}


def boots(connection: sa.Connection, living: Collection[str]) -> set[str]:
    """Return the boot ids of the machines of these holders."""
    return set(connection.scalars(sa.select(holders.c.boot).where(holders.c.id.in_(living))))


def working(connection: sa.Connection) -> dict[str, int]:
    """Return the heartbeat counters of the holders of attempts that have not ended."""
    is_running = (jobs.c.state == "running") & jobs.c.ended.is_(None) & jobs.c.holder.is_not(None)
    rows = connection.execute(sa.select(holders).where(holders.c.id.in_(sa.select(jobs.c.holder).where(is_running))))
    return {row.id: row.beat for row in rows}


def beat(connection: sa.Connection, holder: str, boot: str) -> None:
    """Increment a holder's heartbeat counter."""
    update = sa.update(holders).where(holders.c.id == holder).values(beat=holders.c.beat + 1)
    if connection.execute(update).rowcount == 0:
        connection.execute(sa.insert(holders).values(id=holder, beat=0, boot=boot))


def forget(connection: sa.Connection, dead: Sequence[str]) -> None:
    """Delete the counters of dead holders, except one that is being incremented now. Then all servers see them dead."""
    unlocked = sa.select(holders.c.id).where(holders.c.id.in_(dead)).with_for_update(skip_locked=True)
    connection.execute(sa.delete(holders).where(holders.c.id.in_(unlocked)))


def is_idle(connection: sa.Connection) -> bool:
    """Return whether every job has ended."""
    return connection.scalar(_OPEN) is None


def start(connection: sa.Connection, row: JobRow, at: str, **values: Any) -> None:
    """Start an attempt of a holder: queued, or running(n) -> running(n + 1)."""
    announce(connection, row.id)
    is_open = jobs.c.state.in_(("queued", "running")) & jobs.c.ended.is_(None)
    unchanged = (jobs.c.id == row.id) & (jobs.c.attempt == row.attempt) & is_open
    _update(
        connection,
        unchanged,
        state="running",
        attempt=row.attempt + 1,
        started_at=row.started_at or at,
        **values,
    )


def give_back(connection: sa.Connection, job_id: str, attempt: int, lost: int) -> None:
    """Release the attempt, so that the job can be claimed again."""
    announce(connection, job_id)
    _update(connection, _running(job_id, attempt), holder=None, lost=lost)


def store_end(connection: sa.Connection, job_id: str, attempt: int, *, outcome: str, due: float, lost: int) -> None:
    """Store the end of an attempt until it may be published; it is not announced."""
    _update(connection, _running(job_id, attempt), holder=None, ended=outcome, due=due, lost=lost)


def unpublished(connection: sa.Connection) -> list[JobRow]:
    """Return the jobs whose attempt has ended without being published, in the order of submission."""
    return [JobRow(*row) for row in connection.execute(_UNPUBLISHED)]


def end(connection: sa.Connection, row: JobRow, state: JobState, at: str, **values: Any) -> None:
    """End a job whose row is unchanged: done with model and receipt, failed with an error, or cancelled."""
    announce(connection, row.id)
    unchanged = (jobs.c.id == row.id) & (jobs.c.state == row.state) & (jobs.c.attempt == row.attempt)
    _update(connection, unchanged, state=state, holder=None, ended=None, due=None, finished_at=at, **values)
    webhooks.enqueue(connection, row.owner_id, row.id)


def document(connection: sa.Connection, job_id: str, name: Literal["spec", "ended", "model", "receipt"]) -> str | None:
    """Return one of a job's larger documents, or None if it does not exist.

    Parameters
    ----------
    name : the `JobSpec` that runs; the unpublished end (`raised`, `vanished` or an output); or, after the release, the
        model, whose SHA-256 is in the receipt, or the receipt
    """
    return connection.scalar(sa.select(jobs.c[name]).where(jobs.c.id == job_id))


def spec_sha256(spec: str) -> str:
    """Return the hash of a `JobSpec`'s JSON, which the job's charge states."""
    return hashlib.sha256(spec.encode()).hexdigest()


def _row_where(connection: sa.Connection, condition: sa.ColumnElement[bool]) -> JobRow | None:
    row = connection.execute(sa.select(*_COLUMNS).where(condition)).one_or_none()
    return None if row is None else JobRow(*row)


def _running(job_id: str, attempt: int) -> sa.ColumnElement[bool]:
    live = (jobs.c.state == "running") & jobs.c.ended.is_(None)
    return (jobs.c.id == job_id) & (jobs.c.attempt == attempt) & live


def _update(connection: sa.Connection, condition: sa.ColumnElement[bool], **values: Any) -> None:
    """Change the one row that meets the condition; raise a RuntimeError, which rolls back, if there is none."""
    if connection.execute(sa.update(jobs).where(condition).values(**values)).rowcount != 1:
        raise RuntimeError("the job changed inside the transaction that holds it")
