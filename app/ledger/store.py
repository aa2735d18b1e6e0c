"""Ledgers in the database: their states and their chains of entries. Functions take the id of any dataset of a ledger.

Every function works inside the caller's transaction, so an entry is committed together with the change it records.
"""

import json
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, TypeVar

import sqlalchemy as sa

from accounting.errors import AccountingError, LedgerInvalid
from accounting.privacy import Privacy, Relation
from accounting.records.allotments import Standing
from accounting.records.chain import Entry, Head
from accounting.records.documents import canonical_text
from accounting.records.entries import event_of
from accounting.records.events import (
    Charged,
    External,
    JobStep,
    Joined,
    Opened,
    Refunded,
    Registration,
    Reserved,
    RolledBack,
    Settled,
    StewardEvent,
)
from accounting.records.ledger import LedgerState, advance
from app.http.lists import Paging
from app.identity.store import is_called
from app.ledger.allotments import add_spending
from app.persistence.dialect import json_at
from app.persistence.tables import (
    EXTERNAL,
    PROMISES,
    SETTLED,
    datasets,
    identities,
    jobs,
    ledger_entries,
    ledgers,
    sessions,
)

_OF_JOB = json_at(ledger_entries.c.body, "$.job", sa.Text())
_OF_SESSION = json_at(ledger_entries.c.body, "$.session", sa.Text())
_NOT_OPEN = "the ledger is not open. Register a dataset first"
_ENDS = ("refunded", "released", "failed", "cancelled")  # kinds of the last entry of a job


def lock(connection: sa.Connection, of: sa.ColumnElement[bool]) -> bool:
    """Lock the ledgers of these datasets until the end of the transaction; return whether there are any.

    Ledgers, datasets, jobs, grants and allotments that are read afterwards do not change until the commit, because
    every change of them first takes this lock. Ledgers are locked in the order of their ids, so no two transactions
    wait for each other. On SQLite a write excludes all others anyway.
    """
    return bool(connection.execute(locking(of)).all())


def locking(of: sa.ColumnElement[bool]) -> sa.Select[str]:
    """Return the statement of `lock`, for frequent use."""
    of_datasets = ledgers.c.id.in_(sa.select(datasets.c.ledger_id).where(of))
    return sa.select(ledgers.c.id).where(of_datasets).order_by(ledgers.c.id).with_for_update()


def load_state(connection: sa.Connection, dataset_id: str) -> LedgerState:
    """Return the state of a dataset's ledger. Raise LedgerInvalid if the dataset does not exist."""
    document = connection.scalar(sa.select(ledgers.c.state).where(ledgers.c.id == _of(dataset_id)))
    if document is None:
        raise LedgerInvalid(_NOT_OPEN)
    return LedgerState.from_json(json.loads(document))


def of_family(connection: sa.Connection, family: str | None) -> str | None:
    """Return the id of the ledger of a family (that of the dataset that opened it), or None."""
    return connection.scalar(sa.select(ledgers.c.id).where(ledgers.c.family == family)) if family else None


def forget_family(connection: sa.Connection, dataset_id: str) -> None:
    """Release the name of a family that has no dataset any more."""
    connection.execute(sa.update(ledgers).where(ledgers.c.id == _of(dataset_id)).values(family=None))


def id_of(connection: sa.Connection, dataset_id: str) -> str:
    """Return the id of a dataset's ledger."""
    return connection.execute(sa.select(_of(dataset_id))).scalar_one()


def exists(connection: sa.Connection, dataset_id: str) -> bool:
    """Return whether such a dataset exists or existed."""
    return connection.scalar(sa.select(_of(dataset_id))) is not None


def external(connection: sa.Connection, dataset_id: str, label: str) -> Entry | None:
    """Return the charge from outside with this label on the ledger, or None."""
    mine = (ledger_entries.c.ledger_id == _of(dataset_id)) & EXTERNAL
    named = json_at(ledger_entries.c.body, "$.label", sa.Text()) == label
    row = connection.execute(sa.select(ledger_entries).where(mine, named)).one_or_none()
    return None if row is None else entry_of_row(row)


def neighbors(connection: sa.Connection, dataset_id: str) -> Relation:
    """Return the neighboring relation of the ledger's guarantee."""
    relation: Relation = entries(connection, dataset_id, limit=1)[0].body["neighbors"]
    return relation


def registration(connection: sa.Connection, dataset_id: str) -> Registration:
    """Return the facts that the dataset's ledger states about it.

    Raises
    ------
    LedgerInvalid
        if the ledger does not register the dataset, or the entry was changed.
    """
    opened = _sound(Opened, entries(connection, dataset_id, limit=1))
    if opened.dataset == dataset_id:
        return Registration.of(opened)
    is_joined = (ledger_entries.c.ledger_id == _of(dataset_id)) & (ledger_entries.c.kind == "joined")
    of_dataset = json_at(ledger_entries.c.body, "$.dataset", sa.Text()) == dataset_id
    rows = connection.execute(sa.select(ledger_entries).where(is_joined, of_dataset).limit(1))
    return Registration.of(_sound(Joined, [entry_of_row(row) for row in rows]), Registration.of(opened))


