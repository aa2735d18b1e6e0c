"""Hears of jobs that have changed, whichever server changed them, and wakes who waits: the dispatcher, and streams.

What is heard is that a job's public state may be another one, and never that an attempt has ended before its time
(`app.jobs.grid`): the moment of that is no news to anybody. Whoever is woken looks into the database; and looks now and
then without being woken, since what was announced while nobody listened is lost.
"""

import asyncio
import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from app.persistence.session import Database

SLOW = 5.0  # seconds between two looks of somebody whom nothing wakes
_AGAIN = 1.0  # seconds until a database that is away is listened to again
_log = logging.getLogger(__name__)


class Changes:
    """One thread that listens, for all of this server.

    Parameters
    ----------
    database : what others announce, or commit, there
    wake : called after each change, whatever job's
    """

    def __init__(self, database: Database, wake: Callable[[], None]) -> None:
        self._database, self._wake = database, wake
        self._waiting: dict[asyncio.Event, tuple[str, asyncio.AbstractEventLoop]] = {}
        self._guard, self._stopped = threading.Lock(), threading.Event()
        self._thread = threading.Thread(target=self._listen, name="changes", daemon=True)

    def start(self) -> None:
        """Returns at once."""
        self._thread.start()

    def stop(self) -> None:
        """Listens no more."""
        self._stopped.set()
        self._thread.join(SLOW)

    @contextmanager
    def of(self, job_id: str) -> Iterator[asyncio.Event]:
        """Set, inside the block, whenever the job may have changed. On an event loop."""
        event = asyncio.Event()
        with self._guard:
            self._waiting[event] = (job_id, asyncio.get_running_loop())
        try:
            yield event
        finally:
            with self._guard:
                del self._waiting[event]

    def _listen(self) -> None:
        while not self._stopped.is_set():
            try:
                for job_id in self._database.changes(self._stopped):
                    self._tell(job_id)
            except Exception as error:
                _log.warning("not_listening %s", type(error).__name__)
                self._stopped.wait(_AGAIN)

    def _tell(self, job_id: str | None) -> None:
        self._wake()
        with self._guard:
            for event, (mine, loop) in self._waiting.items():
                if job_id in (None, mine):
                    loop.call_soon_threadsafe(event.set)
