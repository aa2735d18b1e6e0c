"""Whose job is next, and how many jobs somebody may have: judged in the database, the same by every server.

An interrupted job goes before all that wait. Then the analyst with the fewest running attempts has a turn, of equals
the one whose last turn is longest ago, with the oldest job that may run. So while somebody's job waits, nobody else
begins two jobs without having had fewer running: whoever queues a thousand jobs delays a newcomer by one.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import sqlalchemy as sa

from app.http.errors import ApiError
from app.jobs import store
from app.jobs.store import JobRow
from app.persistence.dialect import json_at
from app.persistence.tables import QUEUED, datasets, jobs, ledgers, stored_values, turns
from app.settings import Settings

_RETRY = {"Retry-After": "30"}


@dataclass(frozen=True, slots=True)
class Limits:
    """The most jobs at once of one analyst, and on one dataset, over all servers; None for any number."""

    analyst: int | None = None
    dataset: int | None = None

    @staticmethod
    def queued(settings: Settings) -> "Limits":
        """The most jobs that may wait, as the settings say."""
        return Limits(settings.max_queued_per_analyst, settings.max_queued_per_dataset)

    @staticmethod
    def running(settings: Settings) -> "Limits":
        """The most jobs that may run, as the settings say."""
        return Limits(settings.max_running_per_analyst, settings.max_running_per_dataset)


ANY_NUMBER = Limits()


def _waiting(whose: sa.Column[str], most: str) -> sa.ScalarSelect[int]:
    """How many of somebody's jobs wait, or `most` if more do."""
    mine = sa.select(jobs.c.number).where(QUEUED, whose == sa.bindparam(whose.name)).limit(sa.bindparam(most))
    return sa.select(sa.func.count()).select_from(mine.subquery()).scalar_subquery()


_MANY = 2**31 - 1  # more than there are
_WAIT = sa.select(_waiting(jobs.c.owner_id, "analyst"), _waiting(jobs.c.dataset_id, "dataset"))  # made once
_LINE = jobs.alias("line")


def _next(*after: sa.ColumnElement[bool]) -> sa.ScalarSelect[int]:
    """The number of the first job in the queue's index that lies there: one step, however many wait."""
    order = (_LINE.c.owner_id, _LINE.c.dataset_id, _LINE.c.number)
    return sa.select(_LINE.c.number).where(QUEUED, *after).order_by(*order).limit(1).scalar_subquery()


def _may_start(dataset_id: sa.ColumnElement[str] = jobs.c.dataset_id) -> sa.ColumnElement[bool]:
    """The jobs on datasets that are whole, and whose ledger is not frozen."""
    broken = sa.select(stored_values.c.dataset_id).where(stored_values.c.damaged_at.is_not(None))
    stopped = sa.select(datasets.c.id).join(ledgers).where(json_at(ledgers.c.state, "$.frozen", sa.Boolean()))
    return dataset_id.not_in(broken) & dataset_id.not_in(stopped)


_HELD = (jobs.c.id, jobs.c.owner_id, jobs.c.dataset_id, jobs.c.number, jobs.c.holder, _may_start().label("may_start"))
_RUNS = (jobs.c.state == sa.literal_column("'running'")) & jobs.c.ended.is_(None)  # a bound state is planned anew
_GOING = sa.select(*_HELD).where(_RUNS)
# Whoever has a job that waits, with one of them and their last turn: from each of them a step to the next one.
_OWNERS = sa.select(jobs.c.owner_id, jobs.c.number).where(jobs.c.number == _next()).cte("owners", recursive=True)
_OTHER = jobs.c.number == _next(_LINE.c.owner_id > _OWNERS.c.owner_id).correlate(_OWNERS)
_OWNERS = _OWNERS.union_all(sa.select(jobs.c.owner_id, jobs.c.number).join_from(_OWNERS, jobs, _OTHER))
_HAD = sa.func.coalesce(turns.c.turn, 0).label("had")
_WAITING = sa.select(*_OWNERS.c, _HAD).join_from(_OWNERS, turns, turns.c.owner_id == _OWNERS.c.owner_id, isouter=True)
# The oldest job of each of some of them that may start: of each dataset's, by a step from one to the next.
_PLACE = (jobs.c.owner_id, jobs.c.dataset_id, jobs.c.number)
_SOME = jobs.c.number.in_(sa.bindparam("some", expanding=True))
_HEADS = sa.select(*_PLACE).where(_SOME).cte("heads", recursive=True)
_SAME = (_LINE.c.owner_id == _HEADS.c.owner_id, _LINE.c.dataset_id > _HEADS.c.dataset_id)
_HEADS = _HEADS.union_all(sa.select(*_PLACE).join_from(_HEADS, jobs, jobs.c.number == _next(*_SAME).correlate(_HEADS)))
_MAY = (_HEADS.c.dataset_id.not_in(sa.bindparam("crowded", expanding=True)), _may_start(_HEADS.c.dataset_id))
_OLDEST = sa.select(_HEADS.c.owner_id, sa.func.min(_HEADS.c.number)).where(*_MAY).group_by(_HEADS.c.owner_id)


