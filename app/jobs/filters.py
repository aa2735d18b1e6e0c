"""Filters of job lists. They use requests and public states, never the time at which an attempt really ended."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated

import sqlalchemy as sa
from fastapi import Query
from pydantic import AfterValidator

from app.identity.store import is_called
from app.persistence.clock import stamp
from app.persistence.tables import identities, jobs
from purse.wire.base import DatasetReference, Name
from purse.wire.jobs import JobKind, JobState


def _moment(text: str) -> str:
    """Return a day or time as the database stores times."""
    try:
        return stamp(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp())
    except ValueError:
        raise ValueError("must be an existing day or time, such as 2026-11-22 or 2026-11-22T17:00:00Z") from None


_TIME = r"^2[0-9]{3}-[0-9]{2}-[0-9]{2}(T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{3})?Z)?$"
_SINCE = Query(
    pattern=_TIME, description="Only jobs submitted at this UTC time or later: a day, or 2026-11-22T17:00:00Z."
)
_UNTIL = Query(pattern=_TIME, description="Only jobs submitted before this UTC time, written as for `since`.")


@dataclass(frozen=True, slots=True)
class JobFilters:
    """Filters of a list of jobs. `since` and `until` compare times of submission, which do not depend on records."""

    dataset: Annotated[
        DatasetReference | None, Query(description="Only jobs on this dataset, by its id or its name.")
    ] = None
    state: Annotated[JobState | None, Query(description="Only jobs in this state.")] = None
    method: Annotated[
        str | None,
        Query(pattern="^[a-z0-9_]{1,40}$", description="Only jobs of this method, as their quotes name it."),
    ] = None
    kind: Annotated[JobKind | None, Query(description="Only jobs that release this.")] = None
    analyst: Annotated[Name | None, Query(description="Only jobs of this analyst, by name or identity id.")] = None
    since: Annotated[str | None, _SINCE, AfterValidator(_moment)] = None
    until: Annotated[str | None, _UNTIL, AfterValidator(_moment)] = None

    def conditions(self) -> Iterator[sa.ColumnElement[bool]]:
        """Yield the conditions that the rows of the list meet."""
        values = (self.dataset, self.state, self.method, self.kind)
        for column, value in zip((jobs.c.dataset_id, jobs.c.state, jobs.c.method, jobs.c.kind), values, strict=True):
            if value is not None:
                yield column == value
        if self.analyst is not None:
            yield jobs.c.owner_id.in_(sa.select(identities.c.id).where(is_called(self.analyst)))
        if self.since is not None:
            yield jobs.c.created_at >= self.since
        if self.until is not None:
            yield jobs.c.created_at < self.until


NO_FILTERS = JobFilters()
