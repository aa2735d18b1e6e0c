"""Fair scheduling: a few pieces of work run at once, and callers take turns, however much one of them has queued."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, eq=False)
class _Turn:
    """Entry of the queue."""

    caller: str
    granted: asyncio.Event


class Turns:
    """Slots for work; used on the event loop's thread alone.

    Parameters
    ----------
    slots : number of pieces of work that run at once
    each : largest number of them for one caller
    """

    def __init__(self, slots: int, each: int) -> None:
        self._slots, self._each = slots, each
        self._queue: list[_Turn] = []
        self._running: Counter[str] = Counter()
        self._granted = 0
        self._last: dict[str, int] = {}  # number of the last turn of each caller with running or queued work

    async def take(self, caller: str) -> None:
        """Wait for a slot, which must be released with `leave`."""
        turn = _Turn(caller, asyncio.Event())
        self._queue.append(turn)
        self._grant()
        try:
            await turn.granted.wait()
        except BaseException:
            if turn.granted.is_set():
                self.leave(caller)
            else:
                self._queue.remove(turn)
                self._forget(caller)
            raise

    def leave(self, caller: str) -> None:
        """Release a slot of the caller."""
        self._running -= Counter((caller,))
        self._grant()
        self._forget(caller)

    @asynccontextmanager
    async def slot(self, caller: str) -> AsyncIterator[None]:
        """Hold a slot of the caller inside the block."""
        await self.take(caller)
        try:
            yield
        finally:
            self.leave(caller)

    def _grant(self) -> None:
        """Give each free slot to the caller with the fewest slots; among these, to the one served longest ago."""
        while self._queue and self._running.total() < self._slots:
            turn = min(self._queue, key=lambda turn: (self._running[turn.caller], self._last.get(turn.caller, 0)))
            if self._running[turn.caller] >= self._each:
                return
            self._queue.remove(turn)
            self._running[turn.caller] += 1
            self._granted += 1
            self._last[turn.caller] = self._granted
            turn.granted.set()

    def _forget(self, caller: str) -> None:
        """Forget the last turn of a caller without running or queued work."""
        if not self._running[caller] and all(turn.caller != caller for turn in self._queue):
            self._last.pop(caller, None)
