"""Announcements that a job has changed, on any server; they wake the dispatcher and the event streams.

An announcement says that a job's public state may have changed. It never reveals that an attempt has ended before the
grid allows it (`app.jobs.grid`). A listener then reads the database. Announcements are lost while a listener is not
connected, so it also reads the database every POLL_INTERVAL_SECONDS.

Ends that this server publishes reach its own streams at once (`announce`). With a database file, those of other servers
arrive some tenths of a second later.
"""

import asyncio
import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from app.persistence.session import Database

POLL_INTERVAL_SECONDS = 5.0  # between two reads without an announcement
_RETRY_SECONDS = 1.0  # until the next attempt to listen to an unreachable database
_log = logging.getLogger(__name__)


class Changes:
    """The listener of this server: one thread.

    Parameters
    ----------
    database : carries the announcements and commits of all servers
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._waiting: dict[asyncio.Event, tuple[str, asyncio.AbstractEventLoop]] = {}
        self._guard = threading.Lock()
        self._stopped = threading.Event()

    def start(self, wake: Callable[[], None]) -> None:
        """Start to listen, and call `wake` after each announced change of any job. Returns at once."""
        self._thread = threading.Thread(target=self._listen, args=(wake,), name="changes", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop listening."""
        self._stopped.set()
        self._thread.join(POLL_INTERVAL_SECONDS)

    @contextmanager
    def of(self, job_id: str) -> Iterator[asyncio.Event]:
        """Provide an event, on an event loop, that is set whenever the job may have changed."""
        event = asyncio.Event()
        with self._guard:
            self._waiting[event] = (job_id, asyncio.get_running_loop())
        try:
            yield event
        finally:
            with self._guard:
                del self._waiting[event]

    def announce(self, job_id: str | None) -> None:
        """Wake the streams of this job; of all jobs if None."""
        with self._guard:
            for event, (own_job_id, loop) in self._waiting.items():
                if job_id in (None, own_job_id):
                    loop.call_soon_threadsafe(event.set)

    def _listen(self, wake: Callable[[], None]) -> None:
        while not self._stopped.is_set():
            try:
                for job_id in self._database.changes(self._stopped):
                    wake()
                    self.announce(job_id)
            except Exception as error:
                _log.warning("not_listening %s", type(error).__name__)
                self._stopped.wait(_RETRY_SECONDS)
