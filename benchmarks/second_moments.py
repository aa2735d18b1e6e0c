"""Prototypes for the logistic loss: one noisy second moment with few steps, and coordinates rotated by few directions.

Rows are met here in the open: none of this is a mechanism of the product, but noise is what its plans say.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from accounting import Privacy
from accounting.calibration import calibrate
from accounting.mechanisms import Gaussian
from accounting.noise import Noise
from accounting.plan import Plan, Query
from benchmarks.datasets import Split, adult, bank, covertype, w8a
from benchmarks.newton import minimize, objective
from benchmarks.prototypes import EPSILONS, MOMENTS
from benchmarks.trials import DELTA, mean, row, solver
from solvers import Problem
from solvers.data_access import inputs
from solvers.data_access.data import Data
from solvers.data_access.standardised import StandardisedOracle
from solvers.losses import Logistic
from solvers.methods import AdaptiveGd, DpGd
from solvers.methods.defaults.adaptive_gd import CLASSES
from solvers.methods.path import Path, scaled
from solvers.preparation import moments

_SECOND = 20.0  # percent of mu^2, for the second moment
_LONGEST = 1.2  # to what rows are shortened in it; their mean square is 1.09
_RANKS = (0, 5, 20)
_STEPS, _STEP = 250, 3.0
_ROOM = 0.1  # of the l1's penalties, as adaptive_gd has it

Vector = NDArray[np.float64]
Risk = Callable[[Vector], float]


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
    for split, problem, data, risk in _sets((adult, _forest, bank, w8a), seeds):
        for label, method in (("adaptive_gd", AdaptiveGd()), ("dp_gd", DpGd())):
            row(label, [mean(solver(method, problem, split, epsilon), risk, seeds) for epsilon in EPSILONS])
        print("one second moment, and")
        for way in WAYS:
            fits = [by_second_moment(problem, split, data, epsilon, way) for epsilon in EPSILONS]
            row(way.name, [mean(fit, risk, seeds) for fit in fits])


def low_rank(seeds: int) -> None:
    """Gradients asked in coordinates that exact second moments of low rank turn and scale: the best case of these."""
    for split, problem, data, risk in _sets((adult, _forest, bank), seeds):
        for rank in _RANKS:
            fits = [turned(problem, split, data, epsilon, rank) for epsilon in EPSILONS]
            row(f"  rank {rank}" if rank else "  columns scaled alone", [mean(fit, risk, seeds) for fit in fits])


def _forest() -> Split | None:
    return covertype(50_000, settled=True)


def _sets(loads: Sequence[Callable[[], Split | None]], seeds: int) -> Iterator[tuple[Split, Problem, Data, Risk]]:
    for load in loads:
        if (split := load()) is None:
            print("BENCHMARK_DATA names no folder that holds the dataset")
            continue
        n, d = split.X.shape
        problem = Problem(Logistic(), n=n, d=d, row_norm=split.row_norm, columns=split.columns)
        least = minimize(problem, split.X, split.y).value

        def risk(w: Vector, split: Split = split, problem: Problem = problem, least: float = least) -> float:
            return objective(problem, split.X, split.y, w) - least

        print(f"\n{split.name}: n = {n}, d = {d}, delta = {DELTA:g}, {seeds} runs a cell; excess risk")
        row("", [f"eps {epsilon:g}" for epsilon in EPSILONS])
        yield split, problem, inputs.of_arrays(split.X, split.y, problem), risk


def _plan(problem: Problem, epsilon: float, gradients: int, second: float) -> Plan:
    """Return a plan with adaptive_gd's moments, a second moment for a percentage of mu^2, and gradients."""
    asked = moments.queries(problem, **MOMENTS)
    if second:
        asked += (Query("second", 1, Gaussian(), second),)
    rest = 100 - sum(query.weight for query in asked)
    return calibrate((Query("gradient", gradients, Gaussian(), rest), *asked), Privacy(epsilon, DELTA)).plan


def _narrow_limit(problem: Problem, epsilon: float) -> float:
    """Return the limit of slopes that adaptive_gd begins with."""
    return CLASSES.narrow_limit(problem, AdaptiveGd().resolve(problem, Privacy(epsilon, DELTA)).slope_limit)


