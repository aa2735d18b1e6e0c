"""Jobs in the database. Every function but `submitted` works inside the caller's transaction."""

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from app.http.lists import Paging
from app.persistence.dialect import announce, next_job_number
from app.persistence.session import Database
from app.persistence.tables import datasets, holders, jobs
from app.webhooks import store as webhooks
from app.wire import Job, Quote
from purse.wire.jobs import JobKind, JobState, Progress

_LEFT = ("request", "spec", "model", "receipt", "ended")
_LISTED = tuple(column for column in jobs.c if column.name not in _LEFT)  # in the order of `JobRow`
DATASET = jobs.c.dataset_id
RELEASED_PROFILE = (jobs.c.kind == "profile") & (jobs.c.state == "done")
_BY_KEY = sa.select(*_LISTED).where(
    jobs.c.owner_id == sa.bindparam("owner"), jobs.c.idempotency_key == sa.bindparam("key")
)
_NEXT, _INSERTED = sa.select(next_job_number()), sa.insert(jobs)
_OPEN = sa.select(jobs.c.id).where(jobs.c.state.in_(("queued", "running"))).limit(1)
_KEPT = sa.select(*_LISTED).where(jobs.c.state == "running", jobs.c.ended.is_not(None)).order_by(jobs.c.number)


@dataclass(frozen=True, slots=True)
class JobRow:
    """A job as stored, without its larger documents, which are looked up one by one. Documents are JSON text.

    Parameters
    ----------
    kind : what it releases
    lost : attempts whose worker or holder vanished; one that was given back is not counted
    holder : whose attempt it is now
    boot, ticks : when it was submitted, as `Clock` measures
    due : when its end may be told, in seconds from then; None while its attempt goes on
    request_id : of the request that submitted it; None from before that was noted
    method : the quote's
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
        """The seconds that its quote predicted."""
        found = json.loads(self.quote).get("forecast")
        return float(found["seconds"]) if found else 0.0

    def to_wire(self) -> Job:
        """What its owner sees."""
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
            error=self.error,
            created_at=self.created_at,
            started_at=self.started_at,
            finished_at=self.finished_at,
        )


def answers(quote: Quote) -> int:
    """How many private answers are planned."""
    return sum(query.answers for query in quote.queries)


def get(connection: sa.Connection, job_id: str, *seen: sa.ColumnElement[bool]) -> JobRow | None:
    """A job by its id, if it is among those that may be seen."""
    return _one(connection, sa.and_(jobs.c.id == job_id, *seen))


def on(*job_ids: str, seen: sa.ColumnElement[bool] | None = None) -> sa.ColumnElement[bool]:
    """The datasets of these jobs, as far as those may be seen: for `ledger.lock`."""
    which = jobs.c.id.in_(job_ids)
    return datasets.c.id.in_(sa.select(jobs.c.dataset_id).where(which if seen is None else which & seen))


def owned(owner_id: str) -> sa.ColumnElement[bool]:
    """The jobs of this owner."""
    return jobs.c.owner_id == owner_id


def by_key(connection: sa.Connection, owner_id: str, key: str) -> JobRow | None:
    """The job that this owner submitted under this idempotency key."""
    row = connection.execute(_BY_KEY, {"owner": owner_id, "key": key}).one_or_none()
    return None if row is None else JobRow(*row)


async def submitted(database: Database, owner_id: str, key: str) -> JobRow | None:
    """Return `by_key` of a transaction of its own, without a thread: before a submission it is almost always None."""
    rows = await database.ask(_BY_KEY, {"owner": owner_id, "key": key})
    return JobRow(*rows[0]) if rows else None


def numbered(connection: sa.Connection, number: int, *also: sa.ColumnElement[bool]) -> JobRow | None:
    """The job at this place in the queue, if it is such a one."""
    return _one(connection, sa.and_(jobs.c.number == number, *also))


def held(connection: sa.Connection, job_id: str, attempt: int) -> JobRow | None:
    """The job, if this is its attempt and has not ended: what every step of an attempt must ask first."""
    return _one(connection, _running(job_id, attempt))


def of_holder(connection: sa.Connection, holder: str) -> list[tuple[str, int]]:
    """The attempts that this holder has, by job."""
    found = connection.execute(sa.select(jobs.c.id, jobs.c.attempt).where(jobs.c.holder == holder))
    return [(row.id, row.attempt) for row in found]


def listed(*wanted: sa.ColumnElement[bool]) -> sa.Select[Any]:
    """The jobs that meet all that is wanted."""
    return sa.select(*_LISTED).where(*wanted)


def page(
    connection: sa.Connection, asked: Paging, seen: sa.ColumnElement[bool], *wanted: sa.ColumnElement[bool]
) -> list[JobRow]:
    """The jobs that may be seen and meet all that is wanted, in the order of submission; none after one not seen.

    A cursor is a job's id: numbers count the jobs of everybody.
    """
    after = sa.select(jobs.c.number).where(jobs.c.id == asked.cursor, seen)
    found = asked.of(listed(seen, *wanted), jobs.c.number, at=after)
    return [JobRow(*row) for row in connection.execute(found)]


def unfinished(connection: sa.Connection, dataset_id: str) -> list[JobRow]:
    """The jobs on a dataset that are not over, oldest first."""
    mine = (jobs.c.dataset_id == dataset_id) & jobs.c.state.in_(("queued", "running"))
    return [JobRow(*row) for row in connection.execute(sa.select(*_LISTED).where(mine).order_by(jobs.c.number))]


def next_number(connection: sa.Connection) -> int:
    """The next job's place in the queue."""
    return connection.execute(_NEXT).scalar_one()


