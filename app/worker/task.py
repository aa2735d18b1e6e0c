"""What a Dask worker runs for us: one attempt of one job, and requests to stop it coming in."""

import asyncio
import os
import shutil
import threading
import time
from collections.abc import Callable
from contextlib import suppress

from distributed import Worker
from distributed.core import Status

import solvers.compiled  # noqa: F401, before the first job
from app.worker.engine import FAILED, LEFT, Place
from app.worker.execute import quiet, run
from app.worker.shares import spread

_NICENESS = 10  # of an attempt: a server on the same machine answers first
_ANSWERED = 10.0  # seconds within which an attempt comes to its next answer, if nothing is wrong with it
_FETCHED = 10.0  # seconds for which an output waits to be fetched by its server
_LOOK = 0.05
_stopped: set[str] = set()
_leaving = threading.Event()
_place: list[Place] = []


def prepare(place: Place | None) -> None:
    """Once, as the worker starts: no words, and where it has the data, if it is no child of the server.

    What a process before it, which was killed, has left of the data in its scratch folder goes.
    """
    quiet()
    _place[:] = [] if place is None else [place]
    if place is not None and place.scratch is not None:
        shutil.rmtree(place.scratch, ignore_errors=True)


class Stopped(BaseException):
    """The attempt was asked to stop. Not an `Exception`, so that no solver swallows it."""


def stop(key: str) -> None:
    """Ask the attempt to stop at its next answer; runs on the worker's event loop, beside the attempt's thread."""
    _stopped.add(key)


def attempt(payload: str, key: str) -> str:
    """The output document of one attempt. Never raises: Dask would log a traceback, of code that had the data."""
    is_handed_back = False
    with suppress(OSError):  # lower still already
        os.setpriority(os.PRIO_PROCESS, 0, _NICENESS)  # of this thread: heartbeats stay as they are

    def obey(_done: int) -> None:
        nonlocal is_handed_back
        is_handed_back = _leaving.is_set() and key not in _stopped
        if is_handed_back or key in _stopped:
            raise Stopped

    try:
        said = run(payload, obey, spread, *_place)
    except BaseException:
        said = FAILED
    finally:
        _stopped.discard(key)
    return LEFT if is_handed_back else said


async def leave(worker: Worker, patience: float) -> None:
    """Takes nothing more, lets what runs end or else stop at its next answer, and closes when that was fetched."""
    worker.status = Status.paused

    def runs() -> bool:
        return bool(worker.state.executing_count or worker.state.long_running)  # the latter asks others for sums

    await _while(runs, patience)
    _leaving.set()
    await _while(runs, _ANSWERED)
    await _while(lambda: bool(worker.data), _FETCHED)
    await worker.close_gracefully(reason="told to stop")


async def _while(holds: Callable[[], bool], seconds: float) -> None:
    until = time.monotonic() + seconds
    while holds() and time.monotonic() < until:
        await asyncio.sleep(_LOOK)
