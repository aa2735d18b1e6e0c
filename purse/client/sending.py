"""Sending of calls, by an event loop or by blocking, with retries if sending a call twice is harmless.

A call is retried after a lost connection, and if an overloaded server says how long to wait. Everything above this
module is written once, as coroutines. Over a `Blocking` driver they never wait for an event loop, so `run` returns
their result at once: on any thread, and beside a running loop too.
"""

import asyncio
import re
import time
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeVar

import httpx

from purse.client.calls import PAGE_SIZE, Call, reader
from purse.client.events import FINISHED, EventStream
from purse.errors import ProblemError, Unreachable, problem
from purse.wire.base import Page
from purse.wire.jobs import JobEvent

T = TypeVar("T")

TIMEOUT: Final = 60.0  # seconds
_MAX_ATTEMPTS: Final = 4
_FIRST_PAUSE_SECONDS: Final = 0.2
_MAX_PAUSE_SECONDS: Final = 60.0  # a server that asks for a longer wait gets no retry
_ERROR_NUMBER: Final = re.compile(r"^\[Errno -?[0-9]+\] ")


class Driver(Protocol):
    """A carrier of requests."""

    async def request(self, method: str, path: str, **arguments: Any) -> httpx.Response:
        """Return the whole response."""

    def lines(self, call: Call[None], timeout: float) -> AbstractAsyncContextManager[AsyncIterator[str]]:
        """Open a response that is read line by line. Raise a `ProblemError` if the server refuses."""

    async def sleep(self, seconds: float) -> None:
        """Wait."""

    async def close(self) -> None:
        """Close the connections."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """A driver that waits by the running event loop."""

    http: httpx.AsyncClient

    async def request(self, method: str, path: str, **arguments: Any) -> httpx.Response:
        return await self.http.request(method, path, **arguments)

    @asynccontextmanager
    async def lines(self, call: Call[None], timeout: float) -> AsyncGenerator[AsyncIterator[str]]:
        async with self.http.stream(call.method, call.path, headers=dict(call.headers), timeout=timeout) as response:
            if response.is_error:
                await response.aread()
                _checked(call, response)
            yield response.aiter_lines()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def close(self) -> None:
        await self.http.aclose()


@dataclass(frozen=True, slots=True)
class Blocking:
    """A driver that blocks the thread: its coroutines never wait for an event loop."""

    http: httpx.Client

    async def request(self, method: str, path: str, **arguments: Any) -> httpx.Response:
        return self.http.request(method, path, **arguments)

    @asynccontextmanager
    async def lines(self, call: Call[None], timeout: float) -> AsyncGenerator[AsyncIterator[str]]:
        with self.http.stream(call.method, call.path, headers=dict(call.headers), timeout=timeout) as response:
            if response.is_error:
                response.read()
                _checked(call, response)
            yield _AsyncLines(response.iter_lines())

    async def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    async def close(self) -> None:
        self.http.close()


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """Return the result of a coroutine over a `Blocking` driver."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    coroutine.close()
    raise RuntimeError(
        "a coroutine over a blocking driver waited for an event loop. Only coroutines of this client can be run"
    )


def each(items: AsyncGenerator[T]) -> Iterator[T]:
    """Yield the items of an asynchronous generator over a `Blocking` driver."""
    try:
        while True:
            yield run(items.__anext__())
    except StopAsyncIteration:
        return
    finally:
        run(items.aclose())


def _no_answer(call: Call[Any], cause: str) -> str:
    """Return the error for a request without an answer, with the key that repeats it without a second charge."""
    reason = f"The server did not answer: {cause.rstrip('.')}. Check that it is running and that PURSE_URL is right."
    key = call.headers.get("Idempotency-Key")
    if key is None:
        return reason
    return f"{reason} The request may have been charged. To repeat it, send it with its idempotency key {key}."


@dataclass(frozen=True, slots=True)
class Sender:
    """Sends calls and reads their responses."""

    driver: Driver

    async def send(self, call: Call[T]) -> T:
        """Send one call, several times if it fails and is repeatable, and return its document."""
        delay, attempts = _FIRST_PAUSE_SECONDS, _MAX_ATTEMPTS if call.repeatable else 1
        while True:
            pause = delay
            attempts -= 1
            try:
                return _checked(call, await self.driver.request(call.method, call.path, **_arguments(call)))
            except httpx.UnsupportedProtocol as error:
                raise Unreachable(
                    "The server's address (PURSE_URL) must begin with http:// or https://, as in http://127.0.0.1:8000."
                ) from error
            except httpx.TransportError as error:
                if not attempts:
                    cause = _ERROR_NUMBER.sub("", str(error)) or type(error).__name__
                    raise Unreachable(_no_answer(call, cause)) from error
            except ProblemError as error:
                if not attempts:
                    raise
                pause = _requested_pause(error)
            await self.driver.sleep(pause)
            delay *= 2

    async def all(self, path: str, answer: type[Page[T]], **filters: str | None) -> list[T]:
        """Return every entry of a list, page by page, with its order and filters."""
        items: list[T] = []
        params = {name: value for name, value in filters.items() if value is not None} | {"limit": str(PAGE_SIZE)}
        while True:
            page = await self.send(Call("GET", path, reader(answer), params=params, repeatable=True))
            items += page.items
            if page.next is None:
                return items
            params = params | {"cursor": page.next}

    async def follow(self, stream: EventStream) -> AsyncGenerator[JobEvent]:
        """Yield a job's events until it is finished, through lost connections."""
        refusals = 0
        while True:
            try:
                async with self.driver.lines(stream.call(), stream.read_timeout()) as lines:
                    async for line in lines:
                        event = stream.feed(line)
                        if event is not None:
                            refusals = 0
                            yield event
                            if event.state in FINISHED:
                                return
            except httpx.TransportError:
                pass
            except ProblemError as error:
                refusals += 1
                if refusals == _MAX_ATTEMPTS:
                    raise
                await self.driver.sleep(min(_requested_pause(error), stream.read_timeout()))
            await self.driver.sleep(stream.lost())


@dataclass(frozen=True, slots=True)
class CallGroup:
    """Calls that belong together, such as those about jobs."""

    _sender: Sender


@dataclass(frozen=True, slots=True)
class _AsyncLines:
    """An iterator of lines as an asynchronous one."""

    lines: Iterator[str]

    def __aiter__(self) -> "_AsyncLines":
        return self

    async def __anext__(self) -> str:
        for line in self.lines:
            return line
        raise StopAsyncIteration


def _requested_pause(error: ProblemError) -> float:
    """Return the seconds that the server asks to wait. Raise the error if it does not ask, or asks for too long."""
    if error.retry_after is None or error.retry_after > _MAX_PAUSE_SECONDS:
        raise error
    return error.retry_after


def _arguments(call: Call[Any]) -> dict[str, Any]:
    """Return the keyword arguments of httpx's `request`."""
    arguments: dict[str, Any] = {"params": dict(call.params), "headers": dict(call.headers)}
    if call.timeout is not None:
        arguments["timeout"] = call.timeout
    if call.files is not None:  # the server encodes a large file before it answers
        return arguments | {"files": call.files, "timeout": httpx.Timeout(TIMEOUT, read=None)}
    return arguments | {"content": call.body}


def _checked(call: Call[T], response: httpx.Response) -> T:
    """Return the call's document. Raise a `ProblemError` if the server refused."""
    if not response.is_success:
        raise problem(response.status_code, response.content, response.headers.get("Retry-After"))
    return call.read(response.content)
