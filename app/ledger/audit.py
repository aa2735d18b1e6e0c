"""Every ledger against what is cached of it: the chain holds, and leads to the stored state and the analysts' sums."""

import json
from collections.abc import Iterable, Sequence

import sqlalchemy as sa

from accounting.errors import AccountingError
from accounting.records.chain import Entry, Head
from accounting.records.entries import event_of
from accounting.records.events import Joined, Opened
from accounting.records.filters import cost_from_json
from accounting.records.ledger import LedgerState
from accounting.records.replay import replay
from app.ledger import store
from app.persistence.files import StartRefused
from app.persistence.session import Database
from app.persistence.tables import analyst_spend, datasets, ledgers

_PAGE = 10_000


class UnsoundLedger(StartRefused):
    """What is stored of a budget is not what its ledger says; nothing may be charged on it."""


def verify(database: Database) -> dict[str, str | None]:
    """By ledger (the dataset that opened it), what does not hold; None where all does.

    Reads alone, whether a server runs or not.
    """
    with database.read() as connection:
        known = _known(connection)
    found = {}
    for dataset in known:
        with database.read() as connection:
            found[dataset] = _wrong(connection, dataset)
    return found


def verify_here(connection: sa.Connection) -> dict[str, str | None]:
    """`verify`, of what this one connection sees."""
    return {dataset: _wrong(connection, dataset) for dataset in _known(connection)}


def _known(connection: sa.Connection) -> Sequence[str]:
    opening = sa.select(ledgers.c.id).join(datasets, datasets.c.id == ledgers.c.id)
    return connection.scalars(opening.order_by(datasets.c.created_at, datasets.c.id)).all()


def lacking(database: Database, heads: Iterable[Head]) -> list[Head]:
    """Those of the heads that no ledger contains."""
    with database.read() as connection:
        return [head for head in heads if not store.contains(connection, head)]


def refuse_unsound(database: Database) -> None:
    """UnsoundLedger if any ledger does not hold."""
    wrong = [f"{dataset}: {what}" for dataset, what in verify(database).items() if what is not None]
    if wrong:
        raise UnsoundLedger(f"the ledger does not hold ({'; '.join(wrong)}): restore home and database from one backup")


def _wrong(connection: sa.Connection, dataset: str) -> str | None:
    try:
        entries = store.entries(connection, dataset, 0, _PAGE)
        while page := store.entries(connection, dataset, entries[-1].sequence if entries else 0, _PAGE):
            entries += page
        led, state = replay(entries), store.load_state(connection, dataset)
        of_it = sa.select(datasets.c.id, datasets.c.rows, datasets.c.data).where(datasets.c.ledger_id == dataset)
        known = {row.id: (row.rows, row.data) for row in connection.execute(of_it)}
        if entries[0].body["dataset"] != dataset or _listed(entries) != known:
            return "its entries are of other datasets"
        if led != state:
            return "the stored state is not what its entries lead to"
        return _wrong_sums(connection, dataset, led)
    except (AccountingError, ValueError, KeyError) as error:
        return str(error) if isinstance(error, AccountingError) else "what is stored cannot be read"


def _listed(entries: Sequence[Entry]) -> dict[str, tuple[int, str]]:
    """The datasets of a ledger: how many records they have, and whether the values are there."""
    begun = map(event_of, (e for e in entries if e.kind in ("opened", "joined")))
    found = {event.dataset: (event.records, "stored") for event in begun if isinstance(event, Opened | Joined)}
    for e in entries:
        if e.kind in ("deleted", "withdrawn"):
            found[e.body["dataset"]] = (found[e.body["dataset"]][0], e.kind)
    return found


def _wrong_sums(connection: sa.Connection, dataset: str, state: LedgerState) -> str | None:
    rows = connection.execute(sa.select(analyst_spend).where(analyst_spend.c.ledger_id == dataset)).all()
    parts = [cost_from_json(json.loads(row.spent)) for row in rows]
    total = tuple(map(sum, zip(*parts, strict=True))) if parts else state.filter.zero_cost
    if total != state.spent or sum(row.charges for row in rows) != state.charges:
        return "the analysts' parts are not the whole"
    return None
