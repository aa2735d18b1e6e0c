"""The process that calculates: the same answers as here, an end to everything, and nothing in it worth taking."""

import asyncio
import itertools
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, get_args

import httpx
import psutil
import pytest

from accounting.filter import Filter
from accounting.privacy import Privacy
from app.calculation.calculators import CalculatingProcess, ForkedCalculators, Lost, begin
from app.calculation.pool import EACH
from app.calculation.questions import (
    ANSWER,
    QUESTION,
    Answer,
    CalculatedPrice,
    Price,
    Question,
    Recompute,
    Refused,
    answer,
)
from solvers import Problem, domains, losses, regularizers
from solvers.methods import DpGd, Method, NoisyMirrorDescent
from solvers.solve import WorkLimits
from tests.support.kept import kept
from tests.support.live import Live, live
from tests.support.patience import PATIENCE, eventually
from tests.support.service import JOB, SPEC, people

T = TypeVar("T")
ROOT = Path(__file__).parents[2]
RULE = Filter.open("rdp", Privacy(3.0, 1e-6))
SMALL = Problem(
    losses.Squared(), regularizer=regularizers.L2(0.1), domain=domains.L2Ball(1.0), n=100_000, d=2, row_norm=1.0
)
SECONDS = 2
DEAR_JOB = {
    "method": {"name": "noisy_mirror_descent", "passes": 8, "batch": 1, "form": "ordered"},
    "privacy": {"epsilon": 18.0},
}
_numbers = itertools.count()


def price(method: Method, problem: Problem = SMALL, epsilon: float = 0.5) -> Price:
    return Price(method, problem, Privacy(epsilon, 1e-6), RULE, WorkLimits(1e11, 200_000, 1e11))


# Seconds of arithmetic, several times SECONDS on any machine: 100,000 slots whose rare jumps decide.
DEAR = price(
    NoisyMirrorDescent(passes=2, batch=2, form="ordered"),
    Problem(losses.Logistic(), n=200_000, d=10, row_norm=1.0),
    50.0,
)


@pytest.fixture(scope="module")
def forker() -> CalculatingProcess:
    os.environ["PURSE_SECRET"] = "canary4711"
    forker = begin()
    del os.environ["PURSE_SECRET"]
    return forker


@pytest.fixture(scope="module")
def calculators(forker: CalculatingProcess) -> Iterator[ForkedCalculators]:
    started = ForkedCalculators(SECONDS, forker)
    assert started.is_warm()
    yield started
    started.close()


@pytest.fixture(scope="module")
def process(forker: CalculatingProcess) -> psutil.Process:
    """The process that forks a child for each question to `calculators`."""
    return psutil.Process(forker.process.pid)


async def reply_to(calculators: ForkedCalculators, question: Question) -> Answer:
    return ANSWER.validate_json(await calculators.ask(QUESTION.dump_json(question)))


@pytest.mark.slow
@pytest.mark.parametrize("method", get_args(Method), ids=lambda method: str(method.__name__))
def test_every_question_and_every_answer_survives_serialisation(method: type[Any]) -> None:
    question = price(method())
    assert QUESTION.validate_json(QUESTION.dump_json(question)) == question
    if method is NoisyMirrorDescent:
        return  # dear; its answer has the same fields
    reply = answer(question)
    assert ANSWER.validate_json(ANSWER.dump_json(reply)) == reply


@pytest.mark.slow
def test_the_process_answers_as_we_would(calculators: ForkedCalculators) -> None:
    for question in (
        price(DpGd()),
        replace(price(DpGd()), limits=WorkLimits(1e11, 1, 1e11)),
        Recompute({"epsilon": 1}),
    ):
        ours, theirs = answer(question), asyncio.run(reply_to(calculators, question))
        assert type(theirs) is type(ours)
        if isinstance(ours, CalculatedPrice) and isinstance(theirs, CalculatedPrice):
            assert (theirs.planned, theirs.cost) == (ours.planned, ours.cost)
        else:
            assert theirs == ours


@pytest.mark.slow
def test_a_calculation_that_takes_too_long_is_refused_with_the_limit(calculators: ForkedCalculators) -> None:
    refusal = asyncio.run(reply_to(calculators, DEAR))
    assert isinstance(refusal, Refused)
    assert refusal.code == "out_of_range"
    assert f"{SECONDS} CPU seconds" in refusal.detail


@pytest.mark.slow
@pytest.mark.anyio
async def test_a_calculation_ends_when_its_caller_leaves(
    calculators: ForkedCalculators, process: psutil.Process
) -> None:
    task = asyncio.create_task(reply_to(calculators, DEAR))
    await eventually(lambda: len(process.children()) == 1)
    task.cancel()
    await eventually(lambda: not process.children())


@pytest.mark.anyio
async def test_only_a_killed_calculation_is_lost(calculators: ForkedCalculators, process: psutil.Process) -> None:
    task = asyncio.create_task(reply_to(calculators, DEAR))
    await eventually(lambda: len(process.children()) == 1)
    process.children()[0].kill()
    with pytest.raises(Lost):
        await task
    assert isinstance(await reply_to(calculators, price(DpGd())), CalculatedPrice)


