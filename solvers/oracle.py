"""PrivateOracle: the narrow door between data and solver.

Promise: whatever a solver asks, and however it chooses its questions from earlier answers, all answers together are as
private as the plan: at most `count` answers of each planned query, each made by the query's mechanism at the planned
noise multiplier and at a bound that holds for every record in floating point. Proof: docs/proofs/oracle.md.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from accounting.errors import OutOfPlan
from accounting.mechanisms import PoissonGaussian
from accounting.noise import Noise
from accounting.plan import Plan, PlannedQuery
from solvers.data import BLOCK, Data, blocks
from solvers.problem import Problem, Vector

_UNIT = 2.0**-53
_ROW_ROUNDING = 1e-11  # norms, scales and slopes are rounded; this covers d up to 20,000 and more


class PrivateOracle:
    """Noisy answers about one problem on one dataset, within one plan. Sees data; its callers see answers.

    Parameters
    ----------
    problem, data : the data must be `Data.of(..., problem)`
    plan : what may be asked
    noise : the randomness
    on_answer : called after each answer with the number of answers so far; it may raise to stop the run
    """

    __slots__ = ("_answered", "_data", "_noise", "_on_answer", "_plan", "_problem")

    def __init__(
        self,
        problem: Problem,
        data: Data,
        plan: Plan,
        noise: Noise,
        on_answer: Callable[[int], None] | None = None,
    ) -> None:
        self._problem, self._data, self._plan, self._noise = problem, data, plan, noise
        self._answered: Counter[str] = Counter()
        self._on_answer = on_answer

    def gradient(self, query: str, w: Vector) -> Vector:
        """grad F(w) + noise, over all rows; per-record bound G / n."""
        planned = self._take(query, sampled=False)
        return self._answer(planned, self._mean_gradient(w), gradient_bound(self._problem))

    def sampled_gradient(self, query: str, w: Vector) -> Vector:
        """(1/b) sum over a fresh batch of grad f_i(w) + noise, b = n rate fixed; per-record bound G / b."""
        planned = self._take(query, sampled=True)
        rows, size = self._batch(planned)
        X, slopes, scale = self._slopes(rows, w)
        value = X.T @ (slopes * scale) / size
        return self._answer(planned, value, sampled_bound(self._problem, size, self._problem.G))

    def sampled_change(self, query: str, w: Vector, anchor: Vector) -> Vector:
        """(1/b) sum over a fresh batch of grad f_i(w) - grad f_i(anchor) + noise.

        Per-record bound min(2 G, L ||w - anchor||) / b: a public function of private iterates. At w = anchor the answer
        is 0 and tells nothing.
        """
        planned = self._take(query, sampled=True)
        problem = self._problem
        bound = min(2 * problem.G, problem.L * float(np.linalg.norm(w - anchor)))
        if not bound > 0:
            return self._count(planned, np.zeros(problem.d))
        rows, size = self._batch(planned)
        X, here, scale = self._slopes(rows, w)
        _, there, _ = self._slopes(rows, anchor)
        limit = bound / problem.row_norm
        value = X.T @ (np.clip(here - there, -limit, limit) * scale) / size
        return self._answer(planned, value, sampled_bound(problem, size, bound))

    def transcript(self) -> Plan:
        """What was really answered."""
        return Plan(
            tuple(replace(q, count=self._answered[q.name]) for q in self._plan.queries if self._answered[q.name])
        )

    def _take(self, query: str, *, sampled: bool) -> PlannedQuery:
        """Count the answer before it is made; `OutOfPlan` if the plan does not hold it."""
        planned = self._plan.query(query)
        if isinstance(planned.mechanism, PoissonGaussian) is not sampled:
            raise OutOfPlan(f"query {query!r} is planned with another mechanism")
        if self._answered[query] >= planned.count:
            raise OutOfPlan(f"all {planned.count} answers of query {query!r} have been given")
        self._answered[query] += 1
        return planned

    def _answer(self, planned: PlannedQuery, value: Vector, bound: float) -> Vector:
        answer = planned.mechanism.perturb(value, planned.noise_multiplier, bound, self._noise)
        return self._count(planned, answer)

    def _count(self, planned: PlannedQuery, answer: Vector) -> Vector:  # noqa: ARG002
        if self._on_answer is not None:
            self._on_answer(self._answered.total())
        return answer

    def _batch(self, planned: PlannedQuery) -> tuple[NDArray[np.int64], float]:
        if not isinstance(planned.mechanism, PoissonGaussian):
            raise OutOfPlan(f"query {planned.name!r} is not sampled")
        rate = planned.mechanism.rate
        return self._noise.poisson_rows(self._problem.n, rate), rate * self._problem.n

    def _slopes(self, rows: slice | NDArray[np.int64], w: Vector) -> tuple[NDArray[np.float64], Vector, Vector]:
        """Rows, their slopes f'(<x, w>, y) forced into the slope's bound, and their scales."""
        X, scale, bound = self._data.X[rows], self._data.scale[rows], self._problem.loss.slope_bound
        with np.errstate(over="ignore", invalid="ignore"):
            margin = np.nan_to_num((X @ w) * scale)
            slopes = np.nan_to_num(self._problem.loss.slope(margin, self._data.y[rows]))
        return X, np.clip(slopes, -bound, bound), scale

    def _mean_gradient(self, w: Vector) -> Vector:
        total = np.zeros(self._problem.d)
        for block in blocks(self._problem.n):
            X, slopes, scale = self._slopes(block, w)
            total += X.T @ (slopes * scale)
        return total / self._problem.n


def gradient_bound(problem: Problem) -> float:
    """What one record can add to the mean gradient as it is computed: G/n, and the error of summing in blocks."""
    n = problem.n
    summing = (BLOCK + n / BLOCK + 8) * _UNIT * 1.01
    return problem.G * (1 / n + summing) * (1 + _ROW_ROUNDING)


def sampled_bound(problem: Problem, size: float, bound: float) -> float:
    """The same for a batch, of at most n records, over the fixed size."""
    summing = (problem.n + 8) * _UNIT * 1.01 * problem.n
    return bound / size * (1 + summing) * (1 + _ROW_ROUNDING)
