"""PrivateOracle: the narrow door between data and solver.

Precondition: the data are `Data.of` the problem. The plan, n and the batch rates are public.
Promise: whatever a solver asks, and however it chooses its questions from earlier answers, all answers together are as
private as the plan: at most `count` answers of each planned query, each made by the query's mechanism at the planned
noise multiplier and at a bound that holds for every record in floating point. Proof: docs/proofs/oracle.md.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from accounting.errors import OutOfPlan
from accounting.mechanisms import PoissonGaussian
from accounting.noise import Noise
from accounting.plan import Plan, PlannedQuery
from solvers.data import Data, block_rows, blocks
from solvers.errors import Unsuitable
from solvers.problem import Problem, Vector

Rows = slice | NDArray[np.int64]

_UNIT = 1.01 * 2.0**-53  # the rounding of one operation, with room for its second order
_FARTHEST = 1e100
_LONG_ROW = 32  # from here on one dot product a row is faster than BLAS's matrix-vector product


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
        if data.problem != problem:
            raise Unsuitable("the data were prepared for another problem")
        self._problem, self._data, self._plan, self._noise = problem, data, plan, noise
        self._answered: Counter[str] = Counter()
        self._on_answer = on_answer

    def gradient(self, query: str, w: Vector) -> Vector:
        """grad F(w) + noise, over all rows; per-record bound G / n, plus rounding.

        Raises
        ------
        OutOfPlan
            if the plan holds no such query with the Gaussian mechanism, or all its answers have been given.
        Unsuitable
            if w is not of shape (size,), finite and of norm up to 1e100. Both are functions of the question alone.
        """
        reach = self._reach(w)
        planned = self._take(query, sampled=False)
        value = self._sum(blocks(self._problem.n, _width(self._problem)), w) / self._problem.n
        return self._answer(planned, value, gradient_bound(self._problem, reach))

    def sampled_gradient(self, query: str, w: Vector) -> Vector:
        """(1/b) sum over a fresh batch of grad f_i(w) + noise; per-record bound G / b, plus rounding.

        b = n rate is fixed: never the size of the batch, which is secret. An empty batch answers noise alone. Raises as
        `gradient`, with the Poisson-sampled mechanism.
        """
        reach = self._reach(w)
        planned = self._take(query, sampled=True)
        rows, size = self._batch(planned)
        value = self._sum(_pieces(rows, _width(self._problem)), w) / size
        return self._answer(planned, value, sampled_bound(self._problem, size, self._problem.G, reach))

    def sampled_change(self, query: str, w: Vector, anchor: Vector) -> Vector:
        """(1/b) sum over a fresh batch of clip(grad f_i(w) - grad f_i(anchor), c) + noise.

        c = min(G, L ||w - anchor||) is a public function of private iterates. Clipping at it changes nothing while
        L ||w - anchor|| <= G, since every record's loss is L-smooth. At w = anchor the answer is 0 without a look at
        the data, and counts. Raises as `sampled_gradient`.
        """
        reach = self._reach(w) + self._reach(anchor)
        planned = self._take(query, sampled=True)
        problem = self._problem
        distance = float(np.linalg.norm(w - anchor))
        bound = 0.0 if distance == 0.0 else min(problem.G, problem.L * distance)
        if bound == 0.0:
            return self._count(np.zeros(problem.size))
        rows, size = self._batch(planned)
        value = self._sum(_pieces(rows, _width(problem)), w, anchor, bound / problem.row_norm) / size
        return self._answer(planned, value, sampled_bound(problem, size, bound, reach))

    def transcript(self) -> Plan:
        """What was really answered."""
        return Plan(
            tuple(replace(q, count=self._answered[q.name]) for q in self._plan.queries if self._answered[q.name])
        )

    def _reach(self, w: Vector) -> float:
        """||w||, once w is known to be one that no margin can overflow at."""
        if w.shape != (self._problem.size,):
            raise Unsuitable("w must be of shape (size,), d times the loss's outputs")
        with np.errstate(over="ignore", invalid="ignore"):
            norm = float(np.linalg.norm(w))
        if not norm <= _FARTHEST:
            raise Unsuitable("w must be finite and of norm at most 1e100")
        return norm

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
        """The value made private: the only place where a function of the data becomes an answer."""
        return self._count(planned.mechanism.perturb(value, planned.noise_multiplier, bound, self._noise))

    def _count(self, answer: Vector) -> Vector:
        if self._on_answer is not None:
            self._on_answer(self._answered.total())
        return answer

    def _batch(self, planned: PlannedQuery) -> tuple[NDArray[np.int64], float]:
        """A fresh batch and its fixed expected size."""
        if not isinstance(planned.mechanism, PoissonGaussian):
            raise OutOfPlan(f"query {planned.name!r} is not sampled")
        rate = planned.mechanism.rate
        return self._noise.poisson_rows(self._problem.n, rate), rate * self._problem.n

    def _sum(self, pieces: Iterable[Rows], w: Vector, anchor: Vector | None = None, limit: float = 0.0) -> Vector:
        """Sum over the rows of s_i x_i', piece by piece, |s_i| clipped to the slope's bound or a change's limit.

        A record's gradient is its slope, a number or a K-vector, times its row: clipping the one clips the norm.
        """
        data, total = self._data, np.zeros(self._problem.shape)
        for rows in pieces:
            X, y, scale = data.X[rows], data.y[rows], data.scale[rows]
            slopes = self._slopes(X, y, scale, w)
            if anchor is not None:
                slopes -= self._slopes(X, y, scale, anchor)
                _clip(slopes, limit)
            slopes *= scale
            total += slopes @ X
        return total.ravel()

    def _slopes(self, X: NDArray[np.float64], y: Vector, scale: Vector, w: Vector) -> Vector:
        """f'(scale W'x, y), forced into its bound: (rows,), or (K, rows) for a loss of K outputs."""
        margins = _margins(X, w.reshape(self._problem.shape))
        margins *= scale
        slopes = self._problem.loss.slope(margins, y)
        return _clip(slopes, self._problem.loss.slope_bound)


def _margins(X: NDArray[np.float64], w: Vector) -> Vector:
    """<x, w> for each row, or one row of them for each row of w."""
    if w.ndim == 2:
        return w @ X.T
    return np.vecdot(X, w) if X.shape[1] >= _LONG_ROW else X @ w


def _clip(slopes: Vector, bound: float) -> Vector:
    """Each record's slope cut down to l2 norm `bound`, in place."""
    if slopes.ndim == 1:
        return np.clip(slopes, -bound, bound, out=slopes)
    norms = np.sqrt(np.einsum("kn,kn->n", slopes, slopes))
    slopes *= bound / np.maximum(norms, bound)
    return slopes


