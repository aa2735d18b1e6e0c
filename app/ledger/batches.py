"""Rows of many ledgers, read with few statements, because a statement for each ledger makes a start slow."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields
from importlib.metadata import version

import sqlalchemy as sa

from accounting.errors import AccountingError
from accounting.records.chain import Head
from app.ledger.registrations import RegistrationRow
from app.ledger.store import entry_of_row
from app.persistence.tables import analyst_spend, datasets, ledger_entries, ledgers

_LENGTH = 200  # ids in one statement
VERSION = version("privy-purse")
# The number of the last entry of the ledger in the enclosing statement.
_LAST_SEQUENCE = (
    sa.select(sa.func.max(ledger_entries.c.sequence))
    .where(ledger_entries.c.ledger_id == ledgers.c.id)
    .correlate(ledgers)
    .scalar_subquery()
)


@dataclass(slots=True)
class LedgerRows:
    """The rows that must agree with the entries of a ledger.

    Parameters
    ----------
    state, family : columns of the ledger
    last : number of its last entry; 0 if it has none
    rows : its datasets
    charges, sums : the number of charges and the stored sum of each of its analysts
    """

    state: str
    family: str | None
    last: int
    rows: list[RegistrationRow] = field(default_factory=list)
    charges: int = 0
    sums: list[str] = field(default_factory=list)

    @property
    def sha256(self) -> str:
        """The hash of these rows, and of this program's version, which decides how they must agree with the entries."""
        return hashlib.sha256(repr((VERSION, self)).encode()).hexdigest()


def split(ids: Sequence[str]) -> Iterator[Sequence[str]]:
    """Split ids into batches that are short enough for one statement."""
    return (ids[start : start + _LENGTH] for start in range(0, len(ids), _LENGTH))


def rows_of(connection: sa.Connection, batch: Sequence[str]) -> dict[str, LedgerRows]:
    """Return the rows of these ledgers, by the id of the ledger, as one snapshot if the connection has one."""
    columns = (ledgers.c.id, ledgers.c.state, ledgers.c.family, _LAST_SEQUENCE)
    rows = {ledger: LedgerRows("", None, 0) for ledger in batch}
    for ledger, state, family, last in connection.execute(sa.select(*columns).where(ledgers.c.id.in_(batch))):
        rows[ledger] = LedgerRows(state, family, last or 0)
    of_datasets = sa.select(datasets.c.ledger_id, *(datasets.c[column.name] for column in fields(RegistrationRow)))
    of_datasets = of_datasets.where(datasets.c.ledger_id.in_(batch)).order_by(datasets.c.id)
    for ledger, *row in connection.execute(of_datasets):
        rows[ledger].rows.append(RegistrationRow(*row))
    of_analysts = sa.select(analyst_spend).where(analyst_spend.c.ledger_id.in_(batch))
    for sums in connection.execute(of_analysts.order_by(analyst_spend.c.owner_id)):
        rows[sums.ledger_id].charges += sums.charges
        rows[sums.ledger_id].sums.append(sums.spent)
    return rows


def contained(connection: sa.Connection, heads: Mapping[str, Head]) -> set[str]:
    """Return the ledgers that contain the entry of their head."""
    entry = sa.tuple_(ledger_entries.c.ledger_id, ledger_entries.c.sequence)
    present = set()
    for batch in split(list(heads)):
        named = entry.in_([(ledger, heads[ledger].sequence) for ledger in batch])
        rows = connection.execute(sa.select(ledger_entries.c.ledger_id, ledger_entries.c.hash).where(named))
        present |= {row.ledger_id for row in rows if row.hash == heads[row.ledger_id].hash}
    return present


def heads(connection: sa.Connection) -> dict[str, Head]:
    """Return the head of every ledger, read from its last entry."""
    entry = ledger_entries.alias()
    is_last = (entry.c.ledger_id == ledgers.c.id) & (entry.c.sequence == _LAST_SEQUENCE)
    columns = (ledgers.c.id, entry.c.sequence, entry.c.hash)
    rows = connection.execute(sa.select(*columns).join_from(ledgers, entry, is_last))
    return {row.id: Head(row.sequence, row.hash) for row in rows}


def openings(connection: sa.Connection, batch: Sequence[str]) -> dict[str, str]:
    """Return the hash of the first entry of each of these ledgers, without entries that do not have their hash."""
    is_first = ledger_entries.c.ledger_id.in_(batch) & (ledger_entries.c.sequence == 1)
    hashes = {}
    for row in connection.execute(sa.select(ledger_entries).where(is_first)):
        with suppress(AccountingError, ValueError):  # of a body that cannot be read
            if entry_of_row(row).digest() == row.hash:
                hashes[row.ledger_id] = row.hash
    return hashes
