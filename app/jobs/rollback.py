"""Going on from an older copy of the database, by an explicit order: recorded in each ledger that lost entries.

What was charged and released since that copy is not known. So a ledger that lacks its head is frozen, and its jobs that
were open then are over, without a refund and without another attempt: each may have been released after the copy, and
a second release would not be paid for.
"""

from dataclasses import dataclass

import sqlalchemy as sa

from accounting.records.chain import Head
from accounting.records.events import RolledBack
from app.jobs import store
from app.ledger import audit
from app.ledger import store as ledger
from app.ledger.epoch import BelowEpoch, Epoch
from app.persistence.session import Database
from app.persistence.tables import datasets, ledgers, service
from app.settings import Settings


@dataclass(frozen=True, slots=True)
class Accepted:
    """What was lost.

    Parameters
    ----------
    ledgers : those that lost entries, now frozen, and the head that they lack; None where nobody knows it
    gone : those that are in the database no more, and their head
    """

    ledgers: dict[str, Head | None]
    gone: dict[str, Head]


def accept(database: Database, settings: Settings, reason: str) -> Accepted:
    """Records the order and makes the epoch that of this database; nothing if there is nothing to accept.

    Parameters
    ----------
    reason : what happened, in the operator's words, 1 to 256 characters

    Raises
    ------
    UnsoundLedger
        if a ledger does not hold by itself. `CodecError` for a reason that is none.
    """
    audit.refuse_unsound(database)
    with database.read() as connection:
        whose = connection.execute(sa.select(service.c.id)).scalar_one()
        known = set(connection.scalars(sa.select(ledgers.c.id)))
    lacking: dict[str, Head | None]
    try:
        epoch = Epoch.read(settings, database)
        behind = epoch.ahead_of(database)
        lacking = {of: head for of, head in behind.items() if of in known}
        gone = {of: head for of, head in behind.items() if of not in known}
    except BelowEpoch:
        epoch, lacking, gone = Epoch(settings.epoch, whose, {}), dict.fromkeys(known), {}
    with database.write() as connection:
        ledger.lock(connection, datasets.c.ledger_id.in_(lacking))
        at = database.timestamp()
        for of, head in sorted(lacking.items()):
            ledger.apply(connection, of, RolledBack(reason, head), at)
            for dataset in connection.scalars(sa.select(datasets.c.id).where(datasets.c.ledger_id == of)).all():
                for row in store.unfinished(connection, dataset):
                    store.end(connection, row, "failed", at, error="job_failed")
    epoch.lost |= {of: {"head": str(head), "reason": reason, "at": at} for of, head in gone.items()}
    epoch.begin(database, is_anew=True)
    return Accepted(lacking, gone)