def refuse_full(connection: sa.Connection, owner_id: str, dataset_id: str, limits: Limits) -> None:
    """`ApiError` too_many_requests if one more job could not wait. Inside the transaction that would insert it."""
    most_of = {"analyst": limits.analyst or _MANY, "dataset": limits.dataset or _MANY}
    waiting = connection.execute(_WAIT, {"owner_id": owner_id, "dataset_id": dataset_id} | most_of).one()
    for count, most, whose in zip(waiting, most_of.values(), ("of one analyst", "on one dataset"), strict=True):
        if count == most:
            detail = f"At most {most} jobs {whose} may wait; nothing was charged. Try again when some have started."
            raise ApiError("too_many_requests", detail, headers=_RETRY)


def claimable(
    connection: sa.Connection, living: Sequence[str], resting: Collection[str], limits: Limits
) -> JobRow | None:
    """What nobody living holds: an interrupted job first, else the oldest of whose turn it is.

    An interrupted job that is `resting` waits, and holds up nobody; so do those on a frozen ledger, and what would be
    more than `limits`.
    """
    going = connection.execute(_GOING).all()
    loose = [row for row in going if row.holder not in living]
    interrupted = [row.number for row in loose if row.may_start and row.id not in resting]
    if interrupted:
        return store.numbered(connection, min(interrupted))
    held = [row for row in going if row.holder in living]
    busy = Counter(row.owner_id for row in held)
    crowded = _full(Counter(row.dataset_id for row in held), limits.dataset)
    full = _full(busy, limits.analyst)
    waiting = [row for row in connection.execute(_WAITING).all() if row.owner_id not in full]
    had = {row.owner_id: row.had for row in waiting}
    best = min((_rank(row.owner_id, busy, had) for row in waiting), default=None)
    for is_best in (True, False):  # the others only if nothing of these may start
        some = [row.number for row in waiting if (_rank(row.owner_id, busy, had) == best) is is_best]
        oldest = dict(connection.execute(_OLDEST, {"some": some, "crowded": crowded}).all()) if some else {}
        if oldest:
            return store.numbered(connection, oldest[first(oldest, busy, had)])
    return None


def unchanged(connection: sa.Connection, seen: JobRow) -> JobRow | None:
    """A claimable job, if it still is as it was seen; asked again under its ledger's lock.

    What was seen may have been cancelled just before it was read: as it was seen, it is over.
    """
    row = store.numbered(connection, seen.number, _may_start(), QUEUED | _RUNS)
    return row if row == seen else None


def first(waiting: Mapping[str, int], busy: Mapping[str, int], had: Mapping[str, int]) -> str:
    """Whose turn it is: the fewest running attempts, then the last turn longest ago, then the oldest job.

    Parameters
    ----------
    waiting : the number of each owner's oldest job
    busy : how many attempts of theirs run
    had : when they had their last turn; who never had one goes before those who had
    """
    return min(waiting, key=lambda owner: (*_rank(owner, busy, had), waiting[owner]))


def _rank(owner: str, busy: Mapping[str, int], had: Mapping[str, int]) -> tuple[int, int]:
    return busy.get(owner, 0), had.get(owner, 0)


def take_turn(connection: sa.Connection, owner_id: str) -> None:
    """This owner's job begins: all others' turns are longer ago now."""
    newest = 1 + (connection.scalar(sa.select(sa.func.max(turns.c.turn))) or 0)
    taken = sa.update(turns).where(turns.c.owner_id == owner_id).values(turn=newest)
    if connection.execute(taken).rowcount == 0:
        connection.execute(sa.insert(turns).values(owner_id=owner_id, turn=newest))


def _full(running: Mapping[str, int], most: int | None) -> list[str]:
    return [who for who, count in running.items() if most is not None and count >= most]
