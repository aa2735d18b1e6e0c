"""WeightedOracle: private curvatures and scores of a generalized linear model, whose records have bounded weights.

Precondition and guarantee: as `StandardisedOracle`. Proof: docs/proofs/regression_table.md.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import get_args

import numpy as np
from numpy.typing import NDArray

from accounting.mechanisms import Gaussian
from accounting.noise import Noise
from accounting.plan import Plan, PlannedQuery
from accounting.privacy import sensitivity_factor
from solvers import moment_bounds
from solvers.bounds import UNIT
from solvers.data_access.data import Work
from solvers.data_access.meter import Meter
from solvers.data_access.standardised import StandardisedOracle
from solvers.data_access.summed import Summed
from solvers.data_access.weighted_sums import Curvatures, Distances, LongRows, Matrix, Scores, SquaredScores
from solvers.errors import Unsuitable
from solvers.full_frame import FullFrame
from solvers.problem import Problem, Vector
from solvers.weighting import AnyWeights

_LARGEST_ENTRY, _LARGEST_WEIGHT = 1e30, 1e50  # of a frame and of w, so that no square or margin overflows
_LIMITS = 1e-12, 1e12


class WeightedOracle:
    """Private answers about rows whose layout is public, each one use of the Gaussian mechanism over all records.

    Matrices are answered as their upper triangle, off the diagonal times sqrt(2), so their l2 norm is the Frobenius
    norm. The noise in the symmetric matrix then has the std s on the diagonal, and s / sqrt(2) off it.

    Parameters
    ----------
    moments : the oracle of moments of the same data, with its own part of the plan
    problem, data, plan, noise, on_answer : as `FullBatchOracle`
    """

    __slots__ = ("__data", "__meter", "__problem", "moments")

    def __init__(
        self,
        moments: StandardisedOracle,
        problem: Problem,
        data: Summed,
        plan: Plan,
        noise: Noise,
        on_answer: Callable[[int], None] | None = None,
    ) -> None:
        if data.problem != problem or problem.columns is None:
            raise Unsuitable("the data were prepared for another problem, or their columns are not declared")
        self.moments, self.__problem, self.__data = moments, problem, data
        self.__meter = Meter(plan, noise, on_answer, problem.relation)

    def planned(self, query: str) -> PlannedQuery:
        """Return the query with its planned noise, which is public."""
        return self.__meter.look(query, Gaussian)

    def second_moments(self, query: str, frame: FullFrame, limit: float) -> Matrix:
        """Return (1/n) sum of omega u u' + noise, with omega = min(1, limit / ||u||^2)."""
        own = self.__checked(frame)
        _check_limits(limit)
        return self.__matrix(query, LongRows(own, limit), own.size, limit)

    def residual(self, query: str, w: Vector, frame: FullFrame, limit: float) -> float:
        """Return the mean of min(|<u, w> - y|, limit) + noise, with 0 for rows without a weight."""
        own, point = self.__checked(frame), _checked_point(w, frame)
        _check_limits(limit)
        planned, moved = self.__meter.take(query, Gaussian), limit / sensitivity_factor(self.__problem.relation)
        return float(self.__answer(planned, Distances(own, point, limit), moved, limit)[0])

    def gradient(self, query: str, w: Vector, frame: FullFrame, weights: AnyWeights) -> Vector:
        """Return (1/n) sum of omega t u at w + noise; a record's term is no longer than the gradient bound."""
        work = self.__scores(w, frame, weights)
        planned, bound = self.__meter.take(query, Gaussian), work.weights.gradient_bound * _slip(frame)
        return self.__answer(planned, work, bound, bound)

    def curvature(self, query: str, w: Vector, frame: FullFrame, weights: AnyWeights) -> Matrix:
        """Return (1/n) sum of omega f u u' at w + noise; a record's term has a trace of at most the curvature bound."""
        scores = self.__scores(w, frame, weights)
        work = Curvatures(scores.frame, scores.w, scores.weights)
        return self.__matrix(query, work, frame.size, work.weights.curvature_bound)

    def squared_scores(self, query: str, w: Vector, frame: FullFrame, weights: AnyWeights) -> Matrix:
        """Return (1/n) sum of S S' at w + noise, with S the mean of omega t u over a record's slots."""
        k, work = self.__problem.unit.slots, SquaredScores(self.__scores(w, frame, weights))
        return k * self.__matrix(query, work, frame.size, work.scores.weights.gradient_bound**2 / k)

    def transcript(self) -> Plan:
        """Return what was really answered, without the moments."""
        return self.__meter.transcript()

    def __matrix(self, query: str, work: Work, size: int, trace: float) -> Matrix:
        """Return the mean of positive semidefinite terms with at most this trace + noise.

        The distance of two of them is at most sqrt(2) trace, and that of one from 0 at most the trace.
        """
        planned = self.__meter.take(query, Gaussian)
        trace *= 1 + 2 * (size + self.__problem.unit.slots + 32) * UNIT
        moved = trace / math.sqrt(sensitivity_factor(self.__problem.relation))
        upper, weights = packing(size)
        total = np.asarray(self.__data.total(work))[upper] * weights
        bound = moment_bounds.of_means(self.__problem, moved, trace)
        return unpacked(self.__meter.answer(planned, total / self.__problem.slots, bound), size)

    def __answer(self, planned: PlannedQuery, work: Work, moved: float, longest: float) -> Vector:
        """Return total / (n k) + noise, with the per-record bound `moved` of the exact total and the longest term."""
        bound = moment_bounds.of_means(self.__problem, moved, longest)
        return self.__meter.answer(planned, np.atleast_1d(self.__data.total(work)) / self.__problem.slots, bound)

    def __scores(self, w: Vector, frame: FullFrame, weights: AnyWeights) -> Scores:
        """Return the scores of a request that is in range, with private copies of its arguments."""
        if type(weights) not in get_args(AnyWeights):
            raise Unsuitable("weights must be those of solvers.weighting, whose bounds are proven")
        own = replace(weights)
        for limit in (own.row_limit, own.gradient_bound, own.curvature_bound):
            _check_limits(limit)
        return Scores(self.__checked(frame), _checked_point(w, frame), own)

    def __checked(self, frame: FullFrame) -> FullFrame:
        """Return a private copy of a frame; raise `Unsuitable` if it is out of range, by the request alone."""
        width = self.__problem.d - 1
        own = FullFrame(np.array(frame.matrix, float), np.array(frame.offset, float), np.array(frame.has_weight, bool))
        fits = own.matrix.shape == (own.size, width) and own.has_weight.shape == (width,) and own.size <= width + 1
        if not (fits and (np.abs(own.raw) <= _LARGEST_ENTRY).all()):
            raise Unsuitable("frame: entries must lie in [-1e30, 1e30], with a column for each coordinate of a row")
        return own


