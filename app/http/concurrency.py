"""Limits on the number of operations that run at once, for one caller and for all callers."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from app.http.errors import ApiError


class ConcurrencyLimit:
    """Limit on concurrent operations of one kind; used only on the event loop's thread.

    Parameters
    ----------
    operations : name of the operations in error messages
    each : largest number for one caller
    total : largest number for all callers
    """

    def __init__(self, operations: str, each: int, total: int) -> None:
        self._operations, self._each, self._total = operations, each, total
        self._running: Counter[str] = Counter()

    def take(self, caller: str) -> None:
        """Reserve a slot for the caller, or raise `ApiError` too_many_requests or overloaded."""
        self.check(caller)
        self._running[caller] += 1

    def check(self, caller: str) -> None:
        """Raise `ApiError` too_many_requests or overloaded if no slot is free for the caller."""
        if self._running[caller] >= self._each:
            detail = (
                f"You already have {self._each} {self._operations} running, which is the limit for one caller. "
                "Wait until one of them ends."
            )
            raise ApiError("too_many_requests", detail)
        if self._running.total() >= self._total:
            detail = f"The limit of {self._total} {self._operations} for all callers is reached. Try again later."
            raise ApiError("overloaded", detail)

    def leave(self, caller: str) -> None:
        """Release a slot of the caller."""
        self._running -= Counter((caller,))

    @contextmanager
    def slot(self, caller: str) -> Iterator[None]:
        """Hold a slot of the caller inside the block."""
        self.take(caller)
        try:
            yield
        finally:
            self.leave(caller)
