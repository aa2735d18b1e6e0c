"""An installation's tables from one database to another: in one transaction, and proved to be the same on both ends."""

import hashlib
import json
from contextlib import suppress
from dataclasses import dataclass

import sqlalchemy as sa

from accounting.errors import AccountingError
from accounting.records.chain import Head
from accounting.records.receipt import is_signed
from accounting.records.signing import Jwks
from app.ledger import audit, store
from app.ledger.audit import UnsoundLedger
from app.persistence.dialect import continue_job_numbers
from app.persistence.files import StartRefused
from app.persistence.schema import create, is_current
from app.persistence.session import Database
from app.persistence.tables import jobs, metadata, service

_PART = 1000  # rows at once


@dataclass(frozen=True, slots=True)
class Contents:
    """What a database holds, its ledgers and receipts found sound.

    Parameters
    ----------
    tables : by name, how many rows, and the sum of their SHA-256, in whatever order they come
    heads : by ledger
    receipts : how many, each signed by a key of the home
    """

    tables: dict[str, tuple[int, int]]
    heads: dict[str, Head]
    receipts: int


def copy(source: Database, target: Database, keys: Jwks) -> Contents:
    """Everything, with the service's identity; the target is left as it was unless all of it holds on both ends.

    The source is the service's no more then: a server on each of the two would spend every budget twice.

    Parameters
    ----------
    source : no server may run on it: what it takes on after this has read it stays behind
    target : without a table
    keys : public, of the home

    Raises
    ------
    StartRefused
        if the source is of another version, or the target holds anything; `UnsoundLedger` if a ledger or a receipt does
        not hold.
    """
    with source.read() as old, target.write(alone="names") as new:
        if not is_current(old):
            raise StartRefused(
                "the database to copy from is of another version: run `purse server migrate` on it first"
            )
        before = _contents(old, keys)
        if not create(new):
            raise StartRefused("the database to copy to holds tables already: name an empty one")
        for table in metadata.sorted_tables:
            for part in old.execute(sa.select(table).execution_options(yield_per=_PART)).partitions():
                new.execute(sa.insert(table), [dict(row._mapping) for row in part])
        new.execute(sa.select(continue_job_numbers()))
        after = _contents(new, keys)
        if after != before:
            raise UnsoundLedger("what was copied is not what was there")
    with source.write(alone="names") as old:
        old.execute(sa.update(service).values(id="moved:" + service.c.id))
    return after


def _contents(connection: sa.Connection, keys: Jwks) -> Contents:
    found = audit.verify_here(connection)
    wrong = [f"{ledger}: {what}" for ledger, what in found.items() if what is not None]
    signed = sa.select(jobs.c.id, jobs.c.receipt).where(jobs.c.receipt.is_not(None))
    count = 0
    for row in connection.execute(signed.execution_options(yield_per=_PART)):
        count += 1
        with suppress(AccountingError, ValueError):
            if is_signed(json.loads(row.receipt), keys):
                continue
        wrong.append(f"{row.id}: no key of the home has signed its receipt")
    if wrong:
        raise UnsoundLedger(f"nothing was copied, since not all of it holds ({'; '.join(wrong)})")
    heads = {ledger: store.head(connection, ledger) for ledger in found}
    return Contents({table.name: _sum(connection, table) for table in metadata.sorted_tables}, heads, count)


def _sum(connection: sa.Connection, table: sa.Table) -> tuple[int, int]:
    count = total = 0
    for row in connection.execute(sa.select(table).execution_options(yield_per=_PART)):
        count += 1
        total += int.from_bytes(hashlib.sha256(repr(tuple(row)).encode()).digest())
    return count, total
