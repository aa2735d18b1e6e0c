"""What a Dask worker runs for us: one attempt of one job, and a request to stop it coming in."""

import os
import signal
import threading

from distributed import Worker, WorkerPlugin

import solvers.compiled  # noqa: F401, before the first job
from app.worker.engine import FAILED
from app.worker.execute import quiet, run
from app.worker.shares import spread

_stopped: set[str] = set()


class Stopped(BaseException):
    """The attempt was asked to stop. Not an `Exception`, so that no solver swallows it."""


def stop(key: str) -> None:
    """Ask the attempt to stop at its next answer; runs on the worker's event loop, beside the attempt's thread."""
    _stopped.add(key)


def attempt(payload: str, key: str) -> str:
    """The output document of one attempt. Never raises: Dask would log a traceback, of code that had the data."""
    try:

        def obey(_done: int) -> None:
            if key in _stopped:
                raise Stopped

        return run(payload, obey, spread)
    except BaseException:
        return FAILED
    finally:
        _stopped.discard(key)


class Prepare(WorkerPlugin):
    """Runs in every worker as it starts, a replaced one too. That this module is here has imported the solvers.

    Parameters
    ----------
    local : the worker is a child of the server: an interrupt from the keyboard is the server's to answer
    """

    name = "purse"

    def __init__(self, local: bool) -> None:
        self._local = local

    def setup(self, worker: Worker) -> None:  # noqa: ARG002
        """No settings, no words, no interrupts."""
        for name in [n for n in os.environ if n.startswith("PURSE_")]:
            del os.environ[name]
        quiet()
        if self._local and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, signal.SIG_IGN)
