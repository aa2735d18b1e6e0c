"""Two clocks: a wall clock for timestamps, which people may set, and a monotonic clock for measurements."""

import threading
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol, final
from uuid import uuid4

_BOOT_ID_FILE = Path("/proc/sys/kernel/random/boot_id")


class Clock(Protocol):
    """Source of the time."""

    @property
    def boot(self) -> str:
        """Identifier of the start of this machine, from which `ticks` counts; equal in all its processes."""

    def wall(self) -> float:
        """Return seconds since 1970, for timestamps and the expiry of tokens; people may set this clock."""

    def ticks(self) -> float:
        """Return seconds since `boot`, which never decrease."""

    def wait(self, event: threading.Event, seconds: float, /) -> None:
        """Return when the event is set or the time is over."""


@final
class SystemClock:
    """The machine's clocks."""

    def __init__(self) -> None:
        # Without the file each process has an identifier of its own, and their measurements are not compared.
        self.boot = _BOOT_ID_FILE.read_text().strip() if _BOOT_ID_FILE.exists() else str(uuid4())

    def wall(self) -> float:
        return time.time()

    def ticks(self) -> float:
        return time.monotonic()

    def wait(self, event: threading.Event, seconds: float) -> None:
        event.wait(seconds)


def stamp(wall: float) -> str:
    """Return a wall-clock time as UTC, ISO 8601, milliseconds."""
    moment = datetime.fromtimestamp(round(wall, 3), UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
