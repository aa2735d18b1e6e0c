"""The copy of all tables from one database to another, in one transaction, with both ends compared."""

import hashlib
import json
from contextlib import suppress
from dataclasses import dataclass

import sqlalchemy as sa

from accounting.errors import AccountingError
from accounting.records.chain import Head
from accounting.records.receipt import is_signed
from accounting.records.signing import Jwks
from app.ledger import audit, batches
from app.ledger.audit import UnsoundLedger
from app.persistence.dialect import continue_job_numbers
from app.persistence.files import StartRefused
from app.persistence.schema import create, is_current
from app.persistence.session import Database
from app.persistence.tables import jobs, metadata, service

_MOST_ROWS = 1000  # in memory at once


@dataclass(frozen=True, slots=True)
class Contents:
    """The contents of a database whose ledgers and receipts were verified.

    Parameters
    ----------
    tables : by name, the number of rows and the sum of their SHA-256, which does not depend on their order
    heads : head of each ledger
    receipts : number of receipts; a key of the home signed each of them
    """

    tables: dict[str, tuple[int, int]]
    heads: dict[str, Head]
    receipts: int


def copy(source: Database, target: Database, keys: Jwks) -> Contents:
    """Copy everything, with the identity of the service; change nothing in the target if either end does not hold.

    The source then no longer belongs to the service, because servers on both would spend every budget twice.

    Parameters
    ----------
    source : database on which no server runs; later changes would not be copied
    target : database without any table
    keys : public keys of the home

    Raises
    ------
    StartRefused
        if the source has another schema, or the target is not empty; `UnsoundLedger` if a ledger or a receipt does not
        hold.
    """
    with source.read() as old, target.write(alone="names") as new:
        if not is_current(old):
            raise StartRefused(
                "the database to copy from is of another version. Run `purse server migrate` on it first"
            )
        copied = _contents(old, keys)
        if not create(new):
            raise StartRefused(
                "the database to copy to has tables, and copying would mix two services. Name an empty database"
            )
        for table in metadata.sorted_tables:
            for part in old.execute(sa.select(table).execution_options(yield_per=_MOST_ROWS)).partitions():
                new.execute(sa.insert(table), [dict(row._mapping) for row in part])
        continue_job_numbers(new)
        written = _contents(new, keys)
        if written != copied:
            raise UnsoundLedger(
                "the copy differs from the source, so it was discarded. Stop every server on the source and try again"
            )
    with source.write(alone="names") as old:
        old.execute(sa.update(service).values(id="moved:" + service.c.id))
    return written


def _contents(connection: sa.Connection, keys: Jwks) -> Contents:
    results = audit.verify_here(connection)
    wrong = [f"{ledger}: {error}" for ledger, error in results.items() if error is not None]
    signed = sa.select(jobs.c.id, jobs.c.receipt).where(jobs.c.receipt.is_not(None))
    count = 0
    for row in connection.execute(signed.execution_options(yield_per=_MOST_ROWS)):
        count += 1
        with suppress(AccountingError, ValueError):
            if is_signed(json.loads(row.receipt), keys):
                continue
        wrong.append(f"{row.id}: no key of the home signed its receipt")
    if wrong:
        raise UnsoundLedger(
            f"a ledger or a receipt is not valid ({'; '.join(wrong)}), so nothing was copied. Restore home and "
            "database from one backup"
        )
    heads = batches.heads(connection)
    return Contents({table.name: _sum(connection, table) for table in metadata.sorted_tables}, heads, count)


def _sum(connection: sa.Connection, table: sa.Table) -> tuple[int, int]:
    count = total = 0
    for row in connection.execute(sa.select(table).execution_options(yield_per=_MOST_ROWS)):
        count += 1
        total += int.from_bytes(hashlib.sha256(repr(tuple(row)).encode()).digest())
    return count, total
