"""Work of the server for a request: it runs in a thread, in fair turns, and is charged to the caller's rate.

`Turns` decides which caller's work runs next, and `ConcurrencyLimit` refuses work beyond a number at a time.
Only work on public documents, request bodies and stored releases belongs here. Work on records runs elsewhere and is
never measured here, because its duration may depend on the records.
"""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import ParamSpec, TypeVar

from fastapi.concurrency import run_in_threadpool

from app.http.errors import ApiError

P = ParamSpec("P")
T = TypeVar("T")
SECONDS_EACH = 0.005  # CPU time that counts as one request
BYTES_EACH = 2**18  # bytes of bodies and responses that count as one request
SLOTS, SLOTS_EACH = 2, 1  # the interpreter runs one thread at a time; more threads would slow the event loop down


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


class ConcurrencyLimit:
    """Limit on concurrent operations of one kind; used only on the event loop's thread.

    Parameters
    ----------
    operations : name of the operations in error messages
    each : largest number for one caller
    total : largest number for all callers
    """

    def __init__(self, operations: str, each: int, total: int) -> None:
        self._operations, self._each, self._total = operations, each, total
        self._running: Counter[str] = Counter()

    def take(self, caller: str) -> None:
        """Reserve a slot for the caller, or raise `ApiError` too_many_requests or overloaded."""
        self.check(caller)
        self._running[caller] += 1

    def check(self, caller: str) -> None:
        """Raise `ApiError` too_many_requests or overloaded if no slot is free for the caller."""
        if self._running[caller] >= self._each:
            detail = (
                f"You already have {self._each} {self._operations} running, which is the limit for one caller. "
                "Wait until one of them ends."
            )
            raise ApiError("too_many_requests", detail)
        if self._running.total() >= self._total:
            detail = f"The limit of {self._total} {self._operations} for all callers is reached. Try again later."
            raise ApiError("overloaded", detail)

    def leave(self, caller: str) -> None:
        """Release a slot of the caller."""
        self._running -= Counter((caller,))

    @contextmanager
    def slot(self, caller: str) -> Iterator[None]:
        """Hold a slot of the caller inside the block."""
        self.take(caller)
        try:
            yield
        finally:
            self.leave(caller)


class RequestAccount:
    """Cost of one request so far.

    Parameters
    ----------
    caller : caller who is charged
    turns : turns of all callers
    charge : charges further requests to the caller's rate, beyond the one charged at admission
    """

    def __init__(self, caller: str, turns: Turns, charge: Callable[[float], None]) -> None:
        self.caller, self.turns, self._charge = caller, turns, charge
        self._cost, self._charged = 0.0, 1.0

    def add(self, seconds: float = 0.0, size: int = 0) -> None:
        """Add CPU seconds and bytes. A request counts as one request, or as its cost if that is higher."""
        self._cost += seconds / SECONDS_EACH + size / BYTES_EACH
        if self._cost > self._charged:
            self._charge(self._cost - self._charged)
            self._charged = self._cost


_ACCOUNT: ContextVar[RequestAccount | None] = ContextVar("account", default=None)


@contextmanager
def charged_to(account: RequestAccount) -> Iterator[None]:
    """Charge the work inside the block to this account."""
    token = _ACCOUNT.set(account)
    try:
        yield
    finally:
        _ACCOUNT.reset(token)


def count_bytes(size: int) -> None:
    """Charge bytes of a body to the current request."""
    account = _ACCOUNT.get()
    if account is not None:
        account.add(size=size)


async def in_turn(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Return the result of the function, which runs in a thread in its caller's turn; its CPU time is charged.

    If the client disconnects, its wait for a turn ends. A running thread cannot be stopped and keeps its slot.
    """
    account = _ACCOUNT.get()
    if account is None:  # a health probe, or outside a request
        return await run_in_threadpool(function, *args, **kwargs)
    used = 0.0

    def run_timed() -> T:
        nonlocal used
        began = time.thread_time()
        try:
            return function(*args, **kwargs)
        finally:
            used = time.thread_time() - began

    def settle(_: object) -> None:
        account.add(seconds=used)
        account.turns.leave(account.caller)

    await account.turns.take(account.caller)
    running = asyncio.create_task(run_in_threadpool(run_timed))
    running.add_done_callback(settle)
    return await asyncio.shield(running)


async def in_turns(pieces: Iterator[bytes]) -> AsyncIterator[bytes]:
    """Yield the pieces of the iterator; each piece is produced in a turn of its own."""
    while (piece := await in_turn(next, pieces, None)) is not None:
        yield piece
