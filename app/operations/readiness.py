"""Whether this server should get requests, and if not why not: closed words, none of which tells of the data."""

import asyncio
import threading
import time
from collections.abc import Callable, Collection
from typing import Final

import sqlalchemy as sa

from app.ledger.keys import SigningKeys
from app.persistence.schema import is_current
from app.persistence.session import Database
from app.persistence.tables import service
from app.settings import Settings

REASONS: Final = {
    "starting": "it is starting",
    "draining": "it is stopping",
    "database": "its database cannot be written",
    "ledgers": "a ledger does not hold, and nothing is charged any more: the log names it",
    "migrations": "its database is of another version",
    "keys": "its signing key is not there",
    "disk": "the disk is nearly full",
    "workers": "its worker processes do not run",
}
_PATIENCE = 5.0  # seconds that the database may take
_AGAIN = 1.0  # seconds for which an answer stands: strangers may ask, and a look takes the writer's turn


class Readiness:
    """The reasons against it, looked for once a second at the most, however many ask.

    Parameters
    ----------
    settings, database, keys : the service's
    ready : set as long as libraries and workers are there
    slots : how many attempts may run at once here; None before there is anybody to run them
    """

    def __init__(
        self,
        settings: Settings,
        database: Database,
        keys: SigningKeys,
        ready: threading.Event,
        slots: Callable[[], int | None],
    ) -> None:
        self._settings, self._database, self._keys, self._ready, self._slots = settings, database, keys, ready, slots
        self.draining = False
        self._looked, self._found = -_AGAIN, list[str]()
        self._looking = asyncio.Lock()
        self._asking: asyncio.Task[list[str]] | None = None

    @property
    def known(self) -> Collection[str]:
        """The reasons found last, and those of now that need no look."""
        return {*self._found, *self._here()}

    async def reasons(self) -> list[str]:
        """Of `REASONS`, in that order; none if the server is ready."""
        async with self._looking:
            if time.monotonic() - self._looked >= _AGAIN:
                self._found = await self._look()
                self._looked = time.monotonic()
        return [reason for reason in REASONS if reason in self.known]

    def _here(self) -> list[str]:
        if self.draining:
            return ["draining"]
        return [] if self._ready.is_set() else ["starting"]

    async def _look(self) -> list[str]:
        if self._asking is None or self._asking.done():  # a database that hangs keeps one thread, and no more
            self._asking = asyncio.create_task(asyncio.to_thread(self._ask))
        if not (await asyncio.wait({self._asking}, timeout=_PATIENCE))[0]:
            return ["database"]
        try:
            return self._asking.result()
        except (sa.exc.SQLAlchemyError, OSError):
            return ["database"]

    def _ask(self) -> list[str]:
        if self._database.is_closed_to_writes:
            return ["ledgers"]
        found = [] if _writes(self._database) else ["migrations"]
        checks = {
            "keys": self._keys.is_kept,
            "disk": self._settings.has_room,
            # Workers elsewhere are no server's own: without any of them all servers would be away, and jobs can wait.
            "workers": self._settings.scheduler is not None or self._slots() != 0,
        }
        return found + [reason for reason, is_well in checks.items() if not is_well]


class _Undone(Exception):
    """Ends a transaction that was tried out."""


def _writes(base: Database) -> bool:
    """Whether the schema is the newest; a row is written, and not committed."""
    is_newest = False
    try:
        with base.write() as connection:
            is_newest = is_current(connection)
            connection.execute(sa.update(service).values(id=service.c.id))
            raise _Undone
    except _Undone:
        return is_newest
