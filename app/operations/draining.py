"""How a server ends that is asked to: what runs here goes on for a while, and nothing new begins."""

import threading
from collections.abc import Callable
from types import FrameType

from fastapi import FastAPI

from app.worker.dispatcher import Dispatcher

Exit = Callable[[int, FrameType | None], None]


def draining(end: Exit, application: FastAPI, seconds: float) -> Exit:
    """What a request to stop begins: no job is claimed any more, readiness says so, and requests are answered until all
    that runs here has ended or the time is over; then, or at a second request, comes the end.
    """
    begun = threading.Event()

    def told(number: int, frame: FrameType | None) -> None:
        services = getattr(application.state, "services", None)
        if begun.is_set() or services is None:
            end(number, frame)
            return
        begun.set()
        services.readiness.draining = True
        threading.Thread(target=drained, args=(services.dispatcher, number), name="drain", daemon=True).start()

    def drained(dispatcher: Dispatcher, number: int) -> None:
        dispatcher.drain(seconds)
        end(number, None)

    return told
