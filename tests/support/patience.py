"""Waiting for a condition, with one long time limit."""

import asyncio
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

PATIENCE = 600.0  # seconds; only ends tests that hang, because a load of 20 slows a machine tenfold


def until(condition: Callable[[], T], within: float = PATIENCE) -> T:
    """Return the first true value of the condition; the intervals between its calls grow up to 0.3 seconds."""
    deadline, interval = time.monotonic() + within, 0.01
    while not (value := condition()):
        assert time.monotonic() < deadline, "waited too long"
        time.sleep(interval)
        interval = min(1.2 * interval, 0.3)
    return value


async def eventually(condition: Callable[[], bool]) -> None:
    """Return when the condition is true."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, "waited too long"
        await asyncio.sleep(0.01)
