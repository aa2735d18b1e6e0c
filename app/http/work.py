"""Work of the server for a request: it runs in a thread, in fair turns, and is charged to the caller's rate.

Only work on public documents, request bodies and stored releases belongs here. Work on records runs elsewhere and is
never measured here, because its duration may depend on the records.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import ParamSpec, TypeVar

from fastapi.concurrency import run_in_threadpool

from app.http.turns import Turns

P = ParamSpec("P")
T = TypeVar("T")
SECONDS_EACH = 0.005  # CPU time that counts as one request
BYTES_EACH = 2**18  # bytes of bodies and responses that count as one request
SLOTS, SLOTS_EACH = 2, 1  # the interpreter runs one thread at a time; more threads would slow the event loop down


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
