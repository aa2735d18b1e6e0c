"""A job's state as server-sent events, from the database: whichever process runs the job, and after any restart."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Final

from fastapi.concurrency import run_in_threadpool
from fastapi.sse import ServerSentEvent

from app.identity.store import Principal, is_live
from app.jobs import store
from app.jobs.changes import SLOW, Changes
from app.persistence.session import Database
from purse.wire.jobs import JobEvent, JobState

FINAL: Final[frozenset[JobState]] = frozenset({"done", "failed", "cancelled"})

Position = tuple[int, int, int]


def position(event_id: str | None) -> Position:
    """Return the position of an event id `attempt.done.final` in a job's life; of any other id, before all events."""
    parts = (event_id or "").split(".")
    if len(parts) != 3 or not all(part.isascii() and part.isdecimal() and len(part) < 16 for part in parts):
        return (-1, 0, 0)
    attempt, answered, final = map(int, parts)
    return (attempt, answered, final)


async def follow(
    database: Database, job_id: str, last: Position, principal: Principal, changes: Changes
) -> AsyncIterator[ServerSentEvent]:
    """Every change after `last` that a look finds, until the job is over; the end itself is always told.

    Each look asks for the token as well: the stream ends seconds after that is revoked or expires, as a sign-on does.
    A thread is taken for each look and given back: a slow or silent client holds none.
    """
    with changes.of(job_id) as changed:
        while True:
            changed.clear()
            event = await run_in_threadpool(_look, database, job_id, principal)
            if event is None:
                return
            over = event.state in FINAL
            here = (event.attempt, event.progress.done, int(over))
            if over or here > last:
                last = here
                yield ServerSentEvent(data=event, event="job", id=".".join(map(str, here)))
            if over:
                return
            with suppress(TimeoutError):
                await asyncio.wait_for(changed.wait(), SLOW)


def _look(database: Database, job_id: str, principal: Principal) -> JobEvent | None:
    with database.read() as connection:
        if not is_live(connection, principal, database.timestamp()):
            return None
        row = store.get(connection, job_id)
    if row is None:
        raise RuntimeError("jobs are never deleted")
    job = row.to_wire()
    return JobEvent(state=job.state, attempt=job.attempt, progress=job.progress)