@pytest.mark.slow
def test_a_process_that_is_killed_is_replaced_before_and_after_it_is_warm(monkeypatch: pytest.MonkeyPatch) -> None:
    processes = [begin()]

    def begin_another() -> CalculatingProcess:
        processes.append(begin())
        return processes[-1]

    monkeypatch.setattr("app.calculation.calculators.begin", begin_another)
    started = ForkedCalculators(SECONDS, processes[0])
    try:
        processes[0].process.kill()
        assert not started.is_warm(), "the next attempt begins another one"
        assert started.is_warm()
        processes[1].process.kill()
        processes[1].process.wait()
        assert isinstance(asyncio.run(reply_to(started, price(DpGd()))), CalculatedPrice)
        assert len(processes) == 3
    finally:
        started.close()
    assert not started.is_warm(), "after close, no process is started"


@pytest.mark.parametrize("is_warm", [False, True])
def test_the_process_ends_without_a_stack_trace_when_its_server_is_killed(is_warm: bool) -> None:
    """The process may write to a closed channel, or read from one whose other end has unread bytes."""
    script = f"""
import os, signal, socket
from app.calculation.calculators import begin
process = begin()
if {is_warm}:
    process.channel.recv(1, socket.MSG_PEEK)
os.kill(os.getpid(), signal.SIGKILL)
"""
    killed = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=False, timeout=PATIENCE
    )  # returns once the calculating process has closed the standard error that it inherited
    assert killed.stderr == ""


@pytest.mark.usefixtures("calculators")
def test_it_has_one_thread_no_setting_and_no_file_of_ours(process: psutil.Process) -> None:
    assert process.num_threads() == 1, "forking is safe"
    assert not [name for name in process.environ() if name.startswith("PURSE_")]
    assert "canary4711" not in " ".join(process.cmdline())
    assert process.open_files() == []


class Server(NamedTuple):
    """A real server, and the process that forks a child for each of its calculations."""

    live: Live
    process: psutil.Process

    def caller(self, token: str | None = None) -> httpx.AsyncClient:
        headers = {"Authorization": f"Bearer {token or self.live.token}"}
        return httpx.AsyncClient(base_url=self.live.url, headers=headers, timeout=PATIENCE)

    def number_of_calculations(self) -> int:
        return len(self.process.children())


@pytest.fixture(scope="module")
def server(
    tmp_path_factory: pytest.TempPathFactory,
    calculators: ForkedCalculators,  # noqa: ARG001, waits until the process is warm
    forker: CalculatingProcess,
    process: psutil.Process,
) -> Iterator[Server]:
    with live(tmp_path_factory.mktemp("live"), ForkedCalculators(20, kept(forker))) as running:
        yield Server(running, process)


async def _dataset(steward: httpx.AsyncClient) -> str:
    """Register a new dataset that is large enough to make DEAR_JOB expensive."""
    spec = SPEC | {"name": f"people {next(_numbers)}", "budget": {"epsilon": 100.0, "delta": 1e-6}}
    files = {"file": ("people.csv", people(20_000 + next(_numbers)))}
    response = await steward.post("/v1/datasets", data={"spec": json.dumps(spec)}, files=files)
    return str(response.json()["id"])


@pytest.mark.slow
@pytest.mark.anyio
async def test_the_service_answers_while_one_analyst_requests_expensive_prices(server: Server) -> None:
    """Otherwise 42 such quotes block every answer for 70 s."""

    async with server.caller() as steward:
        dataset = await _dataset(steward)
        token = (await steward.post("/v1/tokens", json={"name": "greedy", "role": "analyst"})).json()["token"]
        await steward.put(f"/v1/datasets/{dataset}/grants/greedy")
        async with server.caller(token) as greedy:
            quotes = [JOB | DEAR_JOB | {"dataset": dataset, "row_norm": 1 - i / 100} for i in range(EACH + 4)]
            asking = [asyncio.create_task(greedy.post("/v1/quotes", json=quote)) for quote in quotes]
            await eventually(lambda: server.number_of_calculations() > 0 and sum(task.done() for task in asking) >= 4)
            for _ in range(10):
                for public in ("/health/live", "/health/ready", f"/v1/datasets/{dataset}/budget"):
                    assert (await steward.get(public)).status_code == 200
            assert not all(task.done() for task in asking), "all of that while prices are calculated"
            assert server.number_of_calculations() <= 1, "and one slot is left for the others"
            cheap = await steward.post("/v1/quotes", json=JOB | {"dataset": dataset})
            assert cheap.status_code == 200
            refused = [task.result() for task in asking if task.done() and task.result().status_code == 429]
            assert len(refused) == 4
            for response in refused:
                assert response.json()["code"] == "too_many_requests"
                assert int(response.headers["Retry-After"]) > 0
            for task in asking:
                task.cancel()
            await eventually(lambda: server.number_of_calculations() == 0)  # who leaves takes the calculations along


@pytest.mark.slow
@pytest.mark.anyio
async def test_a_job_whose_caller_disconnects_during_pricing_is_not_submitted(server: Server) -> None:
    async with server.caller() as steward:
        dataset = await _dataset(steward)
        task = asyncio.create_task(steward.post("/v1/jobs", json=JOB | DEAR_JOB | {"dataset": dataset}))
        await eventually(lambda: server.number_of_calculations() == 1)
        task.cancel()
        await eventually(lambda: server.number_of_calculations() == 0)
        async with asyncio.timeout(PATIENCE):  # the request is counted after its calculation has ended
            while 'route="/v1/jobs",status="499"} 1.0' not in (await steward.get("/metrics")).text:
                await asyncio.sleep(0.05)
        assert (await steward.get("/v1/jobs")).json()["items"] == []
        assert 'status="500"' not in (await steward.get("/metrics")).text
