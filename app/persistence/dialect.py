"""The interface between `Database` and a kind of database: everything that differs between SQLite and PostgreSQL."""

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Final, Literal, Protocol, TypeVar

import sqlalchemy as sa
from sqlalchemy.sql.functions import FunctionElement

from app.persistence.tables import JOB_NUMBERS, jobs

Alone = Literal["names", "claims"]  # "names": names, duplicates and the schema; "claims": which job is next
T = TypeVar("T")


class Unavailable(OSError):
    """The database does not answer, or not in time; nothing was changed except by transactions that committed."""

    def __init__(self) -> None:
        super().__init__("the database does not answer")


class Unusable(OSError):
    """The database exists and cannot be used; the message says why and how to fix it."""


class DatabaseDialect(Protocol):
    """One kind of database.

    Parameters
    ----------
    writer : engine of transactions in which rows read under `ledger.lock`, or alone, do not change until the commit
    reader : engine of read-only transactions on one snapshot
    upgrades_at_start : whether a start may upgrade the schema, because no other server has the database open
    """

    writer: sa.Engine
    reader: sa.Engine
    upgrades_at_start: bool

    async def ask(self, question: sa.Select[Any], values: Mapping[str, str]) -> Sequence[Sequence[Any]]:
        """Return the rows of one statement as the driver returns them: text and numbers."""

    def turn(self) -> AbstractContextManager[None]:
        """Return the lock that a thread holds while it writes."""

    def exclude(self, connection: sa.Connection, alone: Alone) -> None:
        """Wait until no other transaction that called this with the same word is open, in any process."""

    def changes(self, stopped: threading.Event) -> Iterator[str | None]:
        """Yield each job id that any process announced and committed; None if anything may have changed.

        The iterator ends when `stopped` is set. It raises an error of the driver if the database is not available.
        """

    def translate(self, error: sa.exc.SQLAlchemyError) -> OSError | None:
        """Return a full disk, `Unavailable` or `Unusable`, or None if the error is a programming error."""


CHANNEL: Final = "purse_jobs"


def announce(connection: sa.Connection, job_id: str) -> None:
    """Announce a changed job to every server at the commit. On SQLite servers notice every commit by themselves."""
    if connection.dialect.name == "postgresql":
        connection.execute(sa.select(sa.func.pg_notify(CHANNEL, job_id)))


_NEXT_OF_SEQUENCE = sa.select(JOB_NUMBERS.next_value())
_NEXT_OF_TABLE = sa.select(sa.func.coalesce(sa.func.max(jobs.c.number), 0) + 1)
_LAST_OF_SEQUENCE = sa.select(sa.func.setval(sa.literal_column(f"'{JOB_NUMBERS.name}'"), sa.func.max(jobs.c.number)))


def next_job_number(connection: sa.Connection) -> int:
    """Return a number greater than those of all jobs that were submitted before."""
    statement = _NEXT_OF_SEQUENCE if connection.dialect.name == "postgresql" else _NEXT_OF_TABLE
    number: int = connection.execute(statement).scalar_one()
    return number


def continue_job_numbers(connection: sa.Connection) -> None:
    """Set the sequence of job numbers to the greatest number in the table, if the database has such a sequence."""
    if connection.dialect.name == "postgresql":
        connection.execute(_LAST_OF_SEQUENCE)


class json_at(FunctionElement[T]):  # noqa: N801  # a function of SQL
    """The value of a JSON document (text) at a path `$.a.b`, with the given type; null if there is none."""

    inherit_cache = True
    name = "json_at"

    def __init__(self, document: sa.ColumnElement[str], path: str, kind: sa.types.TypeEngine[T]) -> None:
        super().__init__(document, sa.literal_column(f"'{path}'"))
        self.type = kind
