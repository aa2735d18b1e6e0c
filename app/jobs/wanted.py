"""Which jobs a list is to hold: by what was asked for and what is told, never by when an attempt really ended."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated

import sqlalchemy as sa
from fastapi import Query
from pydantic import AfterValidator

from app.persistence.clock import stamp
from app.persistence.tables import identities, jobs
from purse.wire.base import DatasetReference, Name
from purse.wire.jobs import JobKind, JobState


def _moment(said: str) -> str:
    """As times are stored."""
    try:
        return stamp(datetime.fromisoformat(said).replace(tzinfo=UTC).timestamp())
    except ValueError:
        raise ValueError("must be a day or a time that there is") from None


_TIME = r"^2[0-9]{3}-[0-9]{2}-[0-9]{2}(T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{3})?Z)?$"
_SINCE = Query(
    pattern=_TIME, description="Only those submitted at this UTC time or later: a day, or 2026-11-22T17:00:00Z."
)
_UNTIL = Query(pattern=_TIME, description="Only those submitted before this UTC time, written as for `since`.")


@dataclass(frozen=True, slots=True)
class Wanted:
    """Those that suit all that is said. Times are of submissions, which no record decides."""

    dataset: Annotated[
        DatasetReference | None, Query(description="Only jobs on this dataset, by its id or its name.")
    ] = None
    state: Annotated[JobState | None, Query(description="Only those that are told to be in this state.")] = None
    method: Annotated[
        str | None,
        Query(pattern="^[a-z0-9_]{1,40}$", description="Only those of this method, as their quotes name it."),
    ] = None
    kind: Annotated[JobKind | None, Query(description="Only those that release this.")] = None
    analyst: Annotated[
        Name | None, Query(description="Only those of this analyst, by name or the id of the identity.")
    ] = None
    since: Annotated[str | None, _SINCE, AfterValidator(_moment)] = None
    until: Annotated[str | None, _UNTIL, AfterValidator(_moment)] = None

    def among(self) -> Iterator[sa.ColumnElement[bool]]:
        """What the rows of a list meet."""
        said = (self.dataset, self.state, self.method, self.kind)
        for column, value in zip((jobs.c.dataset_id, jobs.c.state, jobs.c.method, jobs.c.kind), said, strict=True):
            if value is not None:
                yield column == value
        if self.analyst is not None:
            who = (identities.c.name == self.analyst) | (identities.c.id == self.analyst)
            yield jobs.c.owner_id.in_(sa.select(identities.c.id).where(who))
        if self.since is not None:
            yield jobs.c.created_at >= self.since
        if self.until is not None:
            yield jobs.c.created_at < self.until


ANY = Wanted()
