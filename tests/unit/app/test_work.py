"""The server's work for a request: one piece at a time of one caller, and charged by what it has cost."""

import asyncio
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from starlette.types import ASGIApp, Receive, Scope, Send

from app.http.rates import CALLER, RateLimiter
from app.http.work import BYTES_EACH, SECONDS_EACH, RequestAccount, Turns, charged_to, in_turn, in_turns
from app.settings import Settings

pytestmark = pytest.mark.anyio
QUOTA = 50 * 10  # of an address, with the default settings
WHERE: Scope = {"type": "http", "path": "/", "headers": [], "client": ("192.0.2.7", 1)}


def _busy(pieces: int) -> None:
    began = time.thread_time()
    while time.thread_time() - began < pieces * SECONDS_EACH:
        pass


async def _remaining(limited: RateLimiter, request: Scope = WHERE) -> int:
    """Return the number of remaining requests in the `RateLimit` header of a response."""
    headers: dict[bytes, bytes] = {}

    async def send(message: Any) -> None:
        if message["type"] == "http.response.start":
            headers.update(message["headers"])

    await limited(dict(request), asyncio.sleep, send)  # type: ignore[arg-type]
    return int(headers[b"ratelimit"].partition(b"r=")[2].partition(b";")[0])


def _answering(size: int, pieces: int) -> ASGIApp:
    async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
        await in_turn(_busy, pieces)
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": bytes(size)})

    return app


def test_a_request_is_charged_its_cost_and_at_least_one() -> None:
    charged: list[float] = []
    account = RequestAccount("ada", Turns(1, 1), charged.append)
    account.add(seconds=0.4 * SECONDS_EACH, size=BYTES_EACH // 2)
    assert not charged, "the first request was charged at admission"
    account.add(size=BYTES_EACH)
    account.add(seconds=2 * SECONDS_EACH)
    assert abs(sum(charged) - 2.9) < 1e-9


async def test_the_rate_of_a_caller_pays_for_processor_time() -> None:
    limited = RateLimiter(_answering(10, pieces=20), Settings(), clock=lambda: 0.0)
    assert await _remaining(limited) <= QUOTA - 20, "the same response states it"


async def test_the_rate_of_a_caller_pays_for_the_bytes_of_an_answer() -> None:
    limited = RateLimiter(_answering(30 * BYTES_EACH, pieces=0), Settings(), clock=lambda: 0.0)
    await _remaining(limited)
    assert await _remaining(limited) <= QUOTA - 30


async def test_others_at_an_address_do_not_see_the_cost_of_an_identity() -> None:
    """The first request with a valid token is admitted for its address, and its cost may depend on records."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] == "/upload":
            scope[CALLER] = "id_ada"
        await _answering(30 * BYTES_EACH if scope["path"] == "/upload" else 10, pieces=0)(scope, receive, send)

    async def ignore(_message: Any) -> None:
        pass

    limited = RateLimiter(app, Settings(), clock=lambda: 0.0)
    ada: Scope = {**WHERE, "headers": [(b"authorization", b"Bearer ada")]}
    await limited({**ada, "path": "/upload"}, asyncio.sleep, ignore)  # type: ignore[arg-type]
    assert await _remaining(limited) == QUOTA - 2
    quota = Settings().caller_rate * 10
    assert await _remaining(limited, ada) <= quota - 30


async def test_a_cancelled_caller_keeps_its_slot_until_its_thread_ends() -> None:
    began, end, turns = threading.Event(), threading.Event(), Turns(1, 1)

    def hold() -> None:
        began.set()
        end.wait()

    with charged_to(RequestAccount("ada", turns, lambda _: None)):
        first = asyncio.create_task(in_turn(hold))
        await asyncio.to_thread(began.wait)
        first.cancel()
        second = asyncio.create_task(in_turn(lambda: "done"))
        await asyncio.sleep(0.05)
        assert first.cancelled()
        assert not second.done()
        end.set()
        assert await second == "done"


async def test_each_piece_of_a_stream_is_made_in_a_turn_and_charged() -> None:
    charged: list[float] = []

    def pieces() -> Iterator[bytes]:
        for piece in (b"a", b"b"):
            _busy(2)
            yield piece

    with charged_to(RequestAccount("ada", Turns(1, 1), charged.append)):
        assert [piece async for piece in in_turns(pieces())] == [b"a", b"b"]
    assert sum(charged) >= 3
