"""Every ledger against what is cached of it: the chain holds, and leads to the stored state and the analysts' sums."""

import json
from collections.abc import Iterable, Mapping, Sequence

import sqlalchemy as sa

from accounting.errors import AccountingError, LedgerInvalid
from accounting.records.chain import Head
from accounting.records.filters import cost_from_json
from accounting.records.ledger import LedgerState
from accounting.records.replay import Replay
from app.ledger import store
from app.persistence.files import StartRefused
from app.persistence.session import Database
from app.persistence.tables import analyst_spend, datasets, ledgers

PAGE = 1000  # entries that are in memory at once


class UnsoundLedger(StartRefused):
    """What is stored of a budget is not what its ledger says; nothing may be charged on it."""


def verify(database: Database) -> dict[str, str | None]:
    """By ledger (the dataset that opened it), what does not hold; None where all does.

    Reads alone, whether a server runs or not.
    """
    with database.read() as connection:
        every = known(connection)
    found = {}
    for dataset in every:
        with database.read() as connection:
            found[dataset] = follow(connection, dataset, Replay())
    return found


def verify_here(connection: sa.Connection) -> dict[str, str | None]:
    """`verify`, of what this one connection sees."""
    return {dataset: follow(connection, dataset, Replay()) for dataset in known(connection)}


def known(connection: sa.Connection) -> Sequence[str]:
    """Return every ledger, by the dataset that opened it, the oldest first."""
    opening = sa.select(ledgers.c.id).join(datasets, datasets.c.id == ledgers.c.id)
    return connection.scalars(opening.order_by(datasets.c.created_at, datasets.c.id)).all()


def lacking(database: Database, heads: Iterable[Head]) -> list[Head]:
    """Those of the heads that no ledger contains."""
    with database.read() as connection:
        return [head for head in heads if not store.contains(connection, head)]


def refuse_unsound(database: Database) -> None:
    """Raise `UnsoundLedger` if any ledger, verified from its first entry, does not hold."""
    refuse(verify(database))


def refuse(found: Mapping[str, str | None]) -> None:
    """Raise `UnsoundLedger` if anything does not hold, by ledger."""
    wrong = [f"{dataset}: {what}" for dataset, what in found.items() if what is not None]
    if wrong:
        raise UnsoundLedger(f"the ledger does not hold ({'; '.join(wrong)}): restore home and database from one backup")


def follow(connection: sa.Connection, dataset: str, followed: Replay) -> str | None:
    """Follow a ledger to its end and compare it with what is stored of it; what does not hold, None if all does.

    Parameters
    ----------
    followed : from where to follow; it ends at the ledger's end
    """
    try:
        while page := store.entries(connection, dataset, followed.sequence, PAGE):
            followed.follow(page)
        if followed.state is None:
            raise LedgerInvalid("there is no entry")
        of_it = sa.select(datasets.c.id, datasets.c.rows, datasets.c.data).where(datasets.c.ledger_id == dataset)
        stored = {row.id: (row.rows, row.data) for row in connection.execute(of_it)}
        if followed.opened != dataset or followed.datasets != stored:
            return "its entries are of other datasets"
        if followed.state != store.load_state(connection, dataset):
            return "the stored state is not what its entries lead to"
        return _wrong_sums(connection, dataset, followed.state)
    except (AccountingError, ValueError, KeyError) as error:
        return str(error) if isinstance(error, AccountingError) else "what is stored cannot be read"


def _wrong_sums(connection: sa.Connection, dataset: str, state: LedgerState) -> str | None:
    rows = connection.execute(sa.select(analyst_spend).where(analyst_spend.c.ledger_id == dataset)).all()
    parts = [cost_from_json(json.loads(row.spent)) for row in rows]
    total = tuple(map(sum, zip(*parts, strict=True))) if parts else state.filter.zero_cost
    if total != state.spent or sum(row.charges for row in rows) != state.charges:
        return "the analysts' parts are not the whole"
    return None
