"""Sessions in the database. Every function except `opened` runs inside the caller's transaction."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Literal, get_args

import sqlalchemy as sa
from pydantic import TypeAdapter

from accounting.filter import Cost
from accounting.privacy import REPLACE_ONE, Relation
from accounting.records.allotments import Standing
from accounting.records.documents import canonical_text
from accounting.records.sessions import Certificate, SessionPlan, plan_from_json
from app.http.lists import Paging
from app.identity.store import Principal
from app.persistence.session import Database
from app.persistence.tables import datasets, session_steps, sessions
from purse.wire.sessions import PlannedEvent, Session, SessionCharge, SessionState

Refundable = Literal["unused", "untouched", "nothing"]
_COLUMNS = tuple(sessions.c)  # in the order of `SessionRow`
_ROWS: sa.Select[Any] = sa.select(*_COLUMNS, datasets.c.name.label("dataset_name")).join_from(sessions, datasets)
_BY_KEY = _ROWS.where(sessions.c.owner_id == sa.bindparam("owner"), sessions.c.idempotency_key == sa.bindparam("key"))


@dataclass(frozen=True, slots=True)
class Charge:
    """A charge for a session and its guarantee, as stored.

    Parameters
    ----------
    share : of the budget as its analyst sees it; None if it exceeds the budget
    stated_share : of the whole budget, for the receipt; None if it would reveal charges of other analysts
    """

    __pydantic_config__: ClassVar = {"extra": "forbid", "strict": True, "allow_inf_nan": False}

    share: float | None
    stated_share: float | None
    epsilon: float
    delta: float
    accountant: str
    accountant_version: str

    @staticmethod
    def of(standing: Standing, cost: Cost, certificate: Certificate) -> "Charge":
        """Return a live charge with the shares that it takes in the ledger as it stands for its analyst.

        A charge may exceed the budget beside an outside charge that does, and then has no share.
        """
        used = standing.share(cost)
        share = used if used <= 1 else None
        return Charge(share, None if standing.sees_parts_only else share, **asdict(certificate))

    def to_wire(self) -> SessionCharge:
        """Return the charge as its analyst sees it."""
        return SessionCharge(share=self.share, epsilon=self.epsilon, delta=self.delta)

    def to_text(self) -> str:
        """Return the charge as it is stored."""
        return canonical_text(asdict(self))


_CHARGE = TypeAdapter(Charge)


@dataclass(frozen=True, slots=True)
class SessionRow:
    """A session as stored. Documents are JSON text.

    Parameters
    ----------
    plan, recorded : list of events with counts, and the number of recorded answers of each
    refundable : what closing it refunds: unused answers, all answers if it is untouched, or nothing
    reserved, charged : `Charge` at the reservation, and now
    entry, settled : numbers of the ledger's entries `reserved` and `settled`
    state : as of the last write; an open session may have expired since
    """

    id: str
    dataset_id: str
    owner_id: str
    analyst: str
    title: str | None
    idempotency_key: str
    request_sha256: str
    plan: str
    recorded: str
    refundable: Refundable
    noise_multiplier: float | None
    reserved: str
    charged: str
    entry: int
    settled: int | None
    state: SessionState
    created_at: str
    expires_at: str
    ended_at: str | None
    dataset_name: str

    def has_expired(self, now: str) -> bool:
        """Return whether the session expired without being ended."""
        return self.state == "open" and self.expires_at <= now

    @property
    def counts(self) -> tuple[int, ...]:
        """The number of recorded answers of each event."""
        return tuple(json.loads(self.recorded))

    def planned(self, relation: Relation = REPLACE_ONE) -> SessionPlan:
        """Return the plan between these neighbors."""
        return plan_from_json(json.loads(self.plan), relation)

    def to_wire(self, now: str) -> Session:
        """Return the session as its analyst sees it at this time; an expired one without a write."""
        expired = self.has_expired(now)
        plan = zip(json.loads(self.plan), self.counts, strict=True)
        return Session(
            id=self.id,
            dataset=self.dataset_id,
            dataset_name=self.dataset_name,
            analyst=self.analyst,
            title=self.title,
            state="expired" if expired else self.state,
            plan=[PlannedEvent(**each, recorded=k, refundable=self.refundable == "unused") for each, k in plan],
            noise_multiplier=self.noise_multiplier,
            reserved=read_charge(self.reserved).to_wire(),
            charged=read_charge(self.charged).to_wire(),
            created_at=self.created_at,
            expires_at=self.expires_at,
            ended_at=self.expires_at if expired else self.ended_at,
        )


def read_charge(text: str) -> Charge:
    """Return the charge that `Charge.to_text` wrote."""
    return _CHARGE.validate_json(text)


def get(connection: sa.Connection, session_id: str, *visible: sa.ColumnElement[bool]) -> SessionRow | None:
    """Return a session by its id if it meets the conditions, else None."""
    row = connection.execute(_ROWS.where(sessions.c.id == session_id, *visible)).one_or_none()
    return None if row is None else SessionRow(*row)


def visible_to(principal: Principal) -> sa.ColumnElement[bool]:
    """Return the condition for an analyst's own sessions, also without a grant now; for others, all sessions."""
    return sessions.c.owner_id == principal.id if principal.role == "analyst" else sa.true()


