"""Few calculations at once, equal ones together, fair between callers, and none that nobody waits for."""

import asyncio

import pytest

from accounting.filter import Filter
from accounting.privacy import Privacy
from app.calculation.calculators import Lost
from app.calculation.pool import EACH, TOTAL, Pool
from app.calculation.questions import ANSWER, Price, Refused
from app.http.errors import ApiError
from solvers import Problem, losses
from solvers.methods import DpGd
from solvers.solve import WorkLimits

pytestmark = pytest.mark.anyio
RULE = Filter.open("rdp", Privacy(3.0, 1e-6))


def question(number: int) -> Price:
    """Return a different question for each number."""
    problem = Problem(losses.Logistic(), n=1000 + number, d=5, row_norm=1.0)
    return Price(DpGd(), problem, Privacy(0.5, 1e-6), RULE, WorkLimits(1e11, 1000, 1e11))


class Calculators:
    """Calculators that count their questions and answer when their gate opens."""

    def __init__(self) -> None:
        self.questions: list[bytes] = []
        self.running = self.most_running = self.cancelled = 0
        self.gate = asyncio.Event()
        self.lost = False

    async def ask(self, text: bytes) -> bytes:
        self.questions.append(text)
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        try:
            await self.gate.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        finally:
            self.running -= 1
        if self.lost:
            raise Lost
        return ANSWER.dump_json(Refused("out_of_range", f"answer {len(self.questions)}"))


async def settled() -> None:
    """Wait until every task that can run has run."""
    for _ in range(20):
        await asyncio.sleep(0)


@pytest.fixture
def calculators() -> Calculators:
    return Calculators()


async def test_equal_questions_share_one_calculation_whose_answer_is_cached(calculators: Calculators) -> None:
    pool = Pool(calculators.ask, 2)
    tasks = [asyncio.create_task(pool.answer(f"caller {i}", question(0))) for i in range(50)]
    await settled()
    calculators.gate.set()
    assert len(set(await asyncio.gather(*tasks))) == 1
    assert await pool.answer("somebody else", question(0)) == tasks[0].result()
    assert len(calculators.questions) == 1
    assert await pool.answer("somebody else", question(1)) != tasks[0].result()
    assert len(calculators.questions) == 2


async def test_the_questions_of_one_caller_are_limited(calculators: Calculators) -> None:
    pool = Pool(calculators.ask, 2)
    tasks = [asyncio.create_task(pool.answer("greedy", question(i))) for i in range(EACH)]
    await settled()
    with pytest.raises(ApiError) as refused:
        await pool.answer("greedy", question(EACH))
    assert (refused.value.code, refused.value.status) == ("too_many_requests", 429)
    assert int((refused.value.headers or {})["Retry-After"]) > 0
    joined = asyncio.create_task(pool.answer("greedy", question(0)))  # which does not count
    calculators.gate.set()
    await asyncio.gather(joined, *tasks)
    await pool.answer("greedy", question(EACH))


async def test_the_questions_of_all_callers_are_limited(calculators: Calculators) -> None:
    pool = Pool(calculators.ask, 3)
    tasks = [asyncio.create_task(pool.answer(f"caller {i}", question(i))) for i in range(TOTAL)]
    await settled()
    assert calculators.running == 3
    with pytest.raises(ApiError) as refused:
        await pool.answer("one more", question(TOTAL))
    assert (refused.value.code, refused.value.status) == ("overloaded", 503)
    assert int((refused.value.headers or {})["Retry-After"]) > 0
    calculators.gate.set()
    await asyncio.gather(*tasks)
    assert calculators.most_running == 3
    assert len(calculators.questions) == TOTAL


async def test_a_later_caller_does_not_wait_for_all_questions_of_an_earlier_one(calculators: Calculators) -> None:
    pool = Pool(calculators.ask, 2)
    greedy = [asyncio.create_task(pool.answer("greedy", question(i))) for i in range(5)]
    await settled()
    assert calculators.running == 1, "a caller who has all other slots does not get the last one"
    modest = asyncio.create_task(pool.answer("modest", question(10)))
    await settled()
    assert calculators.running == 2
    calculators.gate.set()
    await asyncio.gather(modest, *greedy)


async def test_a_calculation_without_waiting_callers_is_stopped_and_frees_its_slot(calculators: Calculators) -> None:
    pool = Pool(calculators.ask, 2)
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


async def test_a_cancelled_question_never_runs(calculators: Calculators) -> None:
    pool = Pool(calculators.ask, 1)
    first = asyncio.create_task(pool.answer("ada", question(0)))
    second = asyncio.create_task(pool.answer("ada", question(1)))
    await settled()
    second.cancel()
    await settled()
    calculators.gate.set()
    await first
    await settled()
    assert len(calculators.questions) == 1


async def test_a_lost_calculation_may_be_requested_again(calculators: Calculators) -> None:
    pool = Pool(calculators.ask, 2)
    calculators.gate.set()
    calculators.lost = True
    with pytest.raises(ApiError) as refused:
        await pool.answer("ada", question(0))
    assert refused.value.code == "overloaded"
    calculators.lost = False
    assert await pool.answer("ada", question(0)) == Refused("out_of_range", "answer 2")
