"""The order of the queue, and the limits on jobs. The database decides, so that all servers agree.

An interrupted job goes before all waiting jobs. Then it is the turn of the analyst with the fewest running attempts.
Among several of these, it is the turn of the one whose last turn is longest ago. The oldest job of that analyst that
may run is started. Therefore an analyst who queues a thousand jobs delays a newcomer by one job.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import sqlalchemy as sa

from app.http.errors import ApiError
from app.jobs import store
from app.jobs.store import JobRow
from app.persistence.tables import QUEUED, datasets, jobs, ledgers, stored_values, turns
from app.settings import Settings

_RETRY = {"Retry-After": "30"}


@dataclass(frozen=True, slots=True)
class QueueLimits:
    """The largest numbers of jobs at a time of one analyst and on one dataset, over all servers; None for no limit."""

    analyst: int | None = None
    dataset: int | None = None

    @staticmethod
    def queued(settings: Settings) -> "QueueLimits":
        """Return the limits on waiting jobs from the settings."""
        return QueueLimits(settings.max_queued_per_analyst, settings.max_queued_per_dataset)

    @staticmethod
    def running(settings: Settings) -> "QueueLimits":
        """Return the limits on running jobs from the settings."""
        return QueueLimits(settings.max_running_per_analyst, settings.max_running_per_dataset)


NO_LIMITS = QueueLimits()


def _waiting(column: sa.Column[str], limit: str) -> sa.ScalarSelect[int]:
    """Return the number of waiting jobs with a value in this column, or the bound `limit` if there are more."""
    waiting = sa.select(jobs.c.number).where(QUEUED, column == sa.bindparam(column.name)).limit(sa.bindparam(limit))
    return sa.select(sa.func.count()).select_from(waiting.subquery()).scalar_subquery()


_UNLIMITED = 2**31 - 1  # more than a queue can have
_WAIT = sa.select(_waiting(jobs.c.owner_id, "analyst"), _waiting(jobs.c.dataset_id, "dataset"))
_LINE = jobs.alias("line")


def _next(*conditions: sa.ColumnElement[bool]) -> sa.ScalarSelect[int]:
    """Return the number of the first job in the queue's index that meets the conditions: one step for any queue."""
    order = (_LINE.c.owner_id, _LINE.c.dataset_id, _LINE.c.number)
    return sa.select(_LINE.c.number).where(QUEUED, *conditions).order_by(*order).limit(1).scalar_subquery()


def _may_start(dataset_id: sa.ColumnElement[str] = jobs.c.dataset_id) -> sa.ColumnElement[bool]:
    """Return the condition that the dataset is intact, and that the state of its ledger is whole and not frozen.

    States are canonical JSON. They are compared as text, because one that is damaged would make a function of JSON fail
    for all datasets.
    """
    damaged = sa.select(stored_values.c.dataset_id).where(stored_values.c.damaged_at.is_not(None))
    is_stopped = ledgers.c.state.contains('"frozen":true') | ledgers.c.state.not_like("{%}")
    stopped = sa.select(datasets.c.id).join(ledgers).where(is_stopped)
    return dataset_id.not_in(damaged) & dataset_id.not_in(stopped)


_ATTEMPT = (
    jobs.c.id,
    jobs.c.owner_id,
    jobs.c.dataset_id,
    jobs.c.number,
    jobs.c.holder,
    _may_start().label("may_start"),
)
_RUNS = (jobs.c.state == sa.literal_column("'running'")) & jobs.c.ended.is_(None)  # a literal, for the partial index
_RUNNING = sa.select(*_ATTEMPT).where(_RUNS)
# Each owner of a waiting job, with one of these jobs and the owner's last turn: one step from an owner to the next.
_OWNERS = sa.select(jobs.c.owner_id, jobs.c.number).where(jobs.c.number == _next()).cte("owners", recursive=True)
_NEXT_OWNER = jobs.c.number == _next(_LINE.c.owner_id > _OWNERS.c.owner_id).correlate(_OWNERS)
_OWNERS = _OWNERS.union_all(sa.select(jobs.c.owner_id, jobs.c.number).join_from(_OWNERS, jobs, _NEXT_OWNER))
_LAST_TURN = sa.func.coalesce(turns.c.turn, 0).label("last_turn")
_WAITING = sa.select(*_OWNERS.c, _LAST_TURN).join_from(
    _OWNERS, turns, turns.c.owner_id == _OWNERS.c.owner_id, isouter=True
)
# The oldest job of some of these owners that may start: the oldest on each dataset, one step from one to the next.
_POSITION = (jobs.c.owner_id, jobs.c.dataset_id, jobs.c.number)
_SOME = jobs.c.number.in_(sa.bindparam("some", expanding=True))
_HEADS = sa.select(*_POSITION).where(_SOME).cte("heads", recursive=True)
_NEXT_DATASET = (_LINE.c.owner_id == _HEADS.c.owner_id, _LINE.c.dataset_id > _HEADS.c.dataset_id)
_HEADS = _HEADS.union_all(
    sa.select(*_POSITION).join_from(_HEADS, jobs, jobs.c.number == _next(*_NEXT_DATASET).correlate(_HEADS))
)
_STARTABLE = (_HEADS.c.dataset_id.not_in(sa.bindparam("crowded", expanding=True)), _may_start(_HEADS.c.dataset_id))
_OLDEST = sa.select(_HEADS.c.owner_id, sa.func.min(_HEADS.c.number)).where(*_STARTABLE).group_by(_HEADS.c.owner_id)


