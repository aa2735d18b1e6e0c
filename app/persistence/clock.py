"""Two clocks: one to write times down, which may be set, and one to measure with, which only goes on."""

import threading
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol, final
from uuid import uuid4

_BOOT = Path("/proc/sys/kernel/random/boot_id")


class Clock(Protocol):
    """What time it is."""

    @property
    def boot(self) -> str:
        """What `ticks` counts from: the same in every process since this machine started, and nowhere else."""
        ...

    def wall(self) -> float:
        """Seconds since 1970. For stamps that people read, and for the end of tokens: somebody may set this clock."""
        ...

    def ticks(self) -> float:
        """Seconds since `boot`; they never go back."""
        ...

    def wait(self, event: threading.Event, seconds: float, /) -> None:
        """Returns when the event is set or the time is over."""
        ...


@final
class SystemClock:
    """The machine's own."""

    def __init__(self) -> None:
        # Without such an identity, of this process only: what another one has measured is then not compared.
        self.boot = _BOOT.read_text().strip() if _BOOT.exists() else str(uuid4())

    def wall(self) -> float:
        return time.time()

    def ticks(self) -> float:
        return time.monotonic()

    def wait(self, event: threading.Event, seconds: float) -> None:
        event.wait(seconds)


def stamp(wall: float) -> str:
    """UTC, ISO 8601, milliseconds."""
    moment = datetime.fromtimestamp(round(wall, 3), UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
