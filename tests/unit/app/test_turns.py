"""Fair turns: the number of running pieces of work, and the caller of the next one."""

import asyncio

import pytest

from app.http.work import Turns

pytestmark = pytest.mark.anyio


async def _settled() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


class Work:
    """Pieces of work that run until `end_one` ends them; `ran` lists their callers in the order of their starts."""

    def __init__(self, slots: int, each: int) -> None:
        self.turns = Turns(slots, each)
        self.ran: list[str] = []
        self._ends: list[asyncio.Event] = []

    def begin(self, caller: str) -> "asyncio.Task[None]":
        return asyncio.create_task(self._work(caller))

    async def end_one(self) -> None:
        """End the piece that has run for the longest time."""
        self._ends.pop(0).set()
        await _settled()

    async def _work(self, caller: str) -> None:
        async with self.turns.slot(caller):
            self.ran.append(caller)
            end = asyncio.Event()
            self._ends.append(end)
            await end.wait()


async def test_a_caller_with_one_request_waits_for_one_turn_of_another_only() -> None:
    work = Work(slots=1, each=1)
    tasks = [work.begin("greedy") for _ in range(10)]
    await _settled()
    await work.end_one()
    tasks.append(work.begin("modest"))
    await _settled()
    await work.end_one()
    assert work.ran == ["greedy", "greedy", "modest"]
    tasks.append(work.begin("modest"))
    await _settled()
    await work.end_one()
    await work.end_one()
    assert work.ran[3:] == ["greedy", "modest"], "in turns"
    for task in tasks:
        task.cancel()


async def test_a_caller_at_its_limit_leaves_a_slot_free_for_another() -> None:
    work = Work(slots=2, each=1)
    tasks = [work.begin("greedy") for _ in range(10)]
    await _settled()
    assert work.ran == ["greedy"]
    tasks.append(work.begin("modest"))
    await _settled()
    assert work.ran == ["greedy", "modest"]
    for task in tasks:
        task.cancel()


async def test_a_cancelled_caller_frees_its_slot_or_its_place_in_the_queue() -> None:
    work = Work(slots=1, each=1)
    first, second, third = (work.begin("ada") for _ in range(3))
    await _settled()
    second.cancel()
    await _settled()
    first.cancel()
    await _settled()
    assert work.ran == ["ada", "ada"]
    third.cancel()
    await _settled()
    last = work.begin("eve")
    await _settled()
    assert work.ran[-1] == "eve"
    last.cancel()
