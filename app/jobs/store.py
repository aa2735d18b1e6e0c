"""Jobs in the database. Every function works inside the caller's transaction."""

from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from app.persistence.tables import jobs
from app.wire.jobs import Job, JobState, Progress, Quote

_LISTED = tuple(column for column in jobs.c if column.name not in ("model", "receipt"))


@dataclass(frozen=True, slots=True)
class JobRow:
    """A job as stored, its model and receipt left where they are. Documents are JSON text."""

    id: str
    number: int
    dataset_id: str
    owner_id: str
    analyst: str
    idempotency_key: str
    request_sha256: str
    request: str
    quote: str
    plan: str
    charge: str
    state: JobState
    attempt: int
    lease_until: float | None
    progress: int
    error: Any
    created_at: str
    started_at: str | None
    finished_at: str | None

    def to_wire(self) -> Job:
        """What its owner sees."""
        quote = Quote.model_validate_json(self.quote)
        return Job(
            id=self.id,
            dataset=self.dataset_id,
            analyst=self.analyst,
            state=self.state,
            attempt=self.attempt,
            progress=Progress(done=self.progress, total=answers(quote)),
            quote=quote,
            error=self.error,
            created_at=self.created_at,
            started_at=self.started_at,
            finished_at=self.finished_at,
        )


def answers(quote: Quote) -> int:
    """How many private answers are planned."""
    return sum(query.answers for query in quote.queries)


def get(connection: sa.Connection, job_id: str) -> JobRow | None:
    """A job by its id."""
    return _one(connection, jobs.c.id == job_id)


def by_key(connection: sa.Connection, owner_id: str, key: str) -> JobRow | None:
    """The job that this owner submitted under this idempotency key."""
    return _one(connection, (jobs.c.owner_id == owner_id) & (jobs.c.idempotency_key == key))


def held(connection: sa.Connection, job_id: str, attempt: int) -> JobRow | None:
    """The job, if it is running and this is its attempt: what every step of an attempt must ask first."""
    return _one(connection, _running(job_id, attempt))


def page(connection: sa.Connection, owner_id: str | None, after: int, limit: int) -> list[JobRow]:
    """At most `limit` jobs with a number above `after`, oldest first; of one owner, or of all if None."""
    query = sa.select(*_LISTED).where(jobs.c.number > after).order_by(jobs.c.number).limit(limit)
    if owner_id is not None:
        query = query.where(jobs.c.owner_id == owner_id)
    return [JobRow(**row._mapping) for row in connection.execute(query)]


def next_number(connection: sa.Connection) -> int:
    """The next job's place in the queue."""
    return (connection.scalar(sa.select(sa.func.max(jobs.c.number))) or 0) + 1


def insert(connection: sa.Connection, row: JobRow) -> None:
    """Stores a new job."""
    connection.execute(sa.insert(jobs).values(**{c.name: getattr(row, c.name) for c in _LISTED}))


def claimable(connection: sa.Connection, now: float) -> JobRow | None:
    """A job that waits, or whose attempt's lease has run out: of the owner with the fewest running, the oldest."""
    waiting = (jobs.c.state == "queued") | ((jobs.c.state == "running") & (jobs.c.lease_until <= now))
    others = jobs.alias()
    busy = sa.select(sa.func.count()).where(others.c.owner_id == jobs.c.owner_id, others.c.state == "running")
    query = sa.select(*_LISTED).where(waiting).order_by(busy.scalar_subquery(), jobs.c.number).limit(1)
    query = query.with_for_update(skip_locked=True)
    row = connection.execute(query).one_or_none()
    return None if row is None else JobRow(**row._mapping)


def start(connection: sa.Connection, row: JobRow, lease_until: float, at: str) -> None:
    """queued, or running(n) -> running(n + 1), with no progress yet."""
    values = {"state": "running", "attempt": row.attempt + 1, "lease_until": lease_until, "progress": 0}
    _update(
        connection, (jobs.c.id == row.id) & (jobs.c.attempt == row.attempt), started_at=row.started_at or at, **values
    )


def renew(connection: sa.Connection, job_id: str, attempt: int, lease_until: float, progress: int) -> bool:
    """Moves the lease's end; False if the attempt is not the job's own any more."""
    statement = sa.update(jobs).where(_running(job_id, attempt)).values(lease_until=lease_until, progress=progress)
    return connection.execute(statement).rowcount == 1


def expire(connection: sa.Connection, job_id: str, attempt: int, now: float) -> None:
    """Ends the attempt's lease now, so that the next claim takes the job."""
    _update(connection, _running(job_id, attempt), lease_until=now)


def release(
    connection: sa.Connection, job_id: str, attempt: int, *, progress: int, model: str, receipt: str, at: str
) -> None:
    """running(n) -> done, with its model and its receipt."""
    values = {"progress": progress, "model": model, "receipt": receipt}
    _update(connection, _running(job_id, attempt), state="done", lease_until=None, finished_at=at, **values)


def end(connection: sa.Connection, row: JobRow, state: JobState, at: str, error: str | None = None) -> None:
    """Any open state -> failed or cancelled, as the row was read in this transaction."""
    unchanged = (jobs.c.id == row.id) & (jobs.c.state == row.state) & (jobs.c.attempt == row.attempt)
    _update(connection, unchanged, state=state, lease_until=None, finished_at=at, error=error)


def model(connection: sa.Connection, job_id: str) -> str | None:
    """The released model's canonical JSON; its SHA-256 is in the receipt."""
    return connection.scalar(sa.select(jobs.c.model).where(jobs.c.id == job_id))


def receipt(connection: sa.Connection, job_id: str) -> str | None:
    """The release's signed receipt."""
    return connection.scalar(sa.select(jobs.c.receipt).where(jobs.c.id == job_id))


def _one(connection: sa.Connection, condition: sa.ColumnElement[bool]) -> JobRow | None:
    row = connection.execute(sa.select(*_LISTED).where(condition).with_for_update()).one_or_none()
    return None if row is None else JobRow(**row._mapping)


def _running(job_id: str, attempt: int) -> sa.ColumnElement[bool]:
    return (jobs.c.id == job_id) & (jobs.c.state == "running") & (jobs.c.attempt == attempt)


def _update(connection: sa.Connection, condition: sa.ColumnElement[bool], **values: Any) -> None:
    """Changes the one row that the condition names; RuntimeError, and with it a rollback, if it is not there."""
    if connection.execute(sa.update(jobs).where(condition).values(**values)).rowcount != 1:
        raise RuntimeError("the job changed inside the transaction that holds it")
