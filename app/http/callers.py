"""Work that only its caller wants."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from fastapi import Request

T = TypeVar("T")
_LOOK = 0.25  # seconds between two looks


class CallerLeft(Exception):
    """Nobody waits for the answer any more."""


async def while_connected(request: Request, work: Coroutine[Any, Any, T]) -> T:
    """The result of `work`, which is cancelled when the caller has left; the request's body must have been read.

    Raises
    ------
    CallerLeft
        when the caller has left.
    """
    task = asyncio.create_task(work)
    try:
        while not (await asyncio.wait((task,), timeout=_LOOK))[0]:
            if await request.is_disconnected():
                raise CallerLeft
        return task.result()
    finally:
        task.cancel()
