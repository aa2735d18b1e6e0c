"""The orderly end of a server: it claims no further jobs and lets running ones end before it stops."""

import threading
from collections.abc import Callable
from types import FrameType

from fastapi import FastAPI

Exit = Callable[[int, FrameType | None], None]


def draining(end: Exit, application: FastAPI, seconds: float) -> Exit:
    """Return a signal handler that drains the server before it calls `end`.

    At the first signal the server claims no job any more, reports `draining` as not ready, and answers requests until
    its running jobs have ended or `seconds` have passed. A second signal ends it at once.
    """
    is_draining = threading.Event()

    def drain_and_end(number: int) -> None:
        application.state.services.dispatcher.drain(seconds)
        end(number, None)

    def handle(number: int, frame: FrameType | None) -> None:
        services = getattr(application.state, "services", None)
        if is_draining.is_set() or services is None:
            end(number, frame)
            return
        is_draining.set()
        services.readiness.drain()
        threading.Thread(target=drain_and_end, args=(number,), name="drain", daemon=True).start()

    return handle