def insert(connection: sa.Connection, row: JobRow, *, request: str, spec: str) -> None:
    """Stores a new job: what was asked, for the record, and what will run."""
    announce(connection, row.id)
    values = {c.name: getattr(row, c.name) for c in _LISTED}
    connection.execute(_INSERTED, values | {"request": request, "spec": spec})


def beats(connection: sa.Connection) -> dict[str, int]:
    """Every holder's counter."""
    return {row.id: row.beat for row in connection.execute(sa.select(holders))}


def boots(connection: sa.Connection, living: Collection[str]) -> set[str]:
    """The boots of the machines on which these holders are."""
    return set(connection.scalars(sa.select(holders.c.boot).where(holders.c.id.in_(living))))


def working(connection: sa.Connection) -> dict[str, int]:
    """The counters of those who hold an attempt that goes on."""
    held = sa.select(jobs.c.holder).where(jobs.c.state == "running", jobs.c.ended.is_(None), jobs.c.holder.is_not(None))
    found = connection.execute(sa.select(holders).where(holders.c.id.in_(held)))
    return {row.id: row.beat for row in found}


def beat(connection: sa.Connection, holder: str, boot: str) -> None:
    """Moves a holder's counter."""
    moved = sa.update(holders).where(holders.c.id == holder).values(beat=holders.c.beat + 1)
    if connection.execute(moved).rowcount == 0:
        connection.execute(sa.insert(holders).values(id=holder, beat=0, boot=boot))


def forget(connection: sa.Connection, dead: Sequence[str]) -> None:
    """Takes counters away, but one that is being moved just now: whose is gone is dead to everybody at once."""
    still = sa.select(holders.c.id).where(holders.c.id.in_(dead)).with_for_update(skip_locked=True)
    connection.execute(sa.delete(holders).where(holders.c.id.in_(still)))


def is_idle(connection: sa.Connection) -> bool:
    """Whether every job is over."""
    return connection.scalar(_OPEN) is None


def start(connection: sa.Connection, row: JobRow, at: str, **values: Any) -> None:
    """queued, or running(n) -> running(n + 1), in the hands of a holder."""
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
    """The attempt is nobody's any more: the next claim takes the job."""
    announce(connection, job_id)
    _update(connection, _running(job_id, attempt), holder=None, lost=lost)


def keep(connection: sa.Connection, job_id: str, attempt: int, *, ended: str, due: float, lost: int) -> None:
    """How the attempt ended, until it may be told; announced to nobody."""
    _update(connection, _running(job_id, attempt), holder=None, ended=ended, due=due, lost=lost)


def kept(connection: sa.Connection) -> list[JobRow]:
    """The jobs whose attempt has ended and of which nobody has been told, in the order of submission."""
    return [JobRow(*row) for row in connection.execute(_KEPT)]


def ended(connection: sa.Connection, job_id: str) -> str | None:
    """How the attempt ended that is kept: `raised`, `vanished`, or its output."""
    return connection.scalar(sa.select(jobs.c.ended).where(jobs.c.id == job_id))


def end(connection: sa.Connection, row: JobRow, state: JobState, at: str, **values: Any) -> None:
    """Any open state -> done with model and receipt, failed with an error, or cancelled; as the row was read before."""
    announce(connection, row.id)
    unchanged = (jobs.c.id == row.id) & (jobs.c.state == row.state) & (jobs.c.attempt == row.attempt)
    _update(connection, unchanged, state=state, holder=None, ended=None, due=None, finished_at=at, **values)
    webhooks.enqueue(connection, row.owner_id, row.id)


def spec(connection: sa.Connection, job_id: str) -> str:
    """What the job is (`app.sources.spec.JobSpec`), for worker and release."""
    found: str = connection.execute(sa.select(jobs.c.spec).where(jobs.c.id == job_id)).scalar_one()
    return found


def model(connection: sa.Connection, job_id: str) -> str | None:
    """The released model's or profile's canonical JSON; its SHA-256 is in the receipt."""
    return connection.scalar(sa.select(jobs.c.model).where(jobs.c.id == job_id))


def receipt(connection: sa.Connection, job_id: str) -> str | None:
    """The release's signed receipt."""
    return connection.scalar(sa.select(jobs.c.receipt).where(jobs.c.id == job_id))


def _one(connection: sa.Connection, condition: sa.ColumnElement[bool]) -> JobRow | None:
    row = connection.execute(sa.select(*_LISTED).where(condition)).one_or_none()
    return None if row is None else JobRow(*row)


def _running(job_id: str, attempt: int) -> sa.ColumnElement[bool]:
    live = (jobs.c.state == "running") & jobs.c.ended.is_(None)
    return (jobs.c.id == job_id) & (jobs.c.attempt == attempt) & live


def _update(connection: sa.Connection, condition: sa.ColumnElement[bool], **values: Any) -> None:
    """Changes the one row that the condition names; RuntimeError, and with it a rollback, if it is not there."""
    if connection.execute(sa.update(jobs).where(condition).values(**values)).rowcount != 1:
        raise RuntimeError("the job changed inside the transaction that holds it")
