"""Prototypes for the logistic loss: one noisy second moment with few steps, and coordinates rotated by few directions.

The prototypes read the rows directly and are not mechanisms of the product. Their noise is that of its plans.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from accounting import Privacy
from accounting.calibration import calibrate
from accounting.mechanisms import Gaussian
from accounting.noise import Noise
from accounting.plan import Plan, Query
from benchmarks.datasets import Split, adult, available, bank, covertype_50k, w8a
from benchmarks.prototypes import EPSILONS, MOMENTS
from benchmarks.references import DELTA, Reference, print_row, spread
from benchmarks.trials import print_title
from solvers import Problem
from solvers.data_access import inputs
from solvers.data_access.standardised import StandardisedOracle
from solvers.methods import AdaptiveGd, DpGd
from solvers.methods.defaults.adaptive_gd import CLASSES
from solvers.methods.path import Path, scaled
from solvers.preparation import moments

_SECOND = 20.0  # percent of mu^2, for the second moment
_ROW_NORM = 1.2  # to which rows are clipped in it; their mean square is 1.09
_RANKS = (0, 5, 20)
_STEPS, _STEP = 250, 3.0
_L1_OFFSET = 0.1  # of coordinates in the l1 penalties, as in adaptive_gd

Vector = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Way:
    """How the second moment is used.

    Parameters
    ----------
    rounds : gradients
    ridge : in units of the most by which noise moves an eigenvalue of the second moment, about
    l1 : in units of the noise of one gradient at the whole budget, as adaptive_gd has it; 0 for none
    averaged : whether the answer is the mean of the points with weights 1, 2, .., or the last
    """

    rounds: int
    ridge: float = 1.0
    l1: float = 0.0
    averaged: bool = False

    @property
    def name(self) -> str:
        """Return the name in the table."""
        return (
            f"  {self.rounds} gradients"
            + (f", ridge x {self.ridge:g}, mean" if self.averaged else "")
            + (", l1" if self.l1 else "")
        )


WAYS = Way(5), Way(10), Way(20), Way(40, 2.0, averaged=True), Way(160, 4.0, averaged=True), Way(160, 4.0, 1.0, True)


def boosted(seeds: int) -> None:
    """Compare adaptive_gd, dp_gd and AdaSSP's form for the logistic loss: H once, then w <- w - H^-1 (g + noise)."""
    for reference in _references((adult, covertype_50k, bank, w8a), seeds):
        for method in (AdaptiveGd(), DpGd()):
            print_row(method.name, [spread(reference.excesses(method, epsilon, seeds)) for epsilon in EPSILONS])
        print("one second moment, and")
        for way in WAYS:
            print_row(way.name, _spreads(reference, partial(by_second_moment, way=way), seeds))


def low_rank(seeds: int) -> None:
    """Request gradients in coordinates that exact second moments of low rank turn and scale, as the best case."""
    for reference in _references((adult, covertype_50k, bank), seeds):
        for rank in _RANKS:
            label = f"  rank {rank}" if rank else "  columns scaled alone"
            print_row(label, _spreads(reference, partial(turned, rank=rank), seeds))


def _spreads(
    reference: Reference, prepare: Callable[[Reference, float], Callable[[], Vector]], seeds: int
) -> list[str]:
    fits = [prepare(reference, epsilon) for epsilon in EPSILONS]
    return [spread([reference.excess(fit()) for _ in range(seeds)]) for fit in fits]


def _references(loaders: Sequence[Callable[[], Split]], seeds: int) -> Iterator[Reference]:
    for split in available(*loaders):
        reference = Reference.of(split)
        print_title(reference, seeds)
        print_row("", [f"eps {epsilon:g}" for epsilon in EPSILONS])
        yield reference


def _plan(problem: Problem, epsilon: float, gradients: int, second: float) -> Plan:
    """Return a plan with adaptive_gd's moments, a second moment for a percentage of mu^2, and gradients."""
    queries = moments.queries(problem, **MOMENTS)
    if second:
        queries += (Query("second", 1, Gaussian(), second),)
    remainder = 100 - sum(query.weight for query in queries)
    return calibrate((Query("gradient", gradients, Gaussian(), remainder), *queries), Privacy(epsilon, DELTA)).plan


def _narrow_limit(problem: Problem, epsilon: float) -> float:
    """Return the limit of slopes with which adaptive_gd begins."""
    return CLASSES.narrow_limit(problem, AdaptiveGd().resolve(problem, Privacy(epsilon, DELTA)).slope_limit)


