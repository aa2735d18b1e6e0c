"""FastAPI dependencies of routes, and work that is cancelled when the client disconnects."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

from fastapi import Depends, Request, Response

T = TypeVar("T")
_POLL_INTERVAL_SECONDS = 0.25  # between two checks of the connection


@dataclass(frozen=True, slots=True)
class ServicePart:
    """FastAPI dependency that returns the part of this name of `app.services.Services`."""

    name: str

    async def __call__(self, request: Request) -> Any:
        """Return the part."""
        return getattr(request.app.state.services, self.name)


async def locating(request: Request, response: Response) -> Callable[[str], None]:
    """Return a function that sets `Location` to a path of the service, after the proxy's prefix."""

    def locate(path: str) -> None:
        response.headers["Location"] = request.scope.get("root_path", "") + path

    return locate


Locate = Annotated[Callable[[str], None], Depends(locating)]


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
