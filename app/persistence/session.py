"""The unit of work: one BEGIN IMMEDIATE transaction for each change, read-only connections for the rest.

SQLite in WAL mode with synchronous=FULL: what was committed is on the disk before the caller hears of it.
Python's sqlite3 would begin transactions on its own, late and deferred, so that two writers could both read
before either writes; its own control is switched off (isolation_level None) and SQLAlchemy's begin event says
BEGIN IMMEDIATE.
Reference: SQLAlchemy, "Enabling Non-Legacy SQLite Transactional Modes with the sqlite3 or aiosqlite driver".
"""

import base64
import errno
import secrets
import sqlite3
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import sqlalchemy as sa

from app.persistence.clock import Clock, SystemClock, stamp
from app.persistence.schema import create, is_current, upgrade

_BUSY_MILLISECONDS = 60_000
_NO_ROOM = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_WRITE, sqlite3.SQLITE_IOERR_SHMSIZE)


def new_id(prefix: str) -> str:
    """`<prefix>_` and 20 characters of lower-case base 32: 100 bits that nobody can guess."""
    return f"{prefix}_{base64.b32encode(secrets.token_bytes(13)).decode().lower()[:20]}"


class Database:
    """Durable state. Many readers, one writer at a time, from any number of threads and processes.

    Parameters
    ----------
    url : sqlite:///<file>; the file's folder must exist
    clock : what stamps and leases go by; the machine's own if None
    """

    def __init__(self, url: str, clock: Clock | None = None) -> None:
        if not url.startswith("sqlite:///"):
            raise ValueError("only sqlite:///<file> is supported")
        self.clock = clock or SystemClock()
        self.after_commit: Callable[[dict[Any, Any]], None] | None = None
        self._turn = _Turn()
        self._writer = _engine(url, "BEGIN IMMEDIATE", ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON"))
        self._reader = _engine(url, "BEGIN", ("query_only=ON",))

    @contextmanager
    def write(self) -> Iterator[sa.Connection]:
        """A connection inside one transaction that nobody else's writes can enter.

        Committed at the end of the block, rolled back if it raises. What the block notes in the connection's `info` is
        handed to `after_commit` once it is committed, and before the caller goes on. Threads get their turn in the
        order in which they asked. Asking again inside the block is a mistake of the program: RuntimeError. A full disk
        is an OSError.
        """
        try:
            with self._turn.taken(), self._writer.begin() as connection:
                connection.info.clear()  # of a block that was rolled back
                yield connection
                noted = dict(connection.info)
        except sa.exc.OperationalError as error:
            if getattr(error.orig, "sqlite_errorcode", None) in _NO_ROOM:
                raise OSError(errno.ENOSPC, "no room for the database") from None
            raise
        if noted and self.after_commit is not None:
            self.after_commit(noted)

    @contextmanager
    def read(self) -> Iterator[sa.Connection]:
        """A connection that cannot write, on one consistent snapshot."""
        with self._reader.begin() as connection:
            yield connection

    def timestamp(self) -> str:
        """Now: UTC, ISO 8601, milliseconds."""
        return stamp(self.clock.wall())

    def migrate(self) -> None:
        """Brings the schema up to date, in one transaction; a second process waits and finds it done."""
        with self.write() as connection:
            if not is_current(connection) and not create(connection):
                upgrade(connection)

    def close(self) -> None:
        """Closes every connection."""
        self._reader.dispose()
        self._writer.dispose()


class _Turn:
    """A lock that is granted in the order of asking. (SQLite's own waiting starves under saturation.)"""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._waiting: deque[threading.Lock] = deque()
        self._holder: int | None = None

    @contextmanager
    def taken(self) -> Iterator[None]:
        if self._holder == threading.get_ident():
            raise RuntimeError("a write inside a write of the same thread")
        mine = threading.Lock()
        mine.acquire()
        with self._guard:
            self._waiting.append(mine)
            if len(self._waiting) == 1:
                mine.release()
        mine.acquire()
        self._holder = threading.get_ident()
        try:
            yield
        finally:
            self._holder = None
            with self._guard:
                self._waiting.popleft()
                if self._waiting:
                    self._waiting[0].release()


def _engine(url: str, begin: str, pragmas: tuple[str, ...]) -> sa.Engine:
    # An error's text would hold the values of the statement.
    engine = sa.create_engine(url, pool_size=8, max_overflow=56, hide_parameters=True)

    def connect(connection: sqlite3.Connection, _record: Any) -> None:
        connection.isolation_level = None
        for pragma in (f"busy_timeout={_BUSY_MILLISECONDS}", *pragmas):
            connection.execute(f"PRAGMA {pragma}")

    def start(connection: sa.Connection) -> None:
        connection.exec_driver_sql(begin)

    sa.event.listen(engine, "connect", connect)
    sa.event.listen(engine, "begin", start)
    return engine
