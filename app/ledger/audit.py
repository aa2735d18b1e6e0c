"""Verification of ledgers: each chain holds and leads to the stored state and to the analysts' stored sums."""

import json
from collections.abc import Iterable, Mapping, Sequence

import sqlalchemy as sa

from accounting.errors import AccountingError, LedgerInvalid
from accounting.records.chain import Head
from accounting.records.filters import cost_from_json
from accounting.records.ledger import LedgerState
from accounting.records.replay import Replay
from app.ledger import batches, store
from app.ledger.batches import LedgerRows
from app.ledger.registrations import declared
from app.persistence.files import StartRefused
from app.persistence.session import Database
from app.persistence.tables import datasets, ledgers

PAGE = 1000  # most entries in memory at once


class UnsoundLedger(StartRefused):
    """The stored state of a budget differs from its ledger; nothing may be charged on it."""


def verify(database: Database) -> dict[str, str | None]:
    """Return for each ledger (by the dataset that opened it) what does not hold, or None.

    Only reads, so a server may run meanwhile.
    """
    with database.read() as connection:
        every = ledger_ids(connection)
    results: dict[str, str | None] = {}
    for batch in batches.split(every):
        with database.read() as connection:
            results |= _verify_batch(connection, batch)
    return results


def verify_here(connection: sa.Connection) -> dict[str, str | None]:
    """Verify the ledgers that this connection sees; return the same as `verify`."""
    results: dict[str, str | None] = {}
    for batch in batches.split(ledger_ids(connection)):
        results |= _verify_batch(connection, batch)
    return results


def _verify_batch(connection: sa.Connection, batch: Sequence[str]) -> dict[str, str | None]:
    rows = batches.rows_of(connection, batch)
    return {ledger: follow(connection, ledger, Replay(), rows[ledger]) for ledger in batch}


def ledger_ids(connection: sa.Connection) -> Sequence[str]:
    """Return the id of every ledger (that of the dataset that opened it), the oldest first.

    A ledger whose opening dataset is missing is included, because other datasets may still be charged on it.
    """
    opening = sa.select(ledgers.c.id).outerjoin(datasets, datasets.c.id == ledgers.c.id)
    return connection.scalars(opening.order_by(datasets.c.created_at, ledgers.c.id)).all()


def lacking(database: Database, heads: Iterable[Head]) -> list[Head]:
    """Return the heads that no ledger contains."""
    with database.read() as connection:
        return [head for head in heads if not store.contains(connection, head)]


def refuse_unsound(database: Database) -> None:
    """Raise `UnsoundLedger` if any ledger, verified from its first entry, does not hold."""
    refuse(verify(database))


def refuse(results: Mapping[str, str | None]) -> None:
    """Raise `UnsoundLedger` if a result of `verify` names an error."""
    wrong = [f"{dataset}: {error}" for dataset, error in results.items() if error is not None]
    if wrong:
        raise UnsoundLedger(
            f"the ledger is not valid ({'; '.join(wrong)}), so nothing may be charged on it. Restore home and "
            "database from one backup"
        )


def follow(connection: sa.Connection, ledger: str, followed: Replay, rows: LedgerRows) -> str | None:
    """Follow a ledger to its end and compare it with its stored rows; return what does not hold, or None.

    Parameters
    ----------
    followed : replay to continue; afterwards it is at the ledger's end
    rows : as `app.ledger.batches.rows_of` returned them on this connection
    """
    try:
        while followed.sequence < rows.last:
            page = store.entries(connection, ledger, followed.sequence, PAGE)
            if not page:
                raise LedgerInvalid("the dataset that opened it is missing")
            followed.follow(page)
        if followed.state is None:
            raise LedgerInvalid("it has no entry")
        wrong = _wrong_datasets(ledger, followed, rows)
        if wrong is not None:
            return wrong
        if followed.state != LedgerState.from_json(json.loads(rows.state)):
            return "the stored state differs from the state that its entries give"
        return _wrong_sums(followed.state, rows)
    except (AccountingError, ValueError, KeyError) as error:
        return str(error) if isinstance(error, AccountingError) else "a stored row or entry cannot be read"


def _wrong_datasets(ledger: str, followed: Replay, rows: LedgerRows) -> str | None:
    """Return how the rows of the ledger's datasets, or its family's name, differ from its entries, or None."""
    of_datasets = {row.id: row for row in rows.rows}
    stages = {id_: member.data for id_, member in followed.datasets.items()}
    if followed.opened != ledger or stages != {id_: row.stage for id_, row in of_datasets.items()}:
        return "its entries and the stored rows name different datasets"
    differences = (row.differs(followed.datasets[id_].registration) for id_, row in of_datasets.items())
    if wrong := next(filter(None, differences), None):
        return wrong
    for id_, row in of_datasets.items():
        if followed.datasets[id_].session_rule not in (None, declared(row.spec).sessions):
            return f"the stored rule for sessions of {id_} differs from the rule in the ledger"
    has_family = any(stage != "withdrawn" for stage in stages.values())
    family = followed.datasets[ledger].registration.family if has_family else None
    return None if rows.family == family else "the stored name of its family differs from the registered name"


def _wrong_sums(state: LedgerState, rows: LedgerRows) -> str | None:
    parts = [cost_from_json(json.loads(text)) for text in rows.sums]
    total = tuple(map(sum, zip(*parts, strict=True))) if parts else state.filter.zero_cost
    if total != state.spent or rows.charges != state.charges:
        return "the stored sums of its analysts do not add up to its spending"
    return None
