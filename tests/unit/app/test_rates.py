"""Buckets: what they admit, over any times of asking; and how many requests of one are under way."""

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.types import Receive, Scope, Send

from app.http.rates import WINDOW, Buckets, RateLimiter, Recent
from app.settings import Settings

RATES = st.integers(1, 10**6)
GAPS = st.lists(st.floats(0.0, 3.0), min_size=1, max_size=200)


@given(RATES, GAPS)
def test_a_bucket_admits_its_rate_and_a_burst_of_ten_seconds(rate: int, gaps: list[float]) -> None:
    buckets, now, admitted = Buckets(rate), 1e5, 0
    for gap in gaps:
        now += gap
        admission = buckets.take("ada", now)
        admitted += not admission.wait_seconds
        assert admitted <= rate * (WINDOW + now - 1e5) + 1e-3 * rate
        assert 0 <= admission.remaining <= buckets.quota
        assert 0.0 <= admission.full_seconds <= WINDOW * (1 + 1e-6)


@given(st.integers(1, 50), GAPS)
def test_a_caller_who_waits_as_requested_is_admitted(rate: int, gaps: list[float]) -> None:
    buckets, now = Buckets(rate), 1e5
    for gap in gaps:
        now += gap
        for _ in range(3):
            admission = buckets.take("ada", now)
            if admission.wait_seconds:
                now += admission.wait_seconds + 1e-9
                assert not buckets.take("ada", now).wait_seconds


def test_a_full_bucket_admits_its_quota_and_then_refuses() -> None:
    buckets = Buckets(3)
    admissions = [buckets.take("ada", 0.0) for _ in range(31)]
    assert [admission.remaining for admission in admissions] == [*range(29, -1, -1), 0]
    assert [bool(admission.wait_seconds) for admission in admissions] == [False] * 30 + [True]
    assert not buckets.take("eve", 0.0).wait_seconds, "each caller has a bucket"


def test_a_caller_waits_until_the_cost_of_its_requests_is_refilled() -> None:
    buckets = Buckets(10)
    assert not buckets.take("ada", 0.0).wait_seconds
    assert buckets.charge("ada", 149.0, 0.0).remaining == 0, "the charge exceeds the quota by fifty"
    refused = buckets.take("ada", 0.0)
    assert abs(refused.wait_seconds - 5.1) < 1e-6
    assert buckets.take("ada", 5.0).wait_seconds
    assert not buckets.take("ada", 5.2).wait_seconds
    assert not buckets.take("eve", 0.0).wait_seconds, "callers pay for their own requests only"


def test_tables_do_not_grow() -> None:
    table = Recent[int](capacity=3)
    for number in range(5):
        table.put(str(number), number)
        table.put("0", 0)
    assert [table.get(str(number)) for number in range(5)] == [0, None, None, 3, 4]


@pytest.mark.anyio
async def test_the_simultaneous_requests_of_one_caller_are_limited() -> None:
    statuses: list[tuple[str, int]] = []

    release = asyncio.Event()

    async def slow(_scope: Scope, _receive: Receive, send: Send) -> None:
        await release.wait()
        await send({"type": "http.response.start", "status": 200, "headers": []})

    limited = RateLimiter(slow, Settings(max_requests=2))

    async def ask(host: str) -> None:
        async def send(message: Any) -> None:
            if message["type"] == "http.response.start":
                statuses.append((host, message["status"]))

        scope = {"type": "http", "path": "/", "headers": [], "client": (host, 1)}
        await limited(scope, asyncio.sleep, send)  # type: ignore[arg-type]

    asking = [asyncio.create_task(ask(host)) for host in ("2001:db8::1", "2001:db8::2", "2001:db8::3", "::1")]
    await asyncio.sleep(0.01)
    assert statuses == [("2001:db8::3", 429)], "a network of addresses counts as one caller"
    release.set()
    await asyncio.gather(*asking)
    await ask("2001:db8::3")
    assert sorted(status for _, status in statuses) == [200, 200, 200, 200, 429]
