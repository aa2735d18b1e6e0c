"""A distinguishing audit: the best attacker of a run's whole transcript on a worst-case neighboring pair.

Two datasets differ in one row; every other row is zero and has no gradient. The attacker sees every private answer
(more than any release), knows both candidate rows, and scores a run by the exact log-likelihood ratio of the
answers. From how the scores separate, a lower bound on the mechanism's mu follows at a stated confidence: for every
threshold t, with alpha = P(score > t | D'), beta = P(score <= t | D), a mu-GDP mechanism obeys Phi^-1(1 - alpha) -
Phi^-1(beta) <= mu (Dong, Roth and Su 2022). For every plan, 1 - beta <= e^epsilon alpha + delta at every (epsilon,
delta) that the accountants certify; large deltas give the test its power.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from accounting.calibration import certify
from accounting.mechanisms import PoissonGaussian
from accounting.noise import Noise
from accounting.plan import Plan
from solvers.data import Data
from solvers.methods import Method
from solvers.oracle import PrivateOracle
from solvers.problem import Problem, Vector
from tests.support.seeded import SeededBits

DELTAS = (1e-5, 1e-3, 0.03, 0.1, 0.2, 0.4)  # where the promise is checked
ALARM = 1e-9  # the chance that an honest mechanism is accused, over all thresholds tried


@dataclass(frozen=True)
class Row:
    """One record."""

    x: Vector
    y: float

    def slope(self, problem: Problem, w: Vector) -> float:
        margin = np.array([float(self.x @ w)])
        return float(problem.loss.slope(margin, np.array([self.y]))[0])


class Attacker:
    """An oracle that answers through the real one, and scores each answer against both candidate rows."""

    def __init__(self, oracle: PrivateOracle, problem: Problem, plan: Plan, one: Row, two: Row) -> None:
        self._oracle, self._problem, self._plan, self._one, self._two = oracle, problem, plan, one, two
        self.score = 0.0

    def horizon(self, query: str) -> int:
        return self._oracle.horizon(query)

    def gradient(self, query: str, w: Vector) -> Vector:
        answer = self._oracle.gradient(query, w)
        means = [row.slope(self._problem, w) * row.x / self._problem.n for row in (self._one, self._two)]
        self._add(answer, means, self._plan.query(query).noise_multiplier * self._problem.G / self._problem.n, 1.0)
        return answer

    def sampled_gradient(self, query: str, w: Vector) -> Vector:
        answer = self._oracle.sampled_gradient(query, w)
        self._sampled(
            query, answer, [row.slope(self._problem, w) * row.x for row in (self._one, self._two)], self._problem.G
        )
        return answer

    def sampled_change(self, query: str, w: Vector, anchor: Vector) -> Vector:
        answer = self._oracle.sampled_change(query, w, anchor)
        bound = min(self._problem.G, self._problem.L * float(np.linalg.norm(w - anchor)))
        if bound > 0:
            changes = [
                (row.slope(self._problem, w) - row.slope(self._problem, anchor)) * row.x
                for row in (self._one, self._two)
            ]
            self._sampled(query, answer, changes, bound)
        return answer

    def _sampled(self, query: str, answer: Vector, sums: Sequence[Vector], bound: float) -> None:
        planned = self._plan.query(query)
        assert isinstance(planned.mechanism, PoissonGaussian)
        rate = planned.mechanism.rate
        size = rate * self._problem.n
        self._add(answer, [s / size for s in sums], planned.noise_multiplier * bound / size, rate)

    def _add(self, answer: Vector, means: Sequence[Vector], std: float, rate: float) -> None:
        """ln of (1-q) N(0) + q N(mean of one) over the same for two; q = 1 for a full gradient."""
        logs = []
        for mean in means:
            tilt = float(answer @ mean - mean @ mean / 2) / std**2
            logs.append(tilt if rate == 1 else float(np.logaddexp(math.log1p(-rate), math.log(rate) + tilt)))
        self.score += logs[0] - logs[1]


def scores(
    method: Method, problem: Problem, plan: Plan, one: Row, two: Row, runs: int, seed: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Scores of `runs` runs with the first row, and of as many with the second."""
    result = []
    for which, truth in enumerate((one, two)):
        X, y = np.zeros((problem.n, problem.d)), np.zeros(problem.n)
        X[0], y[0] = truth.x, truth.y
        data = Data.of(X, y, problem)
        noise = Noise(SeededBits(2 * seed + which))
        found = np.empty(runs)
        for j in range(runs):
            attacker = Attacker(PrivateOracle(problem, data, plan, noise), problem, plan, one, two)
            method.run(attacker, problem)
            found[j] = attacker.score
        result.append(found)
    return result[0], result[1]


def _thresholds(one: NDArray[np.float64], two: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.quantile(np.concatenate([one, two]), np.linspace(0.02, 0.98, 49))


def _bounds(one: NDArray[np.float64], two: NDArray[np.float64]) -> list[tuple[float, float]]:
    """Upper confidence bounds on (alpha, beta) for every threshold, jointly (Clopper-Pearson, Bonferroni)."""
    thresholds, runs = _thresholds(one, two), len(one)
    level = ALARM / (2 * len(thresholds))
    pairs = []
    for t in thresholds:
        false, missed = int(np.sum(two > t)), int(np.sum(one <= t))
        upper = [1.0 if k == runs else float(stats.beta.isf(level, k + 1, runs - k)) for k in (false, missed)]
        pairs.append((upper[0], upper[1]))
    return pairs


def mu_lower_bound(one: NDArray[np.float64], two: NDArray[np.float64]) -> float:
    """The mechanism is not mu-GDP for any mu below this, but for a chance of ALARM."""
    return max(float(stats.norm.isf(a) - stats.norm.ppf(b)) for a, b in _bounds(one, two))


def epsilon_lower_bound(one: NDArray[np.float64], two: NDArray[np.float64], delta: float) -> float:
    """The mechanism is not (epsilon, delta)-DP for any epsilon below this, but for a chance of ALARM."""
    return max(math.log(max((1 - b - delta) / a, 1.0)) for a, b in _bounds(one, two))


def excess(one: NDArray[np.float64], two: NDArray[np.float64], plan: Plan) -> float:
    """By how much the lower bound on epsilon exceeds what is certified, at the worst delta; not positive if honest."""
    return max(epsilon_lower_bound(one, two, delta) - certify(plan, delta)[0] for delta in DELTAS)
