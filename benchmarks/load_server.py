"""A server as `purse serve` starts it, but without jobs, and its profile: `python -m benchmarks.load_server`.

Without jobs, the load is that of requests alone. The settings are those of `purse serve`. SIGUSR1 prints the shares of
the server's parts in the CPU time since the last SIGUSR1.
"""

import signal
import sys
import threading
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Any

import uvicorn

from app.http.protocol import ConnectionLimits
from app.http.server import configured
from app.main import create_app
from app.operations import logs
from app.settings import Settings
from app.worker.engine import Handle

_INTERVAL_CPU_SECONDS = 0.02  # between two samples, each of which uses some CPU time itself
# Functions in which a thread waits, and functions that wait for the disk
_WAITING = ("wait", "select", "get", "poll", "accept", "run", "_worker", "taken", "turn")
_DISK = ("do_commit", "_write")
_OURS = Path(__file__).resolve().parents[1]
_NAMES = {
    "starlette": "FastAPI",
    "fastapi": "FastAPI",
    "anyio": "FastAPI",
    "pydantic": "FastAPI",
    "h11": "uvicorn, h11",
}
_PRINTED_PARTS = 8


class NoEngine:
    """An engine without slots, so that no job starts."""

    slots = 0

    def take(self, held: int) -> bool:  # noqa: ARG002
        """Return False, because there is no slot."""
        return False

    def hold(self, held: int) -> None:
        """Do nothing."""

    def submit(self, job_id: str, attempt: int, payload: str) -> Handle:
        """Raise an error, because no attempt can be submitted without a slot."""
        raise NotImplementedError

    def close(self) -> None:
        """Do nothing."""


class Profile:
    """Samples of the parts in which threads run that do not wait, taken by a timer of CPU time."""

    def __init__(self) -> None:
        self._samples: Counter[str] = Counter()
        self._is_sampling = False

    def start(self) -> None:
        """Begin to sample; call it in the main thread."""
        signal.signal(signal.SIGPROF, self._sample)
        signal.signal(signal.SIGUSR1, self._report)
        signal.setitimer(signal.ITIMER_PROF, _INTERVAL_CPU_SECONDS, _INTERVAL_CPU_SECONDS)

    def _sample(self, _signal: int, own_frame: FrameType | None) -> None:
        if self._is_sampling:  # the collector may run within _current_frames, which holds a lock that is not reentrant
            return
        self._is_sampling = True
        frames = sys._current_frames() | {threading.get_ident(): own_frame}
        for frame in frames.values():
            if frame is not None and frame.f_code.co_name not in _WAITING:
                self._samples[_part(frame)] += 1
        self._is_sampling = False

    def _report(self, *_: Any) -> None:
        samples, self._samples = self._samples, Counter()
        total = max(samples.total(), 1)
        print(", ".join(f"{part} {n / total:.0%}" for part, n in samples.most_common(_PRINTED_PARTS)), flush=True)


def _part(frame: FrameType) -> str:
    """Return the innermost folder of ours or package in which a thread runs, or that it waits for the disk."""
    if frame.f_code.co_name in _DISK:
        return "commits"
    caller: FrameType | None = frame
    while caller is not None:
        file = caller.f_code.co_filename
        package = file.partition("site-packages/")[2].partition("/")[0]
        if package:
            return _NAMES.get(package, "uvicorn, h11" if package == "uvicorn" else package)
        if file.startswith(str(_OURS)):
            return "/".join(Path(file).relative_to(_OURS).parts[:2]).removesuffix(".py")
        caller = caller.f_back
    return "Python"


if __name__ == "__main__":
    settings = Settings()
    logs.install(settings.log_level, settings.log_format)
    limits = ConnectionLimits(connections=settings.max_connections)
    application = create_app(settings, engine=NoEngine())
    Profile().start()
    uvicorn.Server(configured(application, limits, host=settings.host, port=settings.port)).run()
