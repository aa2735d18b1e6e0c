"""A bounded number of places, for each caller and for all of them."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from app.http.errors import ApiError

_RETRY = {"Retry-After": "5"}


class Places:
    """Places on the event loop's thread alone.

    Parameters
    ----------
    what : what a place is for, as an error names it
    each : the most of one caller
    total : the most of all
    """

    def __init__(self, what: str, each: int, total: int) -> None:
        self._what, self._each, self._total = what, each, total
        self._taken: Counter[str] = Counter()
        self._all = 0

    def take(self, who: str) -> None:
        """One place more for `who`; `ApiError` too_many_requests or overloaded if there is none."""
        self.check(who)
        self._taken[who] += 1
        self._all += 1

    def check(self, who: str) -> None:
        """`ApiError` if there is no place for `who`."""
        if self._taken[who] >= self._each:
            detail = f"At most {self._each} {self._what} at once for one caller; try again when one of them is over."
            raise ApiError("too_many_requests", detail, headers=_RETRY)
        if self._all >= self._total:
            raise ApiError("overloaded", f"At most {self._total} {self._what} at once, of all callers.", headers=_RETRY)

    def leave(self, who: str) -> None:
        """One place less."""
        self._all -= 1
        self._taken[who] -= 1
        if not self._taken[who]:
            del self._taken[who]

    @contextmanager
    def taken(self, who: str) -> Iterator[None]:
        """A place of `who` inside the block."""
        self.take(who)
        try:
            yield
        finally:
            self.leave(who)
