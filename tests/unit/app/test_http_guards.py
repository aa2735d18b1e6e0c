"""A body that keeps the service waiting, whoever reads it."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from starlette.types import Message, Receive, Scope, Send

from app.http.errors import ApiError
from app.http.guards import BYTES_A_SECOND, Guarded

SCOPE: Scope = {"type": "http", "method": "POST", "path": "/", "query_string": b"", "headers": []}


async def _pieces(pieces: list[tuple[float, int]]) -> AsyncIterator[Message]:
    """Bodies of so many bytes, each after so many seconds."""
    for seconds, size in pieces:
        await asyncio.sleep(seconds)
        yield {"type": "http.request", "body": b"x" * size, "more_body": True}
    yield {"type": "http.request", "body": b"", "more_body": False}


def _read(pieces: list[tuple[float, int]], seconds: float) -> int:
    """How many bytes arrive in an application that reads all of them."""
    read = 0

    async def application(_scope: Scope, receive: Receive, _send: Send) -> None:
        nonlocal read
        while True:
            message = await receive()
            read += len(message["body"])
            if not message["more_body"]:
                return

    async def main() -> None:
        coming = _pieces(pieces)

        async def receive() -> Message:
            return await anext(coming)

        async def send(_message: Any) -> None:
            raise AssertionError("nothing is said here")

        await Guarded(application, seconds)(dict(SCOPE), receive, send)

    asyncio.run(main())
    return read


def test_a_body_that_does_not_come_is_not_waited_for() -> None:
    with pytest.raises(ApiError, match="request_timeout"):
        _read([(30.0, 1)], 0.05)


@pytest.mark.slow
def test_a_body_that_drips_is_not_waited_for() -> None:
    """Each piece in time, and too little of it."""
    with pytest.raises(ApiError, match="request_timeout"):
        _read([(0.02, 1)] * 1000, 0.2)


@pytest.mark.slow
def test_a_body_that_flows_may_take_longer() -> None:
    pieces = [(0.02, BYTES_A_SECOND)] * 100
    assert _read(pieces, 1.5) == 100 * BYTES_A_SECOND


def test_a_fast_start_of_a_body_does_not_allow_a_long_pause() -> None:
    with pytest.raises(ApiError, match="request_timeout"):
        _read([(0.0, 1000 * BYTES_A_SECOND), (30.0, 1)], 0.1)
