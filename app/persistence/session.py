"""The unit of work: one transaction for each change, a snapshot for each reading; on SQLite or on PostgreSQL.

Whoever decides by what is stored reads it under a lock. On SQLite each write excludes every other one. On PostgreSQL it
excludes those that hold the same ledger (`app.ledger.store.lock`), and one that is `alone` those of its kind.
The stores are written for both: they lock, in this order, `alone`, an identity, ledgers.
"""

import base64
import secrets
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import sqlalchemy as sa

from app.persistence.clock import Clock, SystemClock, stamp
from app.persistence.dialect import Alone, Dialect, Unavailable
from app.persistence.files import StartRefused
from app.persistence.schema import create, is_current, upgrade


def new_id(prefix: str) -> str:
    """`<prefix>_` and 20 characters of lower-case base 32: 100 bits that nobody can guess."""
    return f"{prefix}_{base64.b32encode(secrets.token_bytes(13)).decode().lower()[:20]}"


class Database:
    """Durable state, for any number of threads and processes; on PostgreSQL, of machines.

    Parameters
    ----------
    url : sqlite:///<file>, whose folder must exist; or postgresql://...
    clock : what stamps and leases go by; the machine's own if None
    """

    def __init__(self, url: str, clock: Clock | None = None) -> None:
        self.clock = clock or SystemClock()
        self.is_closed_to_writes = False  # `write` then raises `Unavailable`: what is stored must not be gone on from
        self.after_commit: Callable[[dict[Any, Any]], None] | None = None
        self._dialect = _dialect(sa.make_url(url))
        self._writer, self._reader = self._dialect.writer, self._dialect.reader
        self._thread = threading.local()

    @contextmanager
    def write(self, *, alone: Alone | None = None) -> Iterator[sa.Connection]:
        """A connection inside one transaction, for changes; `alone` of its kind for what no ledger's lock decides.

        Committed at the end of the block, rolled back if it raises. What the block notes in the connection's `info` is
        handed to `after_commit` once it is committed, and before the caller goes on. Asking again inside the block is
        a mistake of the program: RuntimeError. A full disk is an OSError, and so is `Unavailable`: whether a commit
        that it cut off took place is then to be asked of the database.
        """
        if self.is_closed_to_writes:
            raise Unavailable
        with self._meaning(), self._once(), self._dialect.turn(), self._writer.begin() as connection:
            connection.info.clear()  # of a block that was rolled back
            if alone is not None:
                self._dialect.exclude(connection, alone)
            yield connection
            noted = dict(connection.info)
        if noted and self.after_commit is not None:
            self.after_commit(noted)

    @contextmanager
    def read(self) -> Iterator[sa.Connection]:
        """A connection that cannot write, on one consistent snapshot."""
        with self._meaning(), self._reader.begin() as connection:
            yield connection

    async def ask(self, question: sa.Select[Any], values: Mapping[str, str]) -> Sequence[Sequence[Any]]:
        """The rows of one statement: what every request asks, without a transaction, since it is a snapshot by itself.

        Parameters
        ----------
        question : made once; of text and of numbers
        values : of its parameters
        """
        with self._meaning():
            return await self._dialect.ask(question, values)

    def changes(self, stopped: threading.Event) -> Iterator[str | None]:
        """The jobs that any process has announced as changed (`dialect.announce`); None for whatever may have."""
        return self._dialect.changes(stopped)

    def timestamp(self) -> str:
        """Now: UTC, ISO 8601, milliseconds."""
        return stamp(self.clock.wall())

    def migrate(self, *, at_start: bool = False) -> None:
        """Brings the schema up to date, in one transaction; a second process waits and finds it done.

        At a start an empty database gets its tables, and an older one is brought up to date only where nobody else can
        have it open: StartRefused elsewhere.
        """
        with self.write(alone="names") as connection:
            if is_current(connection) or create(connection):
                return
            if at_start and not self._dialect.upgrades_at_start:
                raise StartRefused("the database is of another version: stop every server on it, then `purse migrate`")
            upgrade(connection)

    def close(self) -> None:
        """Closes every connection."""
        self._reader.dispose()
        self._writer.dispose()

    @contextmanager
    def _meaning(self) -> Iterator[None]:
        try:
            yield
        except sa.exc.SQLAlchemyError as error:
            meant = self._dialect.meaning(error)
            if meant is None:
                raise
            raise meant from None

    @contextmanager
    def _once(self) -> Iterator[None]:
        if getattr(self._thread, "writes", False):
            raise RuntimeError("a write inside a write of the same thread")
        self._thread.writes = True
        try:
            yield
        finally:
            self._thread.writes = False


def _dialect(url: sa.URL) -> Dialect:
    if url.drivername in ("postgresql", "postgresql+psycopg"):
        from app.persistence.postgres import Postgres  # late: its driver, which the embedded default does not need

        return Postgres(url)
    if url.drivername != "sqlite" or not url.database:
        raise ValueError("only sqlite:///<file> and postgresql://... are supported")
    from app.persistence.sqlite import Sqlite

    return Sqlite(url)
