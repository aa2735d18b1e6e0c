"""The pool of calculations: few at once, fair between callers, one for equal questions, cancelled if nobody waits."""

import asyncio
import hashlib
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from app.calculation.calculators import Lost
from app.calculation.questions import ANSWER, QUESTION, Answer, Question, Refused
from app.http.errors import ApiError
from app.http.rates import Recent
from app.http.work import ConcurrencyLimit, Turns

EACH, TOTAL = 8, 64  # calculations that run or wait, of one caller and of all
A = TypeVar("A")
_MOST_CACHED = 2048  # answers of a few kilobytes each


def accepted(answer: Answer, kind: type[A]) -> A:
    """Return an answer of this kind. Raise an `ApiError` if the question was refused."""
    if isinstance(answer, Refused):
        raise ApiError(answer.code, answer.detail)
    assert isinstance(answer, kind)
    return answer


@dataclass(slots=True)
class _Flight:
    """A calculation, and the number of callers that wait for it."""

    task: asyncio.Task[Answer]
    waiting: int = 0


class Pool:
    """A pool that answers questions; to be used on the event loop alone.

    Parameters
    ----------
    ask : calculates one answer in another process; may be cancelled
    slots : number of calculations at once; if it exceeds one, a caller that has all others never gets the last slot
    priced : called after each answer with its duration in seconds, or None if it was cached
    """

    def __init__(
        self,
        ask: Callable[[bytes], Awaitable[bytes]],
        slots: int,
        priced: Callable[[float | None], None] = lambda _: None,
    ) -> None:
        self._ask, self._priced = ask, priced
        self._turns = Turns(slots, each=max(1, slots - 1))
        self._concurrency = ConcurrencyLimit("calculations", EACH, TOTAL)
        self._cache = Recent[Answer](_MOST_CACHED)
        self._flights: dict[str, _Flight] = {}

    def check(self, caller: str) -> None:
        """Raise `ApiError` if the caller may not begin another calculation; a cheap check before the body is read."""
        self._concurrency.check(caller)

    async def answer(self, caller: str, question: Question) -> Answer:
        """Return the answer, calculated once for all callers that wait, and cancelled when all of them have left.

        Raises
        ------
        ApiError
            too_many_requests, overloaded.
        """
        text = QUESTION.dump_json(question)
        key = hashlib.sha256(text).hexdigest()  # a question with a sample may have megabytes
        cached = self._cache.get(key)
        if cached is not None:
            self._cache.put(key, cached)  # so that the answers used last remain
            self._priced(None)
            return cached
        flight = self._flights.get(key)
        if flight is None:
            self._concurrency.take(caller)
            flight = self._flights[key] = _Flight(asyncio.create_task(self._calculate(caller, text, key)))
            flight.task.add_done_callback(lambda _: self._concurrency.leave(caller))
        flight.waiting += 1
        try:
            return await asyncio.shield(flight.task)
        except Lost:
            raise ApiError(
                "overloaded", "The calculation was interrupted. Try again.", headers={"Retry-After": "1"}
            ) from None
        finally:
            flight.waiting -= 1
            if not flight.waiting:
                flight.task.cancel()
                if self._flights.get(key) is flight:
                    del self._flights[key]

    async def _calculate(self, caller: str, text: bytes, key: str) -> Answer:
        async with self._turns.slot(caller):
            began = time.monotonic()
            result = ANSWER.validate_json(await self._ask(text))
            self._priced(time.monotonic() - began)
        self._cache.put(key, result)
        return result