def _width(problem: Problem) -> int:
    """The longest vector that a record has in a block: its row, or its margins."""
    return max(problem.d, problem.outputs)


def gradient_bound(problem: Problem, reach: float = 0.0) -> float:
    """What one record adds to the mean gradient at a w of norm `reach`: G/n, and the error of computing it."""
    return problem.G * _long_rows(problem) / problem.n + _error(problem, problem.G, reach)


def sampled_bound(problem: Problem, size: float, bound: float, reach: float = 0.0) -> float:
    """The same for a batch of at most n records over the fixed size, where a record adds up to `bound` before division.

    Twice the error, because both the answer with the record and the answer without it are off by it.
    """
    return (bound * _long_rows(problem) + 2 * problem.n * _error(problem, bound, reach)) / size


def _long_rows(problem: Problem) -> float:
    """How much longer than R a row may be once its norm, its scale and its product with a slope are rounded."""
    return 1 + (problem.d + 8) * _UNIT


def _error(problem: Problem, bound: float, reach: float) -> float:
    """l2 error, against exact arithmetic, of 1/n times a sum of up to n terms of norm up to `bound`."""
    block = block_rows(_width(problem))
    summing = (min(block, problem.n) + problem.n / block) * _UNIT * bound
    slopes = (27 + 5 * problem.outputs) * _UNIT * problem.G
    # Where the loss is not smooth, a margin's least rounding may turn the slope from one bound to the other.
    margins = (problem.d + 4) * _UNIT * problem.L * reach if problem.is_smooth else math.inf
    return summing + slopes + min(margins, 2 * problem.G)


def _pieces(rows: NDArray[np.int64], width: int) -> Iterable[Rows]:
    """A batch cut as the whole is."""
    return (rows[block] for block in blocks(len(rows), width))
