"""Work that is cancelled when the client disconnects."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from fastapi import Request

T = TypeVar("T")
_POLL_INTERVAL_SECONDS = 0.25  # between two checks of the connection


class CallerLeft(Exception):
    """The client disconnected before the response was ready."""


async def while_connected(request: Request, work: Coroutine[Any, Any, T]) -> T:
    """Return the result of `work`, or cancel it when the client disconnects. Read the request's body first.

    Raises
    ------
    CallerLeft
        if the client disconnects.
    """
    task = asyncio.create_task(work)
    try:
        while not (await asyncio.wait((task,), timeout=_POLL_INTERVAL_SECONDS))[0]:
            if await request.is_disconnected():
                raise CallerLeft
        return task.result()
    finally:
        task.cancel()
