"""Mechanism S, which dp_svrg and dp_svrg_pp share: sampled changes against a noisy snapshot, with a safeguard."""

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from accounting.mechanisms import Gaussian, PoissonGaussian
from accounting.plan import Query
from accounting.privacy import Privacy
from solvers.errors import Unsuitable
from solvers.methods.checks import check_smooth
from solvers.methods.tuning import answers_std, descent_time
from solvers.oracle_protocol import Oracle
from solvers.problem import Problem, Vector

_SNAPSHOT_SHARE = 0.25
_TOGETHER, _NUMBERS = 1_000, 1 << 18  # points, and their coordinates, between two reports of progress
_TIME = 0.4  # of dp_gd's: plain steps let less noise average out
_MOST_DEFAULT_STEPS = 5_000
_NOISY_ENOUGH = 1.5  # batches so large that the noise multiplier stays near 3.5, where sampling costs 1.5 % of mu
_LEAST_BATCH = 100
_SAMPLING = 11  # 1 / (L (1 + 11/b)): the paper's 1 / (12 L) at b = 1, 1/L as batches lose their variance


def step_time(problem: Problem, privacy: Privacy) -> float:
    """The sum of all step sizes: 0.4 of `tuning.descent_time`."""
    return _TIME * descent_time(problem, privacy)


def steps_wanted(problem: Problem, time: float, step: float | None) -> float:
    """How many steps of the given size, or of 1/L, spend the time; at most 5000."""
    return min(time / (step or 1 / problem.L), _MOST_DEFAULT_STEPS)


def fill_batch(name: str, batch: int | None, problem: Problem, privacy: Privacy, total: int) -> int:
    """b = 1.5 n mu* / sqrt(total) where it is open, at least 100 and at most n.

    Raises
    ------
    Unsuitable
        if the batch exceeds n.
    """
    if batch is None:
        wanted = _NOISY_ENOUGH * 2 * problem.G / (answers_std(problem, privacy) * math.sqrt(total))
        return min(problem.n, max(_LEAST_BATCH, math.ceil(wanted)))
    if batch > problem.n:
        raise Unsuitable(f"{name}: batch must not exceed n = {problem.n}")
    return batch


def fill_step(name: str, step: float | None, problem: Problem, batch: int, longest: float) -> float:
    """eta where it is open: `longest`, but at most 1 / (L (1 + 11/b)).

    Raises
    ------
    Unsuitable
        if it exceeds 1/L.
    """
    step = step or min(1 / (problem.L * (1 + _SAMPLING / batch)), longest)
    check_smooth(f"{name}: step", step, problem)
    return step


def queries(problem: Problem, snapshots: int, changes: int, batch: int) -> tuple[Query, ...]:
    """Snapshots over all rows, for a quarter of mu^2, and changes over Poisson batches of rate b / n."""
    return (
        Query("snapshot", snapshots, Gaussian(), _SNAPSHOT_SHARE),
        Query("change", changes, PoissonGaussian(batch / problem.n), 1 - _SNAPSHOT_SHARE),
    )


def estimate(oracle: Oracle, problem: Problem, w: Vector, anchor: Vector, snapshot: Vector) -> Vector:
    """grad F(w), nearly: snapshot + sampled change while L ||w - anchor|| <= G, a sampled gradient beyond."""
    if problem.L * float(np.linalg.norm(w - anchor)) <= problem.G:
        return oracle.sampled_change("change", w, anchor) + snapshot
    return oracle.sampled_gradient("change", w)


def walk(
    oracle: Oracle, problem: Problem, w: Vector, anchor: Vector, snapshot: Vector, step: float, count: int
) -> Iterator[NDArray[np.float64]]:
    """The `count` points after w, some at a time, shape (k, d): w <- prox(w - step v), v as `estimate` has it."""
    most = max(1, min(_TOGETHER, _NUMBERS // problem.d))
    for done in range(0, count, most):
        wanted = min(most, count - done)
        points = oracle.walk("change", w, anchor, snapshot, step, wanted)
        if points is None:
            points = np.empty((wanted, len(w)))
            for t in range(wanted):
                w = problem.prox(w - step * estimate(oracle, problem, w, anchor, snapshot), step)
                points[t] = w
        w = points[-1]
        yield points
