"""CPU time of a quote for every method: the first in a process, the same again, and one with another epsilon.

Every line is the least of three children of one process that has imported the solvers and calculated nothing, as the
service's calculating process forks one for each question (that one has its loops loaded beside; planning needs none).
"""

import json
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import product
from typing import Any, get_args

import solvers
from accounting.accountants import guard
from accounting.privacy import Privacy, Relation
from benchmarks.coded import ADULT
from benchmarks.served import small
from solvers.columns import Columns
from solvers.domains import LinfBall
from solvers.errors import NeedsDelta, Unsuitable
from solvers.losses import Logistic, Squared
from solvers.methods import Method
from solvers.problem import Problem

FEWEST, ROWS = 1000, (32_561, 1_000_000)
FIRST, OTHER = 1.0, 0.7
EPSILONS = (0.1, 0.5, 1.0, 2.0, 4.0, 8.0, 20.0)
Costs = tuple[str, list[float]]
"""Name of the measurement, and CPU milliseconds."""
_QUESTIONS, _CHILDREN = 100, 3
_SETTLE = 10.0  # seconds until the server's workers are there


def report(_repeats: int) -> None:
    """Print a table for each number of rows, and for each epsilon what the dearest method takes."""
    guard.warm_up()
    for n in ROWS:
        print(f"n = {n}, {len(ADULT)} columns like Adult's, delta 1e-6 (0 where a method has no other); CPU ms")
        print(
            f"  {'method':24s}{'loss':10s}{'preparation':13s}{'accountant':16s}{'first':>8s}{'again':>8s}{'other':>8s}"
        )
        for method in get_args(Method):
            told, cost = _least(partial(_costs, method, n))
            print(told + "".join(f"{part:8.1f}" for part in cost), flush=True)
    served()
    print("noisy_mirror_descent, first quote at other epsilons, by relation and n; CPU ms")
    print("".join(f"{epsilon:8g}" for epsilon in EPSILONS).rjust(24 + 8 * len(EPSILONS)))
    for relation, n in product(get_args(Relation), (FEWEST, *ROWS)):
        costs = (_least(partial(_dearest, n, epsilon, relation))[1][0] for epsilon in EPSILONS)
        print(f"  {relation:12s}{n:10d}" + "".join(f"{cost:8.0f}" for cost in costs), flush=True)


def served() -> None:
    """The same question over HTTP, again and again: CPU time of a warm server for each, and the least on the clock."""
    with small(2000, 3.0) as (purse, server, dataset):
        asked: dict[str, Any] = {"dataset": dataset, "target": "y"}
        time.sleep(_SETTLE)
        for method in ("dp_gd", "dp_svrg", "noisy_mirror_descent"):
            asked |= {"method": {"name": method}, "privacy": {"epsilon": 0.5}}
            purse.quote(**asked)
            before, clock = sum(server.cpu_times()[:2]), []
            for _ in range(_QUESTIONS):
                start = time.perf_counter()
                purse.quote(**asked)
                clock.append(time.perf_counter() - start)
            cpu = (sum(server.cpu_times()[:2]) - before) / _QUESTIONS
            told = f"{cpu * 1e3:.1f} CPU ms of the server, {min(clock) * 1e3:.1f} ms at the least"
            print(f"  {method} again over HTTP: {told}")


def problems(n: int) -> Iterator[Problem]:
    """A problem of each kind on declared columns, the usual ones first."""
    columns = Columns(ADULT)
    facts: dict[str, Any] = {"n": n, "d": columns.d, "row_norm": columns.row_norm, "columns": columns}
    yield Problem(Logistic(), **facts)
    yield Problem(Squared(), **facts)
    few = Columns((1, 1))  # what searches a grid takes three coefficients
    small: dict[str, Any] = {"n": n, "d": few.d, "row_norm": few.row_norm, "columns": few}
    yield Problem(Logistic(), domain=LinfBall(5.0), **small)


def _costs(method: type, n: int) -> Costs:
    """Return the costs for the first problem that the method accepts, at delta = 1e-6 or otherwise at 0."""
    for delta in (1e-6, 0.0):
        for problem in problems(n):
            try:
                quote, first = _timed(method, problem, FIRST, delta)
            except (Unsuitable, NeedsDelta):
                continue
            _, again = _timed(method, problem, FIRST, delta)
            _, other = _timed(method, problem, OTHER, delta)
            told = f"  {quote.method.name:24s}{problem.loss.name:10s}{quote.preparation.name:13s}"
            return f"{told}{quote.release.accountant:16s}", [first, again, other]
    raise LookupError(f"no problem for {method.__name__}")


def _dearest(n: int, epsilon: float, relation: Relation) -> Costs:
    problem = replace(next(problems(n)), relation=relation)
    _, first = _timed(solvers.methods.NoisyMirrorDescent, problem, epsilon, 1e-6)
    return relation, [first]


def _timed(method: type, problem: Problem, epsilon: float, delta: float) -> tuple[solvers.Quote, float]:
    start = time.process_time()
    quote = solvers.plan(method(), problem, Privacy(epsilon, delta))
    return quote, (time.process_time() - start) * 1e3


def _least(work: Callable[[], Costs]) -> Costs:
    """Return the least costs of several child processes, which share no caches with each other."""
    told, costs = "", []
    for _ in range(_CHILDREN):
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                os.write(writing, json.dumps(work()).encode())
            finally:
                os._exit(0)
        os.close(writing)
        with open(reading) as answer:
            told, cost = json.load(answer)
        costs.append(cost)
        os.waitpid(child, 0)
    return told, [min(parts) for parts in zip(*costs, strict=True)]
