"""Sending calls, by an event loop or by blocking; tried again where that cannot do anything twice.

That is when a connection is lost, and when a server that has too much to do says how long to wait.

Everything above is written once, as coroutines. Over a `Blocking` driver these never wait for an event loop, so `run`
has their result at once, on any thread, beside a running loop too.
"""

import asyncio
import re
import time
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeVar

import httpx

from purse.client.calls import Call, Upload, at, page
from purse.client.events import FINISHED, EventStream
from purse.errors import ClientError, ProblemError, Unreachable, problem
from purse.wire.base import Page
from purse.wire.datasets import Dataset
from purse.wire.jobs import JobEvent

T = TypeVar("T")

TIMEOUT: Final = 60.0
_ATTEMPTS: Final = 4
_ERROR_NUMBER = re.compile(r"^\[Errno -?[0-9]+\] ")
_LONGEST: Final = 60.0  # seconds that a server may have us wait before each of them


class Driver(Protocol):
    """What carries a request."""

    async def request(self, method: str, path: str, **arguments: Any) -> httpx.Response:
        """The whole response."""
        ...

    def lines(self, call: Call[None], timeout: float) -> AbstractAsyncContextManager[AsyncIterator[str]]:
        """A response as it comes, line by line; `ProblemError` if the server refused."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Waits."""
        ...

    async def close(self) -> None:
        """Closes the connections."""
        ...


@dataclass(frozen=True, slots=True)
class Waiting:
    """By the running event loop."""

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
    """By blocking the thread: its coroutines never wait."""

    http: httpx.Client

    async def request(self, method: str, path: str, **arguments: Any) -> httpx.Response:
        return self.http.request(method, path, **arguments)

    @asynccontextmanager
    async def lines(self, call: Call[None], timeout: float) -> AsyncGenerator[AsyncIterator[str]]:
        with self.http.stream(call.method, call.path, headers=dict(call.headers), timeout=timeout) as response:
            if response.is_error:
                response.read()
                _checked(call, response)
            yield _Lines(response.iter_lines())

    async def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    async def close(self) -> None:
        self.http.close()


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine over a `Blocking` driver."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    coroutine.close()
    raise RuntimeError("a blocking driver never waits")


def each(items: AsyncGenerator[T]) -> Iterator[T]:
    """The items of an asynchronous generator over a `Blocking` driver."""
    try:
        while True:
            yield run(items.__anext__())
    except StopAsyncIteration:
        return
    finally:
        run(items.aclose())


@dataclass(frozen=True, slots=True)
class Sender:
    """Sends calls and reads what comes back."""

    driver: Driver

    async def send(self, call: Call[T]) -> T:
        """The answer to one call."""
        delay, left = 0.2, _ATTEMPTS if call.repeatable else 1
        while True:
            pause = delay
            try:
                return _checked(call, await self.driver.request(call.method, call.path, **_arguments(call)))
            except httpx.TransportError as error:
                left -= 1
                if not left:
                    reason = _ERROR_NUMBER.sub("", str(error)) or type(error).__name__
                    raise Unreachable(
                        f"no answer from the server: {reason}. Check that it runs and that PURSE_URL is right."
                    ) from error
            except ProblemError as error:
                left -= 1
                if not left:
                    raise
                pause = _patience(error)
            await self.driver.sleep(pause)
            delay *= 2

    async def all(self, path: str, answer: type[Page[T]], **said: str | None) -> list[T]:
        """Every entry of a list, page by page; of those that suit all that is said."""
        items: list[T] = []
        cursor: str | None = None
        while True:
            found = await self.send(page(path, answer, cursor, said))
            items += found.items
            cursor = found.next
            if cursor is None:
                return items

    async def of(self, dataset: Dataset | str, *parts: str) -> str:
        """The path of something of a dataset, which may be named as people do."""
        return at("datasets", await self.identify(dataset), *parts)

    async def identify(self, dataset: Dataset | str) -> str:
        """The id of the dataset: itself, or the one of this name.

        Raises
        ------
        ProblemError
            not_found, if there is none of this name.
        ClientError
            if there are several.
        """
        if not isinstance(dataset, str):
            return dataset.id
        if dataset.startswith("ds_"):
            return dataset
        named = await self.all(at("datasets"), Page[Dataset], name=dataset)
        found = [known.id for known in named if known.name == dataset]
        if not found:
            raise ProblemError("not_found", 404, f"no dataset that this token may see is named {dataset!r}")
        if len(found) > 1:
            raise ClientError(f"{len(found)} datasets are named {dataset!r}; say which by its id: {', '.join(found)}")
        return found[0]

    async def follow(self, stream: EventStream) -> AsyncGenerator[JobEvent]:
        """A job's events until it is finished, through lost connections."""
        refused = 0
        while True:
            try:
                async with self.driver.lines(stream.call(), stream.read_timeout()) as lines:
                    async for line in lines:
                        event = stream.feed(line)
                        if event is not None:
                            refused = 0
                            yield event
                            if event.state in FINISHED:
                                return
            except httpx.TransportError:
                pass
            except ProblemError as error:
                refused += 1
                if refused == _ATTEMPTS:
                    raise
                await self.driver.sleep(min(_patience(error), stream.read_timeout()))
            await self.driver.sleep(stream.lost())


@dataclass(frozen=True, slots=True)
class _Lines:
    lines: Iterator[str]

    def __aiter__(self) -> "_Lines":
        return self

    async def __anext__(self) -> str:
        for line in self.lines:
            return line
        raise StopAsyncIteration


def _patience(error: ProblemError) -> float:
    """How long the server asks to wait; the error itself if it does not, or asks for too much."""
    if error.retry_after is None or error.retry_after > _LONGEST:
        raise error
    return error.retry_after


def _arguments(call: Call[Any]) -> dict[str, Any]:
    """The keyword arguments of httpx's `request`."""
    arguments: dict[str, Any] = {"params": dict(call.params), "headers": dict(call.headers)}
    if call.timeout is not None:
        arguments["timeout"] = call.timeout
    return arguments | ({"content": call.body} if call.upload is None else _multipart(call.upload))


def _checked(call: Call[T], response: httpx.Response) -> T:
    """The call's answer; `ProblemError` if the server refused it."""
    if not response.is_success:
        raise problem(response.status_code, response.content, response.headers.get("Retry-After"))
    return call.read(response.content)


def _multipart(upload: Upload) -> dict[str, Any]:
    part = "upload" if isinstance(upload.file, str) else "file"
    return {
        "files": {"spec": (None, upload.spec), part: (upload.name, upload.file, upload.media_type)},
        # encoding a large file takes the server longer than any other answer
        "timeout": httpx.Timeout(TIMEOUT, read=None),
    }
