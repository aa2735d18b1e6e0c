"""PostgreSQL 14 or newer: many servers on one database, writers that wait for each other ledger by ledger.

A write is READ COMMITTED: each statement sees all that is committed when it begins, so what is read after a lock was
taken is what holds until the end (`app.ledger.store.lock`). A read is REPEATABLE READ READ ONLY: one snapshot, and it
waits for nobody. A commit is on the disk before the caller hears of it, whatever the server's defaults are.
"""

import errno
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import psycopg
import sqlalchemy as sa
from fastapi.concurrency import run_in_threadpool
from psycopg import IsolationLevel
from psycopg.conninfo import make_conninfo
from sqlalchemy.ext.compiler import compiles

from app.persistence.dialect import CHANNEL, Alone, Unavailable, continue_job_numbers, json_at, next_job_number

_ALONE: dict[Alone, tuple[int, int]] = {"names": (0x70757273, 1), "claims": (0x70757273, 2)}  # advisory locks
_DISK_FULL = "53100"
# A link that is dead is noticed within some 20 s. Each server has two such pools, and one link that listens.
_LINK = {"connect_timeout": 5, "keepalives_idle": 5, "keepalives_interval": 5, "keepalives_count": 3}
_HEARING = 1.0  # seconds between two looks whether it is to go on
_POOL = {"pool_size": 4, "max_overflow": 12, "pool_timeout": 10, "pool_pre_ping": True}
# A writer that was stopped while it held a lock loses it; whoever waits for one is told so in the end.
_WRITING = {"lock_timeout": "20s", "idle_in_transaction_session_timeout": "60s"}
# Never weaker than `on`; a standby may be asked for more.
_DURABLE = "SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'"


class Postgres:
    """`Dialect` of a database on a PostgreSQL server."""

    upgrades_at_start = False

    def __init__(self, url: sa.URL) -> None:
        self._url = url.set(drivername="postgresql")
        self.writer = _engine(url, IsolationLevel.READ_COMMITTED, False, _WRITING)
        self.reader = _engine(url, IsolationLevel.REPEATABLE_READ, True, {})

    async def ask(self, question: sa.Select[Any], values: Mapping[str, str]) -> Sequence[Sequence[Any]]:
        return await run_in_threadpool(self._rows, question, values)

    def _rows(self, question: sa.Select[Any], values: Mapping[str, str]) -> Sequence[Sequence[Any]]:
        with self.reader.begin() as connection:
            return connection.execute(question, values).all()

    def turn(self) -> AbstractContextManager[None]:
        return nullcontext()

    def exclude(self, connection: sa.Connection, alone: Alone) -> None:
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(*_ALONE[alone])))

    def changes(self, stopped: threading.Event) -> Iterator[str | None]:
        """By a connection of its own."""
        address = make_conninfo(self._url.render_as_string(hide_password=False), **_LINK)
        with psycopg.connect(address, autocommit=True) as connection:
            connection.execute(f"LISTEN {CHANNEL}")
            yield None  # what was announced before
            while not stopped.is_set():
                for heard in connection.notifies(timeout=_HEARING):
                    yield heard.payload

    def meaning(self, error: sa.exc.SQLAlchemyError) -> OSError | None:
        raised = getattr(error, "orig", None)
        if getattr(raised, "sqlstate", None) == _DISK_FULL:
            return OSError(errno.ENOSPC, "no room for the database")
        is_gone = getattr(error, "connection_invalidated", False) or isinstance(raised, psycopg.OperationalError)
        # As psycopg has it, an operational error is no mistake of the program: no link, no turn in time, a restart.
        return Unavailable() if is_gone or isinstance(error, sa.exc.TimeoutError) else None


def _engine(url: sa.URL, isolation: IsolationLevel, is_reader: bool, chosen: dict[str, str]) -> sa.Engine:
    # An error's text would hold the values of the statement.
    where = url.set(drivername="postgresql+psycopg")
    engine = sa.create_engine(where, connect_args=_LINK, hide_parameters=True, **_POOL)

    def connect(connection: "psycopg.Connection[Any]", _record: Any) -> None:
        connection.autocommit = True
        connection.execute(_DURABLE)
        for name, value in chosen.items():
            connection.execute("SELECT set_config(%s, %s, false)", (name, value))
        connection.autocommit = False
        connection.isolation_level, connection.read_only = isolation, is_reader

    sa.event.listen(engine, "connect", connect)
    return engine


@compiles(json_at, "postgresql")
def _json_at(element: json_at[Any], compiler: Any, **options: Any) -> str:
    document, path = (compiler.process(clause, **options) for clause in element.clauses)
    found = f"jsonb_path_query_first(CAST({document} AS JSONB), {path}) #>> '{{}}'"
    return f"CAST({found} AS {compiler.dialect.type_compiler_instance.process(element.type)})"


@compiles(next_job_number, "postgresql")
def _next_job_number(_element: next_job_number, _compiler: Any, **_options: Any) -> str:
    return "nextval('jobs_number')"


@compiles(continue_job_numbers, "postgresql")
def _continue_job_numbers(_element: continue_job_numbers, _compiler: Any, **_options: Any) -> str:
    return "setval('jobs_number', (SELECT max(number) FROM jobs))"
