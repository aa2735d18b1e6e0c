"""What `Database` needs of a database: the one thing that differs between SQLite and PostgreSQL."""

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Final, Literal, Protocol, TypeVar

import sqlalchemy as sa
from sqlalchemy.sql.functions import FunctionElement

Alone = Literal["names", "claims"]  # what names decide, duplicates and the schema among it; whose job is next
T = TypeVar("T")


class Unavailable(OSError):
    """The database does not answer, or not in time: what was committed stands, and nothing else was done."""

    def __init__(self) -> None:
        super().__init__("the database does not answer")


class Unusable(OSError):
    """The database was found and cannot be used; the message says what to do."""


class Dialect(Protocol):
    """One kind of database.

    Parameters
    ----------
    writer : of transactions in which what is read under `ledger.lock`, or alone, stays as it was read
    reader : of read-only transactions on one snapshot
    upgrades_at_start : whether a start may change the schema that it finds, since no other server has it open
    """

    writer: sa.Engine
    reader: sa.Engine
    upgrades_at_start: bool

    async def ask(self, question: sa.Select[Any], values: Mapping[str, str]) -> Sequence[Sequence[Any]]:
        """The rows of one statement by itself, as the driver has them: text and numbers."""
        ...

    def turn(self) -> AbstractContextManager[None]:
        """Held by a thread while it writes."""
        ...

    def exclude(self, connection: sa.Connection, alone: Alone) -> None:
        """Waits until no other transaction that called this with the same word is open, in any process."""
        ...

    def changes(self, stopped: threading.Event) -> Iterator[str | None]:
        """What `announce` was told by any process, as it is committed; None if something else may have changed, too.

        Until it is stopped; an error of the driver's if the database is away.
        """
        ...

    def meaning(self, error: sa.exc.SQLAlchemyError) -> OSError | None:
        """Return a full disk, `Unavailable` or `Unusable`; None if the error is a mistake of the program."""
        ...


CHANNEL: Final = "purse_jobs"


def announce(connection: sa.Connection, job_id: str) -> None:
    """Tells every server at the commit. On SQLite each of them sees that something was committed."""
    if connection.dialect.name == "postgresql":
        connection.execute(sa.select(sa.func.pg_notify(CHANNEL, job_id)))


class json_at(FunctionElement[T]):  # noqa: N801  # a function of SQL
    """What a JSON document (text) holds at a path `$.a.b`, null if nothing; of the type that is named."""

    inherit_cache = True
    name = "json_at"

    def __init__(self, document: sa.ColumnElement[str], path: str, kind: sa.types.TypeEngine[T]) -> None:
        super().__init__(document, sa.literal_column(f"'{path}'"))
        self.type = kind


class next_job_number(FunctionElement[int]):  # noqa: N801
    """A number above those of all jobs that were submitted before."""

    inherit_cache = True
    name = "next_job_number"
    type = sa.BigInteger()


class continue_job_numbers(FunctionElement[int]):  # noqa: N801
    """Makes the next one a number above those of all jobs that are there."""

    inherit_cache = True
    name = "continue_job_numbers"
    type = sa.BigInteger()
