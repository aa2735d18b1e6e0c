"""Work of several threads that begin together."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from tests.support.patience import PATIENCE

T = TypeVar("T")


def at_once(count: int, work: Callable[[int], T]) -> list[T]:
    """Return the results of the work with the numbers 0, 1, ..., each on a thread of its own."""
    barrier = threading.Barrier(count, timeout=PATIENCE)

    def begin(number: int) -> T:
        barrier.wait()
        return work(number)

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(begin, range(count)))