def packing(size: int) -> tuple[tuple[NDArray[np.int64], NDArray[np.int64]], Vector]:
    """Return the indices of the upper triangle of a matrix by rows, and the factor of each entry."""
    rows, columns = np.triu_indices(size)
    return (rows, columns), np.where(rows == columns, 1.0, math.sqrt(2))


def unpacked(entries: Vector, size: int) -> Matrix:
    """Return the symmetric matrix from its upper triangle, off the diagonal times sqrt(2)."""
    upper, factors = packing(size)
    matrix = np.zeros((size, size))
    matrix[upper] = entries / factors
    return matrix + np.triu(matrix, 1).T


def _checked_point(w: Vector, frame: FullFrame) -> Vector:
    """Return a private copy of w; raise `Unsuitable` if it has a wrong shape or is out of range."""
    if w.shape != (frame.size,) or not (np.abs(w) < _LARGEST_WEIGHT).all():
        raise Unsuitable("w must be finite, with one number for each coordinate of the frame")
    return np.array(w, dtype=float)


def _check_limits(limit: float) -> None:
    """Raise `Unsuitable` unless a bound of the records' terms is in range."""
    if not _LIMITS[0] <= limit <= _LIMITS[1]:
        raise Unsuitable("limits of records must lie in [1e-12, 1e12]")


def _slip(frame: FullFrame) -> float:
    """Return 1 and the relative rounding of a row's norm, its cut and its product with a number."""
    return 1 + (frame.size + 16) * UNIT
