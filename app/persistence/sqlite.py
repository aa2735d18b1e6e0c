"""SQLite: one writer at a time, from any number of threads and processes of one machine.

In WAL mode with synchronous=FULL: what was committed is on the disk before the caller hears of it. Python's sqlite3
would begin transactions on its own, late and deferred, so that two writers could both read before either writes; its
own control is switched off (isolation_level None) and SQLAlchemy's begin event says BEGIN IMMEDIATE.
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

from app.persistence.dialect import Alone, Unavailable, Unusable, continue_job_numbers, json_at, next_job_number
from app.persistence.files import locked

_BUSY_MILLISECONDS = 60_000
_LOOK = 0.3  # seconds between two looks for what others have committed
_NO_ROOM = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_WRITE, sqlite3.SQLITE_IOERR_SHMSIZE)
# Primary codes, the last byte of an error's code.
_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
_CLOSED_TO_US = (
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_PERM,
    sqlite3.SQLITE_AUTH,
    sqlite3.SQLITE_IOERR,
)


class Sqlite:
    """`Dialect` of a file; every write excludes every other one."""

    upgrades_at_start = True

    def __init__(self, url: sa.URL) -> None:
        self._file = url.database or ""
        self._turn = Turn(Path(self._file))
        self.writer = _engine(url, "BEGIN IMMEDIATE", ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON"))
        self.reader = _engine(url, "BEGIN", ("query_only=ON",))

    async def ask(self, question: sa.Select[Any], values: Mapping[str, str]) -> Sequence[Sequence[Any]]:
        """By the driver and on the event loop: a look into an index waits for no writer; SQLAlchemy, or the way to a
        thread, would take several times as long.
        """
        compiled = _compiled(question, self.reader.dialect)
        given = compiled.construct_params(values)
        try:
            with closing(self.reader.raw_connection()) as connection:
                cursor = connection.cursor()
                cursor.execute(compiled.string, [given[name] for name in compiled.positiontup or ()])
                return cursor.fetchall()
        except sqlite3.Error as error:
            raise sa.exc.DBAPIError(compiled.string, None, error, hide_parameters=True) from None

    def turn(self) -> AbstractContextManager[None]:
        return self._turn.taken()

    def exclude(self, connection: sa.Connection, alone: Alone) -> None:
        pass

    def changes(self, stopped: threading.Event) -> Iterator[str | None]:
        """Whether anybody has committed anything since the last look, as the file itself says."""
        with closing(self.reader.raw_connection()) as connection:
            seen = None
            while not stopped.wait(_LOOK):
                version = connection.cursor().execute("PRAGMA data_version").fetchone()
                if version != seen:
                    seen = version
                    yield None

    def meaning(self, error: sa.exc.SQLAlchemyError) -> OSError | None:
        return fault(getattr(error, "orig", None), self._file)


def fault(error: object, file: str) -> OSError | None:
    """Return what an error of the driver says about the file; None if it is a mistake of the program."""
    code = getattr(error, "sqlite_errorcode", None)
    if code is None:
        return None
    primary = code & 0xFF
    if code in _NO_ROOM:
        return OSError(errno.ENOSPC, "no room for the database")
    if primary in _BUSY:
        return Unavailable()
    if primary in _DAMAGED:
        return Unusable(
            f"the database {file} is damaged, or is not an SQLite database: stop every server on it, and restore home "
            "and database from the newest backup"
        )
    if primary in _CLOSED_TO_US:
        return Unusable(
            f"the database {file} cannot be opened, read or written: check that it is a file on a disk that works, and "
            "that the user who runs this command may read and write it and its folder"
        )
    return None


class Turn:
    """A lock that is granted in the order of asking among the threads of a process, and soon among processes.

    SQLite's own waiting looks again at intervals of up to .1 s, and starves under saturation.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        self._guard = threading.Lock()
        self._waiting: deque[threading.Lock] = deque()

    @contextmanager
    def taken(self) -> Iterator[None]:
        mine = threading.Lock()
        mine.acquire()
        with self._guard:
            self._waiting.append(mine)
            if len(self._waiting) == 1:
                mine.release()
        mine.acquire()
        try:
            with locked(self._file):
                yield
        finally:
            with self._guard:
                self._waiting.popleft()
                if self._waiting:
                    self._waiting[0].release()


@lru_cache
def _compiled(question: sa.Select[Any], dialect: sa.Dialect) -> SQLCompiler:
    compiled = question.compile(dialect=dialect)
    assert isinstance(compiled, SQLCompiler)
    return compiled


def _engine(url: sa.URL, begin: str, pragmas: tuple[str, ...]) -> sa.Engine:
    # An error's text would hold the values of the statement.
    engine = sa.create_engine(url, pool_size=64, max_overflow=0, hide_parameters=True)

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


@compiles(next_job_number, "sqlite")
def _next_job_number(_element: next_job_number, _compiler: Any, **_options: Any) -> str:
    return "(SELECT coalesce(max(number), 0) + 1 FROM jobs)"


@compiles(continue_job_numbers, "sqlite")
def _continue_job_numbers(_element: continue_job_numbers, _compiler: Any, **_options: Any) -> str:
    return "NULL"
