"""Who may calculate when: few at once, equal questions together, fair between callers, forgotten when nobody waits."""

import asyncio
import hashlib
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from app.calculation.calculators import Lost
from app.calculation.questions import ANSWER, QUESTION, Answer, Question
from app.http.errors import ApiError
from app.http.places import Places
from app.http.turns import Turns

EACH, TOTAL = 8, 64  # calculations that run or wait, of one caller and of all
_REMEMBERED = 2048  # answers; a few kilobytes each


@dataclass(slots=True)
class _Flight:
    """One calculation, and how many wait for it."""

    task: asyncio.Task[Answer]
    waiting: int = 0


class Pool:
    """Answers to questions; on the event loop alone.

    Parameters
    ----------
    ask : calculates one answer, elsewhere; may be cancelled
    slots : how many calculations at once; if there are more than one, the last is never given to a caller who has
        all others
    priced : told of each answer, with the seconds that it took; None for one that was remembered
    """

    def __init__(
        self,
        ask: Callable[[bytes], Awaitable[bytes]],
        slots: int,
        priced: Callable[[float | None], None] = lambda _: None,
    ) -> None:
        self._ask, self._priced = ask, priced
        self._turns = Turns(slots, each=max(1, slots - 1))
        self._places = Places("calculations", EACH, TOTAL)
        self._known: OrderedDict[bytes, Answer] = OrderedDict()
        self._flights: dict[bytes, _Flight] = {}

    def check(self, who: str) -> None:
        """`ApiError` if `who` may not begin another calculation now: cheap, and asked before anything is read."""
        self._places.check(who)

    async def answer(self, who: str, question: Question) -> Answer:
        """The answer, calculated once however many ask for it; stopped when all of them have left.

        Raises
        ------
        ApiError
            too_many_requests, overloaded.
        """
        text = QUESTION.dump_json(question)
        key = hashlib.sha256(text).digest()  # a question may hold a sample: megabytes
        known = self._known.get(key)
        if known is not None:
            self._known.move_to_end(key)
            self._priced(None)
            return known
        flight = self._flights.get(key)
        if flight is None:
            self._places.take(who)
            flight = self._flights[key] = _Flight(asyncio.create_task(self._calculate(who, text, key)))
            flight.task.add_done_callback(lambda _: self._places.leave(who))
        flight.waiting += 1
        try:
            return await asyncio.shield(flight.task)
        except Lost:
            raise ApiError("overloaded", "The calculation was lost.", headers={"Retry-After": "1"}) from None
        finally:
            flight.waiting -= 1
            if not flight.waiting:
                flight.task.cancel()
                if self._flights.get(key) is flight:
                    del self._flights[key]

    async def _calculate(self, who: str, text: bytes, key: bytes) -> Answer:
        async with self._turns.taken(who):
            began = time.monotonic()
            found = ANSWER.validate_json(await self._ask(text))
            self._priced(time.monotonic() - began)
        self._known[key] = found
        if len(self._known) > _REMEMBERED:
            self._known.popitem(last=False)
        return found
