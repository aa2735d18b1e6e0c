"""What the engine's channel names: an attempt, a request to stop it, and what prepares a worker.

The scheduler and the parents of workers read these names, too, and need nothing of what they stand for: solvers and
data are loaded on the worker alone.
"""

import asyncio
import os
import signal
import threading

from distributed import Worker, WorkerPlugin
from distributed.core import Status

from app.worker.engine import Place


def attempt(payload: str, key: str) -> str:
    """See `task.attempt`."""
    from app.worker import task

    return task.attempt(payload, key)


def stop(key: str) -> None:
    """See `task.stop`."""
    from app.worker import task

    task.stop(key)


class Prepare(WorkerPlugin):
    """Runs in every worker as it starts, a replaced one too: the solvers are loaded before the first job.

    Parameters
    ----------
    place : where this machine has the data, if the worker is no child of the server
    patience : seconds that its attempt may go on once such a worker is told to stop
    """

    name = "purse"

    def __init__(self, place: Place | None = None, patience: float = 0.0) -> None:
        self._place, self._patience = place, patience

    def setup(self, worker: Worker) -> None:
        """No settings, no words, no interrupts: those are the parent's to answer, and to pass on."""
        for name in [n for n in os.environ if n.startswith("PURSE_")]:
            del os.environ[name]
        from app.worker import task

        task.prepare(self._place)
        if threading.current_thread() is not threading.main_thread():
            return
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        if self._place is None:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        else:
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, self._leave, worker)

    def _leave(self, worker: Worker) -> None:
        if worker.status == Status.running:
            from app.worker import task

            self._leaving = asyncio.ensure_future(task.leave(worker, self._patience))