def by_second_moment(problem: Problem, split: Split, data: Data, epsilon: float, way: Way) -> Callable[[], Vector]:
    """H = (M + noise + ridge) / 4: no record's curvature is more than a quarter of its z z'.

    ||z z'||_F <= R^2 for rows shortened to R, and z z' - y y' is at most sqrt(2) R^2 long: a record's share of that is
    R^2 / sqrt(2). The ridge's unit is sqrt(2 d) of the noise's std.
    """
    limit, d = _narrow_limit(problem, epsilon), problem.d
    known = _plan(problem, epsilon, way.rounds, _SECOND)
    std = known.query("second").noise_multiplier * _LONGEST**2 / math.sqrt(2) / problem.n
    single = known.query("gradient").noise_multiplier * limit / (problem.n * math.sqrt(way.rounds))

    def fit() -> Vector:
        oracle = StandardisedOracle(problem, data, known, Noise())
        center, v = moments.ask(oracle, problem, floor=1.0)
        frame = scaled(center, v, 1.0)
        z = frame.rows(split.X)
        z *= np.minimum(1, _LONGEST / np.linalg.norm(z, axis=1))[:, None]
        H = (z.T @ z / len(z) + symmetric(d, std) + way.ridge * std * math.sqrt(2 * d) * np.eye(d)) / 4
        w = middle = np.zeros(d)
        for t in range(1, way.rounds + 1):
            penalties = way.l1 * single / (np.abs(middle) + _ROOM) * (t > way.rounds // 16)
            penalties[-1] = 0
            gradient = oracle.gradient("gradient", w, frame, limit)
            w = w - np.linalg.solve(H + np.diag(penalties), gradient + penalties * w)
            middle = middle + (w - middle) * 2 / (t + 1)
        return frame.raw((middle if way.averaged else w)[None]).ravel()

    return fit


def symmetric(d: int, std: float) -> Vector:
    """Draw noise of this std in every direction of symmetric matrices, in the Frobenius norm."""
    noise = std * np.random.default_rng().standard_normal((d, d))
    return np.asarray((noise + noise.T) / 2)


def turned(problem: Problem, split: Split, data: Data, epsilon: float, rank: int) -> Callable[[], Vector]:
    """T steps as adaptive_gd's, without its l1 and its re-allocation, on B z."""
    limit, n = _narrow_limit(problem, epsilon), problem.n
    known = _plan(problem, epsilon, _STEPS, 0.0)
    std = known.query("gradient").noise_multiplier * limit / n
    single = std / math.sqrt(_STEPS)
    ridge = min(1.0, single * problem.d / (2 * limit)) * single
    penalties = np.append(np.full(problem.d - 1, ridge), 0.0)

    def fit() -> Vector:
        random = np.random.default_rng()
        center, v = moments.ask(StandardisedOracle(problem, data, known, Noise()), problem, floor=1.0)
        frame = scaled(center, v, 1.0)
        z = frame.rows(split.X)
        B = turning(z[:, :-1], rank)
        z[:, :-1] = z[:, :-1] @ B
        lengths = np.linalg.norm(z, axis=1)
        path = Path(problem, frame)
        for t in range(1, _STEPS + 1):
            at = path.extrapolate(_STEP * single)
            slopes = bounded(split.y * (z @ at), limit / lengths)
            gradient = -(split.y * slopes) @ z / n + std * random.standard_normal(problem.d)
            path.descend(at, gradient, penalties, _STEP, t)
        w = path.mean_in_frame
        return frame.raw(np.append(B @ w[:-1], w[-1])[None]).ravel()

    return fit


def turning(z: Vector, rank: int) -> Vector:
    """Return the symmetric B that scales the largest directions of the second moment to the mean of the others."""
    values, vectors = np.linalg.eigh(z.T @ z / len(z))
    total = float(values.sum())
    kept = len(values) - rank
    values = np.where(np.arange(len(values)) < kept, values[:kept].mean(), values)
    B = vectors / np.sqrt(values) @ vectors.T
    return np.asarray(B * math.sqrt(total / float(((z @ B) ** 2).sum() / len(z))))


def bounded(margins: Vector, most: Vector) -> Vector:
    """adaptive_gd's slope, less its sign: s min(1, most / max(s, 1 - s))."""
    s = expit(-margins)
    return np.asarray(s * np.minimum(1, most / np.maximum(s, 1 - s)))
