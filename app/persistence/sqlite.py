"""SQLite: one writer at a time, from any number of threads and processes of one machine.

In WAL mode with synchronous=FULL, a commit is on the disk before it is reported. Python's sqlite3 would begin
transactions itself, late and deferred, so that two writers could both read before either of them writes. Its control
of transactions is therefore switched off (isolation_level None), and SQLAlchemy's begin event executes BEGIN IMMEDIATE.
Reference: SQLAlchemy, "Enabling Non-Legacy SQLite Transactional Modes with the sqlite3 or aiosqlite driver".
"""

import errno
import sqlite3
import threading
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler

from app.persistence.dialect import Alone, Unavailable, Unusable, json_at
from app.persistence.files import locked

_BUSY_MILLISECONDS = 60_000
POLL_INTERVAL_SECONDS = 0.3  # time between two checks for commits of other connections
_MOST_CONNECTIONS = 64
_DISK_FULL = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_WRITE, sqlite3.SQLITE_IOERR_SHMSIZE)
# Primary codes: the last byte of an error code.
_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
_NO_ACCESS = (
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_PERM,
    sqlite3.SQLITE_AUTH,
    sqlite3.SQLITE_IOERR,
)


class Sqlite:
    """`DatabaseDialect` of an SQLite file; every write excludes every other write."""

    upgrades_at_start = True

    def __init__(self, url: sa.URL) -> None:
        self._file = url.database or ""
        self._turn = Turn(Path(self._file))
        self.writer = _engine(url, "BEGIN IMMEDIATE", ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON"))
        self.reader = _engine(url, "BEGIN", ("query_only=ON",))

    async def ask(self, question: sa.Select[Any], values: Mapping[str, str]) -> Sequence[Sequence[Any]]:
        """Run the statement by the driver, on the event loop.

        Reading an index never waits for a writer. SQLAlchemy or another thread would take several times as long.
        """
        compiled = _compiled(question, self.reader.dialect)
        parameters = compiled.construct_params(values)
        try:
            with closing(self.reader.raw_connection()) as connection:
                cursor = connection.cursor()
                cursor.execute(compiled.string, [parameters[name] for name in compiled.positiontup or ()])
                return cursor.fetchall()
        except sqlite3.Error as error:
            raise sa.exc.DBAPIError(compiled.string, None, error, hide_parameters=True) from None

    def turn(self) -> AbstractContextManager[None]:
        return self._turn.hold()

    def exclude(self, connection: sa.Connection, alone: Alone) -> None:
        pass

    def changes(self, stopped: threading.Event) -> Iterator[str | None]:
        """Yield None whenever the file's data version shows a commit of any connection."""
        with closing(self.reader.raw_connection()) as connection:
            last_version = None
            while not stopped.wait(POLL_INTERVAL_SECONDS):
                version = connection.cursor().execute("PRAGMA data_version").fetchone()
                if version != last_version:
                    last_version = version
                    yield None

    def translate(self, error: sa.exc.SQLAlchemyError) -> OSError | None:
        return fault(getattr(error, "orig", None), self._file)


def fault(error: object, file: str) -> OSError | None:
    """Return what an error of the driver says about the file, or None if it is a programming error."""
    code = getattr(error, "sqlite_errorcode", None)
    if code is None:
        return None
    primary = code & 0xFF
    if code in _DISK_FULL:
        return OSError(errno.ENOSPC, "no room for the database")
    if primary in _BUSY:
        return Unavailable()
    if primary in _DAMAGED:
        return Unusable(
            f"the database {file} is damaged, or is not an SQLite database: stop every server on it, and restore home "
            "and database from the newest backup"
        )
    if primary in _NO_ACCESS:
        return Unusable(
            f"the database {file} cannot be opened, read or written: check that it is a file on a disk that works, and "
            "that the user who runs this command may read and write it and its folder"
        )
    return None


class Turn:
    """A lock that threads of one process get in the order of their requests, and processes soon after each other.

    SQLite's own wait polls at intervals of up to 0.1 s, and lets writers starve under saturation.

    Attributes
    ----------
    waiting : a lock for each thread in line; the first thread holds the turn
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        self._guard = threading.Lock()
        self.waiting: deque[threading.Lock] = deque()

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Hold the lock during the block."""
        mine = threading.Lock()
        mine.acquire()
        with self._guard:
            self.waiting.append(mine)
            if len(self.waiting) == 1:
                mine.release()
        mine.acquire()
        try:
            with locked(self._file):
                yield
        finally:
            with self._guard:
                self.waiting.popleft()
                if self.waiting:
                    self.waiting[0].release()


@lru_cache
def _compiled(question: sa.Select[Any], dialect: sa.Dialect) -> SQLCompiler:
    compiled = question.compile(dialect=dialect)
    assert isinstance(compiled, SQLCompiler)
    return compiled


def _engine(url: sa.URL, begin: str, pragmas: tuple[str, ...]) -> sa.Engine:
    # `hide_parameters`: an error's text would otherwise contain the values of the statement.
    engine = sa.create_engine(url, pool_size=_MOST_CONNECTIONS, max_overflow=0, hide_parameters=True)

    def connect(connection: sqlite3.Connection, _record: Any) -> None:
        connection.isolation_level = None
        for pragma in (f"busy_timeout={_BUSY_MILLISECONDS}", *pragmas):
            connection.execute(f"PRAGMA {pragma}")

    def start(connection: sa.Connection) -> None:
        connection.exec_driver_sql(begin)

    sa.event.listen(engine, "connect", connect)
    sa.event.listen(engine, "begin", start)
    return engine


@compiles(json_at, "sqlite")
def _json_at(element: json_at[Any], compiler: Any, **options: Any) -> str:
    return f"json_extract({compiler.process(element.clauses, **options)})"
