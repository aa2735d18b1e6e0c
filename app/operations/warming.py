"""The part of a start that runs beside requests: the calculating process and the workers."""

import logging
import threading
from collections.abc import Callable
from typing import Final

from app.calculation.calculators import Calculators

RETRY_SECONDS: Final = 5.0  # until another attempt to start the calculating process, or the workers
_LOG = logging.getLogger("purse.main")


class WarmUp:
    """A thread that waits for the calculating process, then starts the workers, and retries until both run.

    `ready` is set once the calculating process answers, and is cleared whenever an attempt fails.

    A process may have been killed while it started: by an operator, or for lack of memory. Workers start last because
    they would take the processors from the calculating process, which the first requests wait for.

    Parameters
    ----------
    ready : event that is set and cleared
    start_workers : starts the workers; raises if they do not start
    """

    def __init__(self, ready: threading.Event, calculators: Calculators, start_workers: Callable[[], None]) -> None:
        self._ready, self._calculators, self._start_workers = ready, calculators, start_workers
        self._stopping = threading.Event()

    def start(self) -> None:
        """Start the thread."""
        threading.Thread(target=self.run, name="warm-up", daemon=True).start()

    def stop(self) -> None:
        """Make no further attempt, and return at once. A running attempt fails when its process is closed."""
        self._stopping.set()

    def run(self) -> None:
        """Warm up, in the calling thread."""
        while not self._calculators.is_warm():
            if self._stopping.is_set() or not self._wait("the calculating process did not start"):
                return
        self._ready.set()
        while True:
            try:
                self._start_workers()
            except Exception as error:
                if not self._wait(f"the workers did not start: {type(error).__name__}"):
                    return
            else:
                self._ready.set()
                return

    def _wait(self, error: str) -> bool:
        """Wait before the next attempt; return False if the server stops meanwhile."""
        self._ready.clear()
        _LOG.critical("%s; trying again in %g seconds", error, RETRY_SECONDS)
        return not self._stopping.wait(RETRY_SECONDS)
