"""How long a test waits for what it has set going."""

import asyncio
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

PATIENCE = 600.0  # seconds: a guard against hanging and no expectation, since a load of 20 slows a machine tenfold


def until(what: Callable[[], T], within: float = PATIENCE) -> T:
    """What it returns, once that is true; asked less often the longer it takes, since asking takes time of its own."""
    deadline, rest = time.monotonic() + within, 0.01
    while not (found := what()):
        assert time.monotonic() < deadline, "waited too long"
        time.sleep(rest)
        rest = min(1.2 * rest, 0.3)
    return found


async def eventually(holds: Callable[[], bool]) -> None:
    """Returns once it holds."""
    deadline = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < deadline, "waited too long"
        await asyncio.sleep(0.01)
