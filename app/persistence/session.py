"""Transactions on SQLite or PostgreSQL: one for each change, and a snapshot for each read.

A decision that depends on stored state reads that state under a lock. On SQLite each write excludes every other write.
On PostgreSQL a write excludes the writes that lock the same ledger (`app.ledger.store.lock`); a write that is `alone`
excludes those of its kind. The stores are written for both databases. They lock in this order: `alone`, an identity,
ledgers.
"""

import base64
import secrets
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import sqlalchemy as sa

from app.persistence.clock import Clock, SystemClock, stamp
from app.persistence.dialect import Alone, DatabaseDialect, Unavailable
from app.persistence.files import StartRefused
from app.persistence.schema import create, is_current, refuse_unknown, upgrade
from app.persistence.sqlite import Sqlite


def new_id(prefix: str) -> str:
    """Return `<prefix>_` and 20 random characters of lower-case base 32 (100 bits)."""
    return f"{prefix}_{base64.b32encode(secrets.token_bytes(13)).decode().lower()[:20]}"


class Database:
    """Durable state shared by any number of threads and processes; on PostgreSQL, also by machines.

    Parameters
    ----------
    url : sqlite:///<file>, whose folder must exist; or postgresql://...
    clock : clock of timestamps and leases; the machine's own if None
    """

    def __init__(self, url: str, clock: Clock | None = None) -> None:
        self.clock = clock or SystemClock()
        self.is_closed_to_writes = False  # if true, `write` raises `Unavailable`, because the stored state is unsound
        self.after_commit: Callable[[dict[Any, Any]], None] | None = None
        self._dialect = _dialect(sa.make_url(url))
        self._writer, self._reader = self._dialect.writer, self._dialect.reader
        self._thread = threading.local()

    @contextmanager
    def write(self, *, alone: Alone | None = None) -> Iterator[sa.Connection]:
        """Yield a connection inside one transaction, which is committed at the end of the block.

        An exception rolls the transaction back. Entries that the block writes into the connection's `info` are passed
        to `after_commit` after the commit and before the caller continues.

        Parameters
        ----------
        alone : exclude every other write of this kind, for decisions that no ledger's lock covers

        Raises
        ------
        OSError
            if the disk is full; `Unavailable` if the database does not answer. A commit that was interrupted may have
            taken place: read the database to find out.
        RuntimeError
            if the thread is already inside such a block, which is a programming error.
        """
        if self.is_closed_to_writes:
            raise Unavailable
        with self._translated(), self._once(), self._dialect.turn(), self._writer.begin() as connection:
            connection.info.clear()  # may hold entries of a block that was rolled back
            if alone is not None:
                self._dialect.exclude(connection, alone)
            yield connection
            noted = dict(connection.info)
        if noted and self.after_commit is not None:
            self.after_commit(noted)

    @contextmanager
    def read(self) -> Iterator[sa.Connection]:
        """Yield a connection that cannot write, on one consistent snapshot."""
        with self._translated(), self._reader.begin() as connection:
            yield connection

    async def ask(self, question: sa.Select[Any], values: Mapping[str, str]) -> Sequence[Sequence[Any]]:
        """Return the rows of one statement, without a transaction: one statement is a snapshot by itself.

        Parameters
        ----------
        question : statement that is built once, because its compiled form is cached; its columns are text and numbers
        values : values of its parameters
        """
        with self._translated():
            return await self._dialect.ask(question, values)

    def changes(self, stopped: threading.Event) -> Iterator[str | None]:
        """Yield the ids of jobs that any process announced as changed (`dialect.announce`); None if any may have."""
        return self._dialect.changes(stopped)

    def timestamp(self) -> str:
        """Return the current time: UTC, ISO 8601, milliseconds."""
        return stamp(self.clock.wall())

    def migrate(self, *, at_start: bool = False) -> None:
        """Upgrade the schema to the newest one, in one transaction; a second process waits until it is done.

        An empty database gets its tables.

        Parameters
        ----------
        at_start : refuse to upgrade a database that another server may have open

        Raises
        ------
        StartRefused
            if the schema belongs to an unreleased or a newer version, or `at_start` forbids the upgrade.
        """
        with self.write(alone="names") as connection:
            if is_current(connection) or create(connection):
                return
            refuse_unknown(connection)
            if at_start and not self._dialect.upgrades_at_start:
                raise StartRefused(
                    "the database does not have the schema of this version, and other servers may use it. Stop every "
                    "server on it, then run `purse server migrate`"
                )
            upgrade(connection)

    def close(self) -> None:
        """Close every connection."""
        self._reader.dispose()
        self._writer.dispose()

    @contextmanager
    def _translated(self) -> Iterator[None]:
        """Replace errors of the driver by the `OSError` that they mean."""
        try:
            yield
        except sa.exc.SQLAlchemyError as error:
            translated = self._dialect.translate(error)
            if translated is None:
                raise
            raise translated from None

    @contextmanager
    def _once(self) -> Iterator[None]:
        if getattr(self._thread, "writes", False):
            raise RuntimeError("Database.write within Database.write of one thread. Pass the connection on instead")
        self._thread.writes = True
        try:
            yield
        finally:
            self._thread.writes = False


def _dialect(url: sa.URL) -> DatabaseDialect:
    if url.drivername in ("postgresql", "postgresql+psycopg"):
        from app.persistence.postgres import Postgres  # late: loads a driver that SQLite does not need

        return Postgres(url)
    if url.drivername != "sqlite" or not url.database:
        raise ValueError("only sqlite:///<file> and postgresql://... are supported")
    return Sqlite(url)