def charged(connection: sa.Connection, dataset_id: str, job_id: str, first: int = 1) -> Charged:
    """Return the charge of a job that has not ended.

    Parameters
    ----------
    first : number of the first entry to look at; the charge's own is the fastest

    Raises
    ------
    LedgerInvalid
        if there is no charge from there on, the entry was changed, or the job was refunded, released, failed or
        cancelled.
    """
    is_later = (ledger_entries.c.ledger_id == _of(dataset_id)) & (ledger_entries.c.sequence >= first)
    of_job = is_later & (sa.literal(job_id) == _OF_JOB)
    query = sa.select(ledger_entries).where(of_job).order_by(ledger_entries.c.sequence).limit(1)
    if connection.execute(query.where(ledger_entries.c.kind.in_(_ENDS))).all():
        raise LedgerInvalid("the job has ended")
    rows = connection.execute(query.where(ledger_entries.c.kind == "charged"))
    return _sound(Charged, [entry_of_row(row) for row in rows])


def reserved(connection: sa.Connection, dataset_id: str, session_id: str, sequence: int) -> Reserved:
    """Return the charge of a session that has not ended, from the entry with this number.

    Raises
    ------
    LedgerInvalid
        if this is not the entry of the session's charge, the entry was changed, or the session has ended.
    """
    of_session = (ledger_entries.c.ledger_id == _of(dataset_id)) & (ledger_entries.c.sequence > sequence)
    ends = sa.select(ledger_entries.c.sequence).where(of_session, SETTLED, sa.literal(session_id) == _OF_SESSION)
    if connection.execute(ends.limit(1)).all():
        raise LedgerInvalid("the session has ended")
    event = _sound(Reserved, entries(connection, dataset_id, sequence - 1, 1))
    if event.session != session_id:
        raise LedgerInvalid("the ledger does not have this entry")
    return event


E = TypeVar("E", Opened, Joined, Charged, Reserved)


def _sound(kind: type[E], candidates: Sequence[Entry]) -> E:
    """Return the event of the first entry. Raise LedgerInvalid unless it is of this kind and has its hash."""
    with suppress(AccountingError, KeyError, TypeError):
        for entry in candidates[:1]:
            event = event_of(entry)
            if isinstance(event, kind) and entry.hash == entry.digest():
                return event
    raise LedgerInvalid("the ledger does not have this entry, or the entry was changed")


def promises(connection: sa.Connection, dataset_id: str) -> list[tuple[Privacy, str]]:
    """Return each budget (epsilon, delta) that was set, with its time, in order."""
    query = sa.select(ledger_entries.c.body).where(ledger_entries.c.ledger_id == _of(dataset_id), PROMISES)
    bodies = map(json.loads, connection.scalars(query.order_by(ledger_entries.c.sequence)))
    return [(Privacy(body["filter"]["epsilon"], body["filter"]["delta"]), body["at"]) for body in bodies]


def begin(connection: sa.Connection, event: Opened, at: str) -> Entry:
    """Insert a new ledger, for a dataset that is inserted afterwards."""
    state, entry = advance(None, event, at)
    document = canonical_text(state.to_json())
    connection.execute(sa.insert(ledgers).values(id=event.dataset, family=event.family, state=document))
    _append(connection, event.dataset, entry)
    return entry


def charge(
    connection: sa.Connection, ledger_id: str, standing: Standing, event: Charged | Reserved, at: str, owner_id: str
) -> Standing:
    """Charge a job or a session; store state, entry and the owner's sum; return the ledger as it stands for the owner.

    Parameters
    ----------
    standing : of the owner, read in this transaction under the ledger's lock; a stale one raises IntegrityError
    at : `Database.timestamp` of this transaction

    Raises
    ------
    BudgetExhausted, LedgerFrozen, LedgerInvalid
        as `Standing.charge`. Nothing is written then.
    """
    charged, entry = standing.charge(event, at)
    _advance(connection, ledger_id, charged.state, entry)
    add_spending(connection, ledger_id, owner_id, 1, event.cost)
    return charged


def apply(
    connection: sa.Connection,
    dataset_id: str,
    event: StewardEvent | RolledBack | JobStep | Settled,
    at: str,
    owner_id: str | None = None,
) -> Entry:
    """Advance the ledger by one event, and store its state and entry; with an owner, also that analyst's sum.

    Parameters
    ----------
    connection : inside `Database.write`
    at : `Database.timestamp` of the same transaction
    owner_id : identity of the owner of the job or session; required for External, Refunded and Settled

    Raises
    ------
    BudgetExhausted, LedgerInvalid
        as `accounting.records.ledger.advance`. Nothing is written then.
    """
    row = connection.execute(_LOCKED, {"dataset": dataset_id}).one_or_none()
    if row is None:
        raise LedgerInvalid(_NOT_OPEN)
    state, entry = advance(LedgerState.from_json(json.loads(row.state)), event, at)
    _advance(connection, row.id, state, entry)
    match event:
        case External(cost=cost):
            add_spending(connection, row.id, owner_id, 1, cost)
        case Refunded(cost=cost):
            add_spending(connection, row.id, owner_id, -1, tuple(-c for c in cost))
        case Settled(refund=returned) if any(returned):
            add_spending(connection, row.id, owner_id, -1 if event.frees_charge else 0, tuple(-c for c in returned))
        case _:
            pass
    return entry


