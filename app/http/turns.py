"""Fair turns: a few pieces of work run at once, and callers take turns, however much one of them has waiting."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, eq=False)
class _Turn:
    """A place in the queue."""

    who: str
    granted: asyncio.Event


class Turns:
    """Slots for work; used on the event loop's thread alone.

    Parameters
    ----------
    slots : how many pieces of work run at once
    each : how many of them one caller may have; the others of that caller wait
    """

    def __init__(self, slots: int, each: int) -> None:
        self._slots, self._each = slots, each
        self._queue: list[_Turn] = []
        self._running: Counter[str] = Counter()
        self._granted = 0
        self._last: dict[str, int] = {}  # the number of the last turn of each caller with work that runs or waits

    async def take(self, who: str) -> None:
        """Wait for a slot; the caller must `leave` it."""
        turn = _Turn(who, asyncio.Event())
        self._queue.append(turn)
        self._grant()
        try:
            await turn.granted.wait()
        except BaseException:
            if turn.granted.is_set():
                self.leave(who)
            else:
                self._queue.remove(turn)
                self._forget(who)
            raise

    def leave(self, who: str) -> None:
        """Give a slot back."""
        self._running -= Counter((who,))
        self._grant()
        self._forget(who)

    @asynccontextmanager
    async def taken(self, who: str) -> AsyncIterator[None]:
        """Hold a slot inside the block."""
        await self.take(who)
        try:
            yield
        finally:
            self.leave(who)

    def _grant(self) -> None:
        """Give free slots to the caller with the fewest, then to the one whose last turn is longest ago."""
        while self._queue and self._running.total() < self._slots:
            turn = min(self._queue, key=lambda turn: (self._running[turn.who], self._last.get(turn.who, 0)))
            if self._running[turn.who] >= self._each:
                return
            self._queue.remove(turn)
            self._running[turn.who] += 1
            self._granted += 1
            self._last[turn.who] = self._granted
            turn.granted.set()

    def _forget(self, who: str) -> None:
        if not self._running[who] and all(turn.who != who for turn in self._queue):
            self._last.pop(who, None)
