"""Continuation from an older copy of the database, by an explicit order that each affected ledger records.

Charges and releases after that copy are unknown. Therefore a ledger without its head is frozen. Its open jobs end
without a refund and without another attempt: each may have been released after the copy, and a second release would not
be paid for. Its open sessions expire: each may have recorded answers after the copy, and recording them again would
allow more answers than its plan.
"""

from dataclasses import dataclass

import sqlalchemy as sa

from accounting.records.chain import Head
from accounting.records.events import RolledBack
from app.jobs import store
from app.ledger import audit
from app.ledger import store as ledger
from app.ledger.epoch import BelowEpoch, Epoch, is_session
from app.persistence.session import Database
from app.persistence.tables import datasets, ledgers, service
from app.sessions import store as sessions
from app.sessions.settling import settle
from app.settings import Settings


@dataclass(frozen=True, slots=True)
class Accepted:
    """The losses that an order accepted.

    Parameters
    ----------
    ledgers : ledgers that lost entries, now frozen, and the head that they lack; None if it is unknown
    missing : ledgers that no longer exist in the database, and their heads
    sessions : sessions that lost recorded answers, and now expired
    """

    ledgers: dict[str, Head | None]
    missing: dict[str, Head]
    sessions: list[str]


def accept(database: Database, settings: Settings, reason: str) -> Accepted:
    """Record the order and adopt the epoch of this database; change nothing if nothing was lost.

    Parameters
    ----------
    reason : the operator's explanation, 1 to 256 characters

    Raises
    ------
    UnsoundLedger
        if a ledger is not consistent in itself.
    CodecError
        if the reason is not valid.
    """
    audit.refuse_unsound(database)
    with database.read() as connection:
        service_id = connection.execute(sa.select(service.c.id)).scalar_one()
        existing = set(connection.scalars(sa.select(ledgers.c.id)))
    lacking: dict[str, Head | None]
    try:
        epoch = Epoch.read(settings, database)
        behind = epoch.ahead_of(database)
        lacking = {ledger_id: head for ledger_id, head in behind.items() if ledger_id in existing}
        expired = [name for name in sorted(behind) if is_session(name)]
        missing = {name: head for name, head in behind.items() if name not in existing and not is_session(name)}
    except BelowEpoch:
        epoch = Epoch(settings.epoch, service_id, {})
        lacking = dict.fromkeys(existing)
        missing, expired = {}, []
    with database.write() as connection:
        ledger.lock(connection, datasets.c.ledger_id.in_(lacking))
        at = database.timestamp()
        for ledger_id, head in sorted(lacking.items()):
            ledger.apply(connection, ledger_id, RolledBack(reason, head), at)
            for dataset in connection.scalars(sa.select(datasets.c.id).where(datasets.c.ledger_id == ledger_id)).all():
                for row in store.unfinished(connection, dataset):
                    store.end(connection, row, "failed", at, error="job_failed")
                expired += [session.id for session in sessions.open_on(connection, dataset)]
        for session_id in sorted(set(expired)):
            session = sessions.get(connection, session_id)
            assert session is not None
            settle(connection, session, at, "expired")
    epoch.lost |= {id_: {"head": str(head), "reason": reason, "at": at} for id_, head in missing.items()}
    epoch.begin(database, is_anew=True)
    return Accepted(lacking, missing, sorted(set(expired)))