def refuse_full(connection: sa.Connection, owner_id: str, dataset_id: str, limits: QueueLimits) -> None:
    """Raise an `ApiError` too_many_requests if no further job may wait, inside the transaction that would insert it."""
    bounds = {"analyst": limits.analyst or _UNLIMITED, "dataset": limits.dataset or _UNLIMITED}
    waiting = connection.execute(_WAIT, {"owner_id": owner_id, "dataset_id": dataset_id} | bounds).one()
    for count, bound, scope in zip(waiting, bounds.values(), ("of one analyst", "on one dataset"), strict=True):
        if count == bound:
            detail = f"At most {bound} jobs {scope} may wait. Nothing was charged. Try again when some have started."
            raise ApiError("too_many_requests", detail, headers=_RETRY)


def claimable(
    connection: sa.Connection, living: Sequence[str], resting: Collection[str], limits: QueueLimits
) -> JobRow | None:
    """Return the next job that no living holder has: an interrupted one first, else the oldest of the next analyst.

    Jobs that are `resting`, on a frozen ledger, or beyond the limits are passed over.
    """
    running = connection.execute(_RUNNING).all()
    abandoned = [row for row in running if row.holder not in living]
    interrupted = [row.number for row in abandoned if row.may_start and row.id not in resting]
    if interrupted:
        return store.numbered(connection, min(interrupted))
    attempts = [row for row in running if row.holder in living]
    busy = Counter(row.owner_id for row in attempts)
    crowded = _full(Counter(row.dataset_id for row in attempts), limits.dataset)
    full = _full(busy, limits.analyst)
    waiting = [row for row in connection.execute(_WAITING).all() if row.owner_id not in full]
    last_turns = {row.owner_id: row.last_turn for row in waiting}
    best = min((_rank(row.owner_id, busy, last_turns) for row in waiting), default=None)
    for is_best in (True, False):  # other analysts only if none of the first may start a job
        some = [row.number for row in waiting if (_rank(row.owner_id, busy, last_turns) == best) is is_best]
        oldest = dict(connection.execute(_OLDEST, {"some": some, "crowded": crowded}).all()) if some else {}
        if oldest:
            return store.numbered(connection, oldest[first(oldest, busy, last_turns)])
    return None


def unchanged(connection: sa.Connection, job: JobRow) -> JobRow | None:
    """Return a claimable job if its row is unchanged, under its ledger's lock; None if it was cancelled meanwhile."""
    row = store.numbered(connection, job.number, _may_start(), QUEUED | _RUNS)
    return row if row == job else None


def first(waiting: Mapping[str, int], busy: Mapping[str, int], last_turns: Mapping[str, int]) -> str:
    """Return the owner of the next turn: the fewest running attempts, then the earliest last turn, then the oldest job.

    Parameters
    ----------
    waiting : number of each owner's oldest job
    busy : number of each owner's running attempts
    last_turns : number of each owner's last turn; an owner without a turn goes first
    """
    return min(waiting, key=lambda owner: (*_rank(owner, busy, last_turns), waiting[owner]))


def _rank(owner: str, busy: Mapping[str, int], last_turns: Mapping[str, int]) -> tuple[int, int]:
    return busy.get(owner, 0), last_turns.get(owner, 0)


def take_turn(connection: sa.Connection, owner_id: str) -> None:
    """Record that this owner has the latest turn."""
    newest = 1 + (connection.scalar(sa.select(sa.func.max(turns.c.turn))) or 0)
    update = sa.update(turns).where(turns.c.owner_id == owner_id).values(turn=newest)
    if connection.execute(update).rowcount == 0:
        connection.execute(sa.insert(turns).values(owner_id=owner_id, turn=newest))


def _full(running: Mapping[str, int], limit: int | None) -> list[str]:
    return [id_ for id_, count in running.items() if limit is not None and count >= limit]
