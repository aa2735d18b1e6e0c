"""The server as `purse serve` starts it, without starting jobs, and its profile: `python -m benchmarks.load_server`.

So the load is that of requests. It takes the same settings. SIGUSR1 prints where CPU time went since the last one.
"""

import signal
import sys
import threading
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Any

import uvicorn

from app.http.protocol import Limits
from app.http.server import configured
from app.main import create_app
from app.operations import logs
from app.settings import Settings
from app.worker.engine import Handle

_EVERY = 0.02  # CPU seconds between two looks, each of which takes some of what is measured
_IDLE = (
    "wait",
    "select",
    "get",
    "poll",
    "accept",
    "run",
    "_worker",
    "taken",
    "turn",
)  # functions in which a thread waits
_DISK = ("do_commit", "_write")
_OURS = Path(__file__).resolve().parents[1]
_NAMES = {
    "starlette": "FastAPI",
    "fastapi": "FastAPI",
    "anyio": "FastAPI",
    "pydantic": "FastAPI",
    "h11": "uvicorn, h11",
}
_SHOWN = 8


class Resting:
    """An engine without slots."""

    slots = 0

    def take(self, held: int) -> bool:  # noqa: ARG002
        """None is free."""
        return False

    def hold(self, held: int) -> None:
        """None is held."""

    def submit(self, job_id: str, attempt: int, payload: str) -> Handle:
        """Nobody asks."""
        raise NotImplementedError

    def close(self) -> None:
        """Nothing runs."""


class Profile:
    """In which part the threads are that do not wait, looked at by a clock of CPU time."""

    def __init__(self) -> None:
        self._seen: Counter[str] = Counter()
        self._looking = False

    def start(self) -> None:
        """From here on, in the main thread."""
        signal.signal(signal.SIGPROF, self._look)
        signal.signal(signal.SIGUSR1, self._tell)
        signal.setitimer(signal.ITIMER_PROF, _EVERY, _EVERY)

    def _look(self, _signal: int, frame: FrameType | None) -> None:
        if self._looking:  # the collector may run within _current_frames, which holds a lock that is not reentrant
            return
        self._looking, own = True, threading.get_ident()
        for thread, other in sys._current_frames().items():
            where = frame if thread == own else other
            if where is not None and where.f_code.co_name not in _IDLE:
                self._seen[_part(where)] += 1
        self._looking = False

    def _tell(self, *_: Any) -> None:
        seen, self._seen = self._seen, Counter()
        total = max(seen.total(), 1)
        print(", ".join(f"{part} {n / total:.0%}" for part, n in seen.most_common(_SHOWN)), flush=True)


def _part(frame: FrameType) -> str:
    """The innermost part that is not Python's own: one of our rooms, or a package; or that the disk is waited for."""
    if frame.f_code.co_name in _DISK:
        return "commits"
    here: FrameType | None = frame
    while here is not None:
        file = here.f_code.co_filename
        package = file.partition("site-packages/")[2].partition("/")[0]
        if package:
            return _NAMES.get(package, "uvicorn, h11" if package == "uvicorn" else package)
        if file.startswith(str(_OURS)):
            return "/".join(Path(file).relative_to(_OURS).parts[:2]).removesuffix(".py")
        here = here.f_back
    return "Python"


if __name__ == "__main__":
    settings = Settings()
    logs.install(settings.log_level, settings.log_format)
    limits = Limits(connections=settings.max_connections)
    application = create_app(settings, engine=Resting())
    Profile().start()
    uvicorn.Server(configured(application, limits, host=settings.host, port=settings.port)).run()
