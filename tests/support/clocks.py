"""Clocks for tests: one that is set, and one that runs fast. Nothing sleeps until a point of the grid has come."""

import threading
import time

from tests.support.patience import until

_WALL, _TICKS = time.time(), time.monotonic()


class SetClock:
    """A clock that stands still until a test advances it.

    Parameters
    ----------
    boot : that of another machine, or of this one after another start, if it is another
    """

    def __init__(self, boot: str = "boot") -> None:
        self.boot = boot
        self._wall = self._ticks = 0.0

    def wall(self) -> float:
        return self._wall

    def ticks(self) -> float:
        return self._ticks

    def wait(self, _event: threading.Event, _seconds: float) -> None:
        raise AssertionError("nobody waits for a clock that stands still")

    def pass_(self, seconds: float) -> None:
        """Advance the clock by so many seconds."""
        self._wall += seconds
        self._ticks += seconds

    def set_wall(self, seconds: float) -> None:
        """Somebody sets the clock on the wall, forward or back by so much."""
        self._wall += seconds


class FastClock:
    """The machine's own, a number of times as fast."""

    def __init__(self, times: float = 20.0) -> None:
        self.boot, self._times = "boot", times

    def wall(self) -> float:
        return _WALL + self.ticks() - _TICKS * self._times

    def ticks(self) -> float:
        return time.monotonic() * self._times

    def wait(self, event: threading.Event, seconds: float) -> None:
        event.wait(seconds / self._times)


class HeldClock(SetClock):
    """A clock that stands still until a test advances it, while waiting threads check it repeatedly."""

    def __init__(self) -> None:
        super().__init__()
        self._waits = 0

    def wait(self, event: threading.Event, _seconds: float) -> None:
        self._waits += 1
        event.wait(0.005)

    def settle(self) -> None:
        """Return when the threads that wait for this clock have seen its time and acted on it."""
        enough = self._waits + 3
        until(lambda: self._waits >= enough)
