"""Few calculations at once, equal ones together, fair between callers, and none that nobody waits for."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from accounting.filter import Filter
from accounting.privacy import Privacy
from app.calculation.calculators import Lost
from app.calculation.pool import EACH, TOTAL, Pool
from app.calculation.questions import ANSWER, Price, Refused
from app.http.errors import ApiError
from solvers import Problem, losses
from solvers.methods import DpGd

RULE = Filter.open("rdp", Privacy(3.0, 1e-6))


def question(number: int) -> Price:
    """Another one for each number."""
    problem = Problem(losses.Logistic(), n=1000 + number, d=5, row_norm=1.0)
    return Price(DpGd(), problem, Privacy(0.5, 1e-6), RULE, 1e11, 1000)


class Calculators:
    """Counts what it is asked, and answers when told to."""

    def __init__(self) -> None:
        self.asked: list[bytes] = []
        self.running = self.most = self.cancelled = 0
        self.gate = asyncio.Event()
        self.lost = False

    async def ask(self, text: bytes) -> bytes:
        self.asked.append(text)
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            await self.gate.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        finally:
            self.running -= 1
        if self.lost:
            raise Lost
        return ANSWER.dump_json(Refused("out_of_range", f"answer {len(self.asked)}"))


async def settled() -> None:
    """Everything that can go on has gone on."""
    for _ in range(20):
        await asyncio.sleep(0)


def run(scenario: Callable[[Calculators, Pool], Coroutine[Any, Any, None]], slots: int = 2) -> None:
    """A scenario on a loop of its own."""

    async def main() -> None:
        calculators = Calculators()
        await scenario(calculators, Pool(calculators.ask, slots))

    asyncio.run(main())


def test_equal_questions_share_one_calculation_and_its_answer_is_remembered() -> None:
    async def scenario(calculators: Calculators, pool: Pool) -> None:
        tasks = [asyncio.create_task(pool.answer(f"caller {i}", question(0))) for i in range(50)]
        await settled()
        calculators.gate.set()
        assert len(set(await asyncio.gather(*tasks))) == 1
        assert await pool.answer("somebody else", question(0)) == tasks[0].result()
        assert len(calculators.asked) == 1
        assert await pool.answer("somebody else", question(1)) != tasks[0].result()
        assert len(calculators.asked) == 2

    run(scenario)


def test_one_caller_has_so_many_and_no_more() -> None:
    async def scenario(calculators: Calculators, pool: Pool) -> None:
        tasks = [asyncio.create_task(pool.answer("greedy", question(i))) for i in range(EACH)]
        await settled()
        with pytest.raises(ApiError) as refused:
            await pool.answer("greedy", question(EACH))
        assert (refused.value.code, refused.value.status) == ("too_many_requests", 429)
        assert int((refused.value.headers or {})["Retry-After"]) > 0
        joined = asyncio.create_task(pool.answer("greedy", question(0)))  # which costs nothing
        calculators.gate.set()
        await asyncio.gather(joined, *tasks)
        await pool.answer("greedy", question(EACH))

    run(scenario)


def test_all_callers_together_have_so_many_and_no_more() -> None:
    async def scenario(calculators: Calculators, pool: Pool) -> None:
        tasks = [asyncio.create_task(pool.answer(f"caller {i}", question(i))) for i in range(TOTAL)]
        await settled()
        assert calculators.running == 3
        with pytest.raises(ApiError) as refused:
            await pool.answer("one more", question(TOTAL))
        assert (refused.value.code, refused.value.status) == ("overloaded", 503)
        assert int((refused.value.headers or {})["Retry-After"]) > 0
        calculators.gate.set()
        await asyncio.gather(*tasks)
        assert calculators.most == 3
        assert len(calculators.asked) == TOTAL

    run(scenario, slots=3)


def test_a_caller_who_comes_later_does_not_wait_for_all_of_the_first_ones() -> None:
    async def scenario(calculators: Calculators, pool: Pool) -> None:
        greedy = [asyncio.create_task(pool.answer("greedy", question(i))) for i in range(5)]
        await settled()
        assert calculators.running == 1, "the last slot is not for who has all others"
        modest = asyncio.create_task(pool.answer("modest", question(10)))
        await settled()
        assert calculators.running == 2
        calculators.gate.set()
        await asyncio.gather(modest, *greedy)

    run(scenario)


def test_what_nobody_waits_for_is_stopped_and_frees_its_place() -> None:
    async def scenario(calculators: Calculators, pool: Pool) -> None:
        tasks = [asyncio.create_task(pool.answer("ada", question(0))) for _ in range(2)]
        waiting = asyncio.create_task(pool.answer("ada", question(1)))
        await settled()
        tasks[0].cancel()
        await settled()
        assert (calculators.running, calculators.cancelled) == (1, 0), "the other one still waits"
        tasks[1].cancel()
        await settled()
        assert (calculators.running, calculators.cancelled) == (1, 1), "and the next one runs"
        waiting.cancel()
        await settled()
        assert calculators.running == 0
        later = [asyncio.create_task(pool.answer("ada", question(i))) for i in range(EACH)]
        await settled()
        calculators.gate.set()
        await asyncio.gather(*later)

    run(scenario)


def test_who_leaves_the_queue_never_runs() -> None:
    async def scenario(calculators: Calculators, pool: Pool) -> None:
        first = asyncio.create_task(pool.answer("ada", question(0)))
        second = asyncio.create_task(pool.answer("ada", question(1)))
        await settled()
        second.cancel()
        await settled()
        calculators.gate.set()
        await first
        await settled()
        assert len(calculators.asked) == 1

    run(scenario, slots=1)


def test_a_lost_calculation_may_be_asked_again() -> None:
    async def scenario(calculators: Calculators, pool: Pool) -> None:
        calculators.gate.set()
        calculators.lost = True
        with pytest.raises(ApiError) as refused:
            await pool.answer("ada", question(0))
        assert refused.value.code == "overloaded"
        calculators.lost = False
        assert await pool.answer("ada", question(0)) == Refused("out_of_range", "answer 2")

    run(scenario)
