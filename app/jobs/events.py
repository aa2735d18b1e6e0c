"""A job's state as server-sent events, read from the database: for a job of any process, and after any restart."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Final

from fastapi.concurrency import run_in_threadpool
from fastapi.sse import ServerSentEvent

from app.identity.store import Principal, is_live
from app.jobs import store
from app.jobs.changes import POLL_INTERVAL_SECONDS, Changes
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
    """Yield every change after `last` until the job has ended; the end itself is always sent.

    Each read of the database also checks the token, so that the stream ends seconds after the token is revoked or
    expires. A read uses a thread and returns it: a slow client holds no thread.
    """
    with changes.of(job_id) as changed:
        while True:
            changed.clear()
            event = await run_in_threadpool(_event, database, job_id, principal)
            if event is None:
                return
            is_final = event.state in FINAL
            current = (event.attempt, event.progress.done, int(is_final))
            if is_final or current > last:
                last = current
                yield ServerSentEvent(data=event, event="job", id=".".join(map(str, current)))
            if is_final:
                return
            with suppress(TimeoutError):
                await asyncio.wait_for(changed.wait(), POLL_INTERVAL_SECONDS)


def _event(database: Database, job_id: str, principal: Principal) -> JobEvent | None:
    with database.read() as connection:
        if not is_live(connection, principal, database.timestamp()):
            return None
        row = store.get(connection, job_id)
    if row is None:
        raise RuntimeError("jobs are never deleted")
    job = row.to_wire(None)
    return JobEvent(state=job.state, attempt=job.attempt, progress=job.progress)