def by_second_moment(reference: Reference, epsilon: float, way: Way) -> Callable[[], Vector]:
    """Return a fit with H = (M + noise + ridge) / 4, since a record's curvature is at most a quarter of its z z'.

    ||z z'||_F <= R^2 for rows clipped to R, and ||z z' - y y'||_F <= sqrt(2) R^2. A record's share of that is
    R^2 / sqrt(2). The ridge's unit is sqrt(2 d) of the noise's std.
    """
    problem, split = reference.problem, reference.split
    limit, d = _narrow_limit(problem, epsilon), problem.d
    plan = _plan(problem, epsilon, way.rounds, _SECOND)
    std = plan.query("second").noise_multiplier * _ROW_NORM**2 / math.sqrt(2) / problem.n
    single = plan.query("gradient").noise_multiplier * limit / (problem.n * math.sqrt(way.rounds))

    def fit() -> Vector:
        data = inputs.of_arrays(split.X, split.y, problem)
        oracle = StandardisedOracle(problem, data, plan, Noise())
        center, variances = moments.ask(oracle, problem, floor=1.0)
        frame = scaled(center, variances, 1.0)
        z = frame.rows(split.X)
        z *= np.minimum(1, _ROW_NORM / np.linalg.norm(z, axis=1))[:, None]
        H = (z.T @ z / len(z) + symmetric(d, std) + way.ridge * std * math.sqrt(2 * d) * np.eye(d)) / 4
        w = average = np.zeros(d)
        for t in range(1, way.rounds + 1):
            penalties = way.l1 * single / (np.abs(average) + _L1_OFFSET) * (t > way.rounds // 16)
            penalties[-1] = 0
            gradient = oracle.gradient("gradient", w, frame, limit)
            w = w - np.linalg.solve(H + np.diag(penalties), gradient + penalties * w)
            average = average + (w - average) * 2 / (t + 1)
        return frame.raw((average if way.averaged else w)[None]).ravel()

    return fit


def symmetric(d: int, std: float) -> Vector:
    """Draw noise of this std in every direction of symmetric matrices, in the Frobenius norm."""
    noise = std * np.random.default_rng().standard_normal((d, d))
    return np.asarray((noise + noise.T) / 2)


def turned(reference: Reference, epsilon: float, rank: int) -> Callable[[], Vector]:
    """Return a fit with steps as adaptive_gd's on B z, without its l1 penalty and its scaling of coordinates."""
    problem, split = reference.problem, reference.split
    limit, n = _narrow_limit(problem, epsilon), problem.n
    plan = _plan(problem, epsilon, _STEPS, 0.0)
    std = plan.query("gradient").noise_multiplier * limit / n
    single = std / math.sqrt(_STEPS)
    ridge = min(1.0, single * problem.d / (2 * limit)) * single
    penalties = np.append(np.full(problem.d - 1, ridge), 0.0)

    def fit() -> Vector:
        random = np.random.default_rng()
        data = inputs.of_arrays(split.X, split.y, problem)
        center, variances = moments.ask(StandardisedOracle(problem, data, plan, Noise()), problem, floor=1.0)
        frame = scaled(center, variances, 1.0)
        z = frame.rows(split.X)
        B = turning(z[:, :-1], rank)
        z[:, :-1] = z[:, :-1] @ B
        lengths = np.linalg.norm(z, axis=1)
        path = Path(problem, frame)
        for t in range(1, _STEPS + 1):
            point = path.extrapolate(_STEP * single)
            slopes = bounded(split.y * (z @ point), limit / lengths)
            gradient = -(split.y * slopes) @ z / n + std * random.standard_normal(problem.d)
            path.descend(point, gradient, penalties, _STEP, t)
        w = path.mean_in_frame
        return frame.raw(np.append(B @ w[:-1], w[-1])[None]).ravel()

    return fit


def turning(z: Vector, rank: int) -> Vector:
    """Return the symmetric B that scales the largest directions of the second moment to the mean of the others."""
    values, vectors = np.linalg.eigh(z.T @ z / len(z))
    total = float(values.sum())
    smaller = len(values) - rank
    values[:smaller] = values[:smaller].mean()
    B = vectors / np.sqrt(values) @ vectors.T
    return np.asarray(B * math.sqrt(total / float(((z @ B) ** 2).sum() / len(z))))


def bounded(margins: Vector, bounds: Vector) -> Vector:
    """Return adaptive_gd's slope without its sign: s min(1, bound / max(s, 1 - s))."""
    s = expit(-margins)
    return np.asarray(s * np.minimum(1, bounds / np.maximum(s, 1 - s)))
