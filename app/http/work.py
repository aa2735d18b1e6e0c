"""The server's own work for a request: done in a thread, in fair turns, and charged to the caller's rate.

Only work on public documents, request bodies and stored releases belongs here. Work on records runs elsewhere and is
never measured here: its time may depend on them.
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
BYTES_EACH = 2**18  # of bodies and answers together, that count as one request
SLOTS, SLOTS_EACH = 2, 1  # more threads would only slow the event loop down: one interpreter runs one of them at a time


class Account:
    """What one request has cost so far.

    Parameters
    ----------
    who : whom it is charged to
    turns : of all callers
    charge : takes a number of requests from the caller's rate, beyond the one that admission took
    """

    def __init__(self, who: str, turns: Turns, charge: Callable[[float], None]) -> None:
        self.who, self.turns, self._charge = who, turns, charge
        self._cost, self._charged = 0.0, 1.0

    def add(self, seconds: float = 0.0, size: int = 0) -> None:
        """Charge CPU seconds and bytes: a request counts as one, or as what it has cost if that is more."""
        self._cost += seconds / SECONDS_EACH + size / BYTES_EACH
        if self._cost > self._charged:
            self._charge(self._cost - self._charged)
            self._charged = self._cost


_ACCOUNT: ContextVar[Account | None] = ContextVar("account", default=None)


@contextmanager
def charged_to(account: Account) -> Iterator[None]:
    """Charge the work inside the block to this account."""
    reset_token = _ACCOUNT.set(account)
    try:
        yield
    finally:
        _ACCOUNT.reset(reset_token)


def count_bytes(size: int) -> None:
    """Charge bytes of a body to the request at hand."""
    account = _ACCOUNT.get()
    if account is not None:
        account.add(size=size)


async def in_turn(function: Callable[P, T], *given: P.args, **named: P.kwargs) -> T:
    """Return what the function returns; it runs in a thread once its caller's turn comes, and its CPU time is charged.

    A caller who leaves gives up the wait for a turn. A thread cannot be stopped: its slot is free only once it ends.
    """
    account = _ACCOUNT.get()
    if account is None:  # a probe, or no request at all
        return await run_in_threadpool(function, *given, **named)
    used = 0.0

    def timed() -> T:
        nonlocal used
        began = time.thread_time()
        try:
            return function(*given, **named)
        finally:
            used = time.thread_time() - began

    def ended(_: object) -> None:
        account.add(seconds=used)
        account.turns.leave(account.who)

    await account.turns.take(account.who)
    running = asyncio.create_task(run_in_threadpool(timed))
    running.add_done_callback(ended)
    return await asyncio.shield(running)


async def in_turns(pieces: Iterator[bytes]) -> AsyncIterator[bytes]:
    """Yield what the iterator yields; each piece is made in a turn of its own."""
    while (piece := await in_turn(next, pieces, None)) is not None:
        yield piece
