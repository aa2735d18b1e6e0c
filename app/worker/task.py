"""The code that runs on a Dask worker: one attempt of one job, and requests to stop it."""

import asyncio
import os
import shutil
import threading
import time
from collections.abc import Callable
from contextlib import suppress

from distributed import Worker
from distributed.core import Status

import solvers.compiled  # noqa: F401  # compiled code is loaded before the first job
from app.worker.engine import HANDED_BACK, RAISED, Folders
from app.worker.execute import quiet, run
from app.worker.shares import spread

_NICENESS = 10  # of an attempt: a server on the same machine answers first
_STOP_TIMEOUT_SECONDS = 10.0  # time within which a healthy attempt reaches its next answer
_FETCH_TIMEOUT_SECONDS = 10.0  # time that an output waits for its server to fetch it
POLL_INTERVAL_SECONDS = 0.05
_stopped: set[str] = set()
leaving = threading.Event()  # set when the worker must hand back its attempts
_folders: list[Folders] = []


def prepare(folders: Folders | None) -> None:
    """Silence logs, and note the folders of this machine if the worker is not a child of the server.

    Runs once, at the start of the worker. Data that a killed process left in the scratch folder are deleted.
    """
    quiet()
    _folders[:] = [] if folders is None else [folders]
    if folders is not None and folders.scratch is not None:
        shutil.rmtree(folders.scratch, ignore_errors=True)


class Stopped(BaseException):
    """The attempt received a request to stop. Not an `Exception`, so that no solver catches it."""


def stop(key: str) -> None:
    """Ask the attempt to stop at its next answer; runs on the worker's event loop, beside the attempt's thread."""
    _stopped.add(key)


def attempt(payload: str, key: str) -> str:
    """Return the output document of one attempt. Never raise: Dask would log a traceback of code that had the data."""
    is_handed_back = False
    with suppress(OSError):  # lower still already
        os.setpriority(os.PRIO_PROCESS, 0, _NICENESS)  # of this thread: heartbeats stay as they are

    def obey(_answers: int) -> None:
        nonlocal is_handed_back
        is_handed_back = leaving.is_set() and key not in _stopped
        if is_handed_back or key in _stopped:
            raise Stopped

    try:
        output = run(payload, obey, spread, *_folders)
    except BaseException:
        output = RAISED
    finally:
        _stopped.discard(key)
    return HANDED_BACK if is_handed_back else output


async def leave(worker: Worker, patience: float) -> None:
    """Take no new attempt, let the running one end or stop at its next answer, and close after it was fetched."""
    worker.status = Status.paused

    def runs() -> bool:
        # Attempts that wait for sums of other workers are long-running tasks.
        return bool(worker.state.executing_count or worker.state.long_running)

    await _while(runs, patience)
    leaving.set()
    await _while(runs, _STOP_TIMEOUT_SECONDS)
    await _while(lambda: bool(worker.data), _FETCH_TIMEOUT_SECONDS)
    await worker.close_gracefully(reason="told to stop")


async def _while(holds: Callable[[], bool], seconds: float) -> None:
    until = time.monotonic() + seconds
    while holds() and time.monotonic() < until:
        await asyncio.sleep(POLL_INTERVAL_SECONDS)
