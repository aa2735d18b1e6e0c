"""Hears of jobs that have changed, whichever server changed them, and wakes who waits: the dispatcher, and streams.

What is heard is that a job's public state may be another one, and never that an attempt has ended before its time
(`app.jobs.grid`): the moment of that is no news to anybody. Whoever is woken looks into the database; and looks now and
then without being woken, since what was announced while nobody listened is lost. The ends that this server itself tells
its streams hear of at once (`tell`): where there is but a file, others are heard of some tenths of a second later.
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
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._waiting: dict[asyncio.Event, tuple[str, asyncio.AbstractEventLoop]] = {}
        self._guard, self._stopped = threading.Lock(), threading.Event()

    def start(self, wake: Callable[[], None]) -> None:
        """Listen from now on, and wake after each change that is heard, whatever job's. Returns at once."""
        self._thread = threading.Thread(target=self._listen, args=(wake,), name="changes", daemon=True)
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

    def tell(self, job_id: str | None) -> None:
        """Streams of this job look now; of whatever job if None."""
        with self._guard:
            for event, (mine, loop) in self._waiting.items():
                if job_id in (None, mine):
                    loop.call_soon_threadsafe(event.set)

    def _listen(self, wake: Callable[[], None]) -> None:
        while not self._stopped.is_set():
            try:
                for job_id in self._database.changes(self._stopped):
                    wake()
                    self.tell(job_id)
            except Exception as error:
                _log.warning("not_listening %s", type(error).__name__)
                self._stopped.wait(_AGAIN)
