"""Readiness of a server: a closed list of reasons why it should get no requests, none of which depends on the data."""

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
    "ledgers": "a ledger is not valid, so nothing is charged any more: the log names it",
    "migrations": "its database has the schema of another version",
    "keys": "its signing key is missing",
    "disk": "the disk is nearly full",
    "workers": "its worker processes do not run",
}
CHECK_TIMEOUT_SECONDS = 5.0  # time that the database may take
CACHE_SECONDS = 1.0  # the route is public, and each check waits for the database's writer


class Readiness:
    """The reasons why a server is not ready, checked at most once a second.

    Parameters
    ----------
    settings, database, keys : those of the service
    ready : set while the calculating process and the workers run
    slots : returns how many attempts may run at once; None before the engine has started
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
        self._is_draining = False
        self._checked_at, self._checked = -CACHE_SECONDS, list[str]()
        self._checking = asyncio.Lock()
        self._task: asyncio.Task[list[str]] | None = None

    @property
    def last_reasons(self) -> Collection[str]:
        """Reasons of the last check, and those that need no check."""
        return {*self._checked, *self._state()}

    def drain(self) -> None:
        """Report `draining` from now on."""
        self._is_draining = True

    async def reasons(self) -> list[str]:
        """Return members of `REASONS`, in that order; an empty list if the server is ready."""
        async with self._checking:
            if time.monotonic() - self._checked_at >= CACHE_SECONDS:
                self._checked = await self._check()
                self._checked_at = time.monotonic()
        return [reason for reason in REASONS if reason in self.last_reasons]

    def _state(self) -> list[str]:
        if self._is_draining:
            return ["draining"]
        return [] if self._ready.is_set() else ["starting"]

    async def _check(self) -> list[str]:
        if self._task is None or self._task.done():  # so that a database that hangs occupies one thread only
            self._task = asyncio.create_task(asyncio.to_thread(self._check_now))
        if not (await asyncio.wait({self._task}, timeout=CHECK_TIMEOUT_SECONDS))[0]:
            return ["database"]
        try:
            return self._task.result()
        except (sa.exc.SQLAlchemyError, OSError):
            return ["database"]

    def _check_now(self) -> list[str]:
        if self._database.is_closed_to_writes:
            return ["ledgers"]
        reasons = [] if _can_write(self._database) else ["migrations"]
        checks = {
            "keys": self._keys.is_kept,
            "disk": self._settings.has_free_disk,
            # Without remote workers jobs wait, but servers stay ready. Otherwise all would be unready at once.
            "workers": self._settings.scheduler is not None or self._slots() != 0,
        }
        return reasons + [reason for reason, is_well in checks.items() if not is_well]


def _can_write(database: Database) -> bool:
    """Return whether the schema is the newest, after a write that is rolled back and raises if it is impossible."""
    with database.write() as connection:
        is_newest = is_current(connection)
        connection.execute(sa.update(service).values(id=service.c.id))
        connection.rollback()
    return is_newest
