"""PostgreSQL 14 or newer: many servers on one database, whose writers exclude each other ledger by ledger.

A write is READ COMMITTED: each statement sees everything that was committed when it began. Rows read under a lock
(`app.ledger.store.lock`) therefore do not change until the commit. A read is REPEATABLE READ READ ONLY: it sees one
snapshot and never waits. A commit is on the disk before it is reported, whatever the server's defaults are.
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

from app.persistence.dialect import CHANNEL, Alone, Unavailable, json_at

_ADVISORY_LOCKS: dict[Alone, tuple[int, int]] = {"names": (0x70757273, 1), "claims": (0x70757273, 2)}
_DISK_FULL = "53100"
# A dead connection is detected within about 20 s. Each server has two such pools, and one connection that listens.
CONNECTION = {"connect_timeout": 5, "keepalives_idle": 5, "keepalives_interval": 5, "keepalives_count": 3}
_NOTIFY_POLL_SECONDS = 1.0  # time between two checks whether to stop listening
POOL = {"pool_size": 4, "max_overflow": 12, "pool_timeout": 10, "pool_pre_ping": True}
# A writer that stands still loses its locks, and a writer that waits for a lock fails in the end.
WRITER_TIMEOUTS = {"lock_timeout": "20s", "idle_in_transaction_session_timeout": "60s"}
# Never weaker than `on`; an operator may set a stronger value for a standby.
_DURABLE = "SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'"


class Postgres:
    """`DatabaseDialect` of a database on a PostgreSQL server."""

    upgrades_at_start = False

    def __init__(self, url: sa.URL) -> None:
        self._url = url.set(drivername="postgresql")
        self.writer = _engine(url, IsolationLevel.READ_COMMITTED, False, WRITER_TIMEOUTS)
        self.reader = _engine(url, IsolationLevel.REPEATABLE_READ, True, {})

    async def ask(self, question: sa.Select[Any], values: Mapping[str, str]) -> Sequence[Sequence[Any]]:
        return await run_in_threadpool(self._rows, question, values)

    def _rows(self, question: sa.Select[Any], values: Mapping[str, str]) -> Sequence[Sequence[Any]]:
        with self.reader.begin() as connection:
            return connection.execute(question, values).all()

    def turn(self) -> AbstractContextManager[None]:
        return nullcontext()

    def exclude(self, connection: sa.Connection, alone: Alone) -> None:
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(*_ADVISORY_LOCKS[alone])))

    def changes(self, stopped: threading.Event) -> Iterator[str | None]:
        """Listen on a connection of its own."""
        address = make_conninfo(self._url.render_as_string(hide_password=False), **CONNECTION)
        with psycopg.connect(address, autocommit=True) as connection:
            connection.execute(f"LISTEN {CHANNEL}")
            yield None  # jobs may have been announced before
            while not stopped.is_set():
                for notification in connection.notifies(timeout=_NOTIFY_POLL_SECONDS):
                    yield notification.payload

    def translate(self, error: sa.exc.SQLAlchemyError) -> OSError | None:
        raised = getattr(error, "orig", None)
        if getattr(raised, "sqlstate", None) == _DISK_FULL:
            return OSError(errno.ENOSPC, "no room for the database")
        # psycopg raises OperationalError for a lost connection, a lock timeout or a restart of the server.
        is_away = getattr(error, "connection_invalidated", False) or isinstance(raised, psycopg.OperationalError)
        return Unavailable() if is_away or isinstance(error, sa.exc.TimeoutError) else None


def _engine(url: sa.URL, isolation: IsolationLevel, is_reader: bool, parameters: dict[str, str]) -> sa.Engine:
    # `hide_parameters`: an error's text would otherwise contain the values of the statement.
    address = url.set(drivername="postgresql+psycopg")
    engine = sa.create_engine(address, connect_args=CONNECTION, hide_parameters=True, **POOL)

    def connect(connection: "psycopg.Connection[Any]", _record: Any) -> None:
        connection.autocommit = True
        connection.execute(_DURABLE)
        for name, value in parameters.items():
            connection.execute("SELECT set_config(%s, %s, false)", (name, value))
        connection.autocommit = False
        connection.isolation_level, connection.read_only = isolation, is_reader

    sa.event.listen(engine, "connect", connect)
    return engine


@compiles(json_at, "postgresql")
def _json_at(element: json_at[Any], compiler: Any, **options: Any) -> str:
    document, path = (compiler.process(clause, **options) for clause in element.clauses)
    value = f"jsonb_path_query_first(CAST({document} AS JSONB), {path}) #>> '{{}}'"
    return f"CAST({value} AS {compiler.dialect.type_compiler_instance.process(element.type)})"
