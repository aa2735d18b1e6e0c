"""CPU time of a quote for every method: the first in a process, the same again, and one with another epsilon.

Every line is the least of three child processes of one that has imported the solvers and calculated nothing. The
service's calculating process also forks a child for each quote.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import product
from multiprocessing import get_context
from typing import Any, get_args

import solvers
from accounting.accountants import guard
from accounting.privacy import Privacy, Relation
from benchmarks.coded import ADULT
from benchmarks.served import cpu_seconds, small
from solvers.columns import Columns
from solvers.domains import LinfBall
from solvers.errors import NeedsDelta, Unsuitable
from solvers.losses import Logistic, Squared
from solvers.methods import Method
from solvers.problem import Problem

FEWEST_ROWS, ROWS = 1000, (32_561, 1_000_000)
FIRST, OTHER = 1.0, 0.7
EPSILONS = (0.1, 0.5, 1.0, 2.0, 4.0, 8.0, 20.0)
Costs = tuple[str, list[float]]
"""Name of the measurement, and CPU milliseconds."""
_REPETITIONS, _CHILDREN = 100, 3
_SETTLE_SECONDS = 10.0  # until the server's workers have started


def report() -> None:
    """Print a table for each number of rows, then the costs of the slowest method at each epsilon."""
    guard.warm_up()
    for n in ROWS:
        print(f"n = {n}, {len(ADULT)} columns like Adult's, delta 1e-6 (0 where a method has no other); CPU ms")
        print(
            f"  {'method':24s}{'loss':10s}{'preparation':13s}{'accountant':16s}{'first':>8s}{'again':>8s}{'other':>8s}"
        )
        for method in get_args(Method):
            label, costs = _least(partial(_costs, method, n))
            print(label + "".join(f"{cost:8.1f}" for cost in costs), flush=True)
    over_http()
    print("noisy_mirror_descent, first quote at other epsilons, by relation and n; CPU ms")
    print("".join(f"{epsilon:8g}" for epsilon in EPSILONS).rjust(24 + 8 * len(EPSILONS)))
    for relation, n in product(get_args(Relation), (FEWEST_ROWS, *ROWS)):
        costs = [_least(partial(_slowest, n, epsilon, relation))[1][0] for epsilon in EPSILONS]
        print(f"  {relation:12s}{n:10d}" + "".join(f"{cost:8.0f}" for cost in costs), flush=True)


def over_http() -> None:
    """Print the CPU time of a warm server for each repetition of a quote, and the least time by the clock."""
    with small(2000, 3.0) as (purse, server, dataset):
        time.sleep(_SETTLE_SECONDS)
        for method in ("dp_gd", "dp_svrg", "noisy_mirror_descent"):
            request: dict[str, Any] = {"dataset": dataset, "target": "y", "method": method, "privacy": 0.5}
            purse.quote(**request)
            before, clock = cpu_seconds(server), []
            for _ in range(_REPETITIONS):
                start = time.perf_counter()
                purse.quote(**request)
                clock.append(time.perf_counter() - start)
            cpu = (cpu_seconds(server) - before) / _REPETITIONS
            times = f"{cpu * 1e3:.1f} CPU ms of the server, {min(clock) * 1e3:.1f} ms at the least"
            print(f"  {method} again over HTTP: {times}")


def problems(n: int) -> Iterator[Problem]:
    """Yield a problem of each kind on declared columns, the usual ones first."""
    columns = Columns(ADULT)
    facts: dict[str, Any] = {"n": n, "d": columns.d, "row_norm": columns.row_norm, "columns": columns}
    yield Problem(Logistic(), **facts)
    yield Problem(Squared(), **facts)
    two = Columns((1, 1))  # methods that search a grid accept three coefficients
    yield Problem(Logistic(), domain=LinfBall(5.0), n=n, d=two.d, row_norm=two.row_norm, columns=two)


def _costs(method: type, n: int) -> Costs:
    """Return the costs for the first problem that the method accepts, at delta = 1e-6 or otherwise at 0."""
    for delta, problem in product((1e-6, 0.0), problems(n)):
        try:
            quote, first = _timed(method, problem, FIRST, delta)
        except (Unsuitable, NeedsDelta):
            continue
        _, again = _timed(method, problem, FIRST, delta)
        _, other = _timed(method, problem, OTHER, delta)
        label = f"  {quote.method.name:24s}{problem.loss.name:10s}{quote.preparation.name:13s}"
        return f"{label}{quote.release.accountant:16s}", [first, again, other]
    raise LookupError(f"no problem for {method.__name__}")


def _slowest(n: int, epsilon: float, relation: Relation) -> Costs:
    problem = replace(next(problems(n)), relation=relation)
    _, first = _timed(solvers.methods.NoisyMirrorDescent, problem, epsilon, 1e-6)
    return relation, [first]


def _timed(method: type, problem: Problem, epsilon: float, delta: float) -> tuple[solvers.PlannedRun, float]:
    start = time.process_time()
    quote = solvers.plan(method(), problem, Privacy(epsilon, delta))
    return quote, (time.process_time() - start) * 1e3


def _least(work: Callable[[], Costs]) -> Costs:
    """Return the least costs of several child processes, which share no caches with each other."""
    with get_context("fork").Pool(1, maxtasksperchild=1) as pool:
        costs = [pool.apply(work) for _ in range(_CHILDREN)]
    return costs[0][0], [min(parts) for parts in zip(*(cost for _, cost in costs), strict=True)]