def on(session_id: str, visible: sa.ColumnElement[bool]) -> sa.ColumnElement[bool]:
    """Return the condition, for `ledger.lock`, that selects the dataset of a visible session."""
    return datasets.c.id.in_(sa.select(sessions.c.dataset_id).where(sessions.c.id == session_id, visible))


def by_key(connection: sa.Connection, owner_id: str, key: str) -> SessionRow | None:
    """Return the session that this owner opened under this idempotency key; None if there is none."""
    row = connection.execute(_BY_KEY, {"owner": owner_id, "key": key}).one_or_none()
    return None if row is None else SessionRow(*row)


async def opened(database: Database, owner_id: str, key: str) -> SessionRow | None:
    """Return `by_key` of a transaction of its own, without a thread."""
    rows = await database.ask(_BY_KEY, {"owner": owner_id, "key": key})
    return SessionRow(*rows[0]) if rows else None


def page(
    connection: sa.Connection, paging: Paging, visible: sa.ColumnElement[bool], dataset_id: str | None
) -> list[SessionRow]:
    """Return a page of visible sessions by the time of their opening; an empty one after an invisible session."""
    query = _ROWS.where(visible)
    if dataset_id is not None:
        query = query.where(sessions.c.dataset_id == dataset_id)
    return [SessionRow(*row) for row in connection.execute(paging.by_creation(query, sessions, visible))]


def open_on(connection: sa.Connection, dataset_id: str) -> list[SessionRow]:
    """Return the sessions on a dataset that have not been ended, expired ones among them."""
    query = _ROWS.where(sessions.c.dataset_id == dataset_id, sessions.c.state == "open")
    return [SessionRow(*row) for row in connection.execute(query.order_by(sessions.c.created_at, sessions.c.id))]


def overdue(connection: sa.Connection, now: str, limit: int) -> list[str]:
    """Return the ids of at most `limit` sessions that have expired without being ended."""
    is_overdue = (sessions.c.state == "open") & (sessions.c.expires_at <= now)
    return list(connection.scalars(sa.select(sessions.c.id).where(is_overdue).limit(limit)))


def count_open(connection: sa.Connection, owner_id: str, now: str, limit: int) -> int:
    """Return the number of open sessions of an owner, at most `limit`."""
    is_open = (sessions.c.state == "open") & (sessions.c.owner_id == owner_id) & (sessions.c.expires_at > now)
    some = sa.select(sessions.c.id).where(is_open).limit(limit)
    return connection.execute(sa.select(sa.func.count()).select_from(some.subquery())).scalar_one()


def count_by_state(connection: sa.Connection, now: str) -> dict[str, int]:
    """Return the number of sessions in each state; an open one whose time is over has expired."""
    has_expired = (sessions.c.state == "open") & (sessions.c.expires_at <= now)
    state = sa.case((has_expired, "expired"), else_=sessions.c.state).label("state")
    rows = connection.execute(sa.select(state, sa.func.count()).group_by(state))
    counts = {row[0]: row[1] for row in rows}
    return {name: counts.get(name, 0) for name in get_args(SessionState)}


def insert(connection: sa.Connection, row: SessionRow) -> None:
    """Store a new session."""
    connection.execute(sa.insert(sessions).values({c.name: getattr(row, c.name) for c in _COLUMNS}))


def set_recorded(connection: sa.Connection, row: SessionRow, recorded: Sequence[int]) -> None:
    """Store the numbers of recorded answers of an open session whose row is unchanged."""
    _update(connection, row, recorded=canonical_text(list(recorded)))


def end(connection: sa.Connection, row: SessionRow, state: SessionState, **values: Any) -> None:
    """End an open session whose row is unchanged, and forget the keys of its requests."""
    _update(connection, row, state=state, **values)
    connection.execute(sa.delete(session_steps).where(session_steps.c.session_id == row.id))


def step(connection: sa.Connection, session_id: str, key: str) -> tuple[str, str] | None:
    """Return the digest of the request with this key, and what was recorded after it; None if there was none."""
    query = sa.select(session_steps.c.request_sha256, session_steps.c.recorded).where(
        session_steps.c.session_id == session_id, session_steps.c.idempotency_key == key
    )
    row = connection.execute(query).one_or_none()
    return None if row is None else (row.request_sha256, row.recorded)


def insert_step(connection: sa.Connection, session_id: str, key: str, digest: str, recorded: Sequence[int]) -> None:
    """Store a request that recorded answers."""
    values = {"session_id": session_id, "idempotency_key": key, "request_sha256": digest}
    connection.execute(sa.insert(session_steps).values(values | {"recorded": canonical_text(list(recorded))}))


def _update(connection: sa.Connection, row: SessionRow, **values: Any) -> None:
    """Change an open session whose row is unchanged; raise a RuntimeError, which rolls back, if it is not."""
    unchanged = (sessions.c.id == row.id) & (sessions.c.state == "open") & (sessions.c.recorded == row.recorded)
    if connection.execute(sa.update(sessions).where(unchanged).values(**values)).rowcount != 1:
        raise RuntimeError("the session changed inside the transaction that holds it")