def _of(dataset_id: str | sa.BindParameter[str]) -> sa.ScalarSelect[str]:
    """Return the ledger of a dataset, as a subquery."""
    return sa.select(datasets.c.ledger_id).where(datasets.c.id == dataset_id).scalar_subquery()


# Statements of every charge, built once.
_LOCKED = sa.select(ledgers).where(ledgers.c.id == _of(sa.bindparam("dataset"))).with_for_update()
_APPENDED = sa.insert(ledger_entries)
_ADVANCED = sa.update(ledgers).where(ledgers.c.id == sa.bindparam("ledger")).values(state=sa.bindparam("state"))


def _advance(connection: sa.Connection, ledger_id: str, state: LedgerState, entry: Entry) -> None:
    connection.execute(_ADVANCED, {"ledger": ledger_id, "state": canonical_text(state.to_json())})
    _append(connection, ledger_id, entry)


def _append(connection: sa.Connection, ledger_id: str, entry: Entry) -> None:
    """Store an entry, and note its head for publication. Raise IntegrityError if the sequence number exists."""
    row = entry.to_json() | {"ledger_id": ledger_id, "body": canonical_text(entry.body)}
    connection.execute(_APPENDED, row)
    connection.info[ledger_id] = entry.head


def entries(connection: sa.Connection, dataset_id: str, last: int = 0, limit: int = 100) -> list[Entry]:
    """Return at most `limit` entries with a sequence number above `last`, in order."""
    rows = connection.execute(
        sa.select(ledger_entries)
        .where(ledger_entries.c.ledger_id == _of(dataset_id), ledger_entries.c.sequence > last)
        .order_by(ledger_entries.c.sequence)
        .limit(limit)
    )
    return [entry_of_row(row) for row in rows]


def page(
    connection: sa.Connection, dataset_id: str, paging: Paging, analyst: str | None, kind: str | None
) -> list[Entry]:
    """Return a page of entries, filtered by the name or id of the analyst and by kind if given."""
    query = sa.select(ledger_entries).where(ledger_entries.c.ledger_id == _of(dataset_id))
    if kind is not None:
        query = query.where(ledger_entries.c.kind == kind)
    if analyst is not None:
        owners = sa.select(identities.c.id).where(is_called(analyst))
        of_jobs, of_sessions = (sa.select(t.c.id).where(t.c.owner_id.in_(owners)) for t in (jobs, sessions))
        query = query.where(_OF_JOB.in_(of_jobs) | _OF_SESSION.in_(of_sessions))
    return [entry_of_row(row) for row in connection.execute(paging.of(query, ledger_entries.c.sequence))]


def entry_of_row(row: sa.Row[Any]) -> Entry:
    """Return the entry in a row of the table."""
    return Entry(row.sequence, row.kind, json.loads(row.body), row.previous_hash, row.hash)


def contains(connection: sa.Connection, head: Head, ledger_id: str | None = None) -> bool:
    """Return whether this ledger, or any ledger if None, contains the entry of a head."""
    matches = (ledger_entries.c.sequence == head.sequence) & (ledger_entries.c.hash == head.hash)
    if ledger_id is not None:
        matches &= ledger_entries.c.ledger_id == ledger_id
    return connection.scalar(sa.select(ledger_entries.c.ledger_id).where(matches).limit(1)) is not None


def newest(connection: sa.Connection, dataset_id: str) -> Entry | None:
    """Return the last entry, or None if the dataset does not exist."""
    last = sa.select(sa.func.max(ledger_entries.c.sequence)).where(ledger_entries.c.ledger_id == _of(dataset_id))
    sequence = connection.scalar(last)
    return None if sequence is None else entries(connection, dataset_id, sequence - 1, 1)[0]


def newest_release(connection: sa.Connection, dataset_id: str, owner_id: str) -> Entry:
    """Return the last release, or end of a session, of this owner on the dataset's ledger; its first entry if none.

    It is read from the owner's jobs and sessions, so the time does not depend on the entries of other analysts.
    """
    released = json_at(jobs.c.receipt, "$.receipt.sequence", sa.BigInteger())
    last = 1
    for table, sequence in ((jobs, released), (sessions, sessions.c.settled)):
        is_own = (table.c.owner_id == owner_id) & (datasets.c.ledger_id == _of(dataset_id))
        own = sa.select(sa.func.max(sequence)).join_from(table, datasets).where(is_own)
        last = max(last, connection.scalar(own) or 1)
    return entries(connection, dataset_id, last - 1, 1)[0]
