"""WeightedOracle: private curvatures and scores of a generalized linear model, whose records have bounded weights.

Precondition and guarantee: as `StandardisedOracle`. Proof: docs/proofs/regression_table.md.
"""

import math
from dataclasses import replace
from typing import get_args

import numpy as np

from accounting.mechanisms import Gaussian
from accounting.plan import PlannedQuery
from accounting.privacy import sensitivity_factor
from solvers import moment_bounds
from solvers.bounds import UNIT
from solvers.data_access.data import Work
from solvers.data_access.weighted_sums import Curvatures, Distances, LongRows, Matrix, SquaredScores, WeightedScores
from solvers.data_access.with_moments import AbstractWithMoments
from solvers.errors import Unsuitable
from solvers.full_frame import FullFrame
from solvers.packing import packing, unpacked
from solvers.problem import Vector
from solvers.weighting import MOMENTS_OF_TABLES, AnyWeights

_LARGEST_ENTRY, _LARGEST_WEIGHT = 1e30, 1e50  # of a frame and of w, so that no square or margin overflows
_LIMITS = 1e-12, 1e12
MOST_CACHED_COORDINATES = 2**26
"""Largest number of coordinates, of all rows in all partitions, that are kept between sums."""


class WeightedOracle(AbstractWithMoments):
    """Private answers about rows whose layout is public, each one use of the Gaussian mechanism over all records.

    Matrices are answered as their upper triangle, off the diagonal times sqrt(2), so their l2 norm is the Frobenius
    norm. The noise in the symmetric matrix then has the std s on the diagonal, and s / sqrt(2) off it. Parameters as
    `AbstractWithMoments`.
    """

    __slots__ = ()
    _moment_queries = MOMENTS_OF_TABLES

    def planned(self, query: str) -> PlannedQuery:
        """Return the query with its planned noise, which is public; it may be a query of the moments."""
        is_of_moments = query in self._moment_queries
        return self.moments.planned(query) if is_of_moments else self._meter.look(query, Gaussian)

    def second_moments(self, query: str, frame: FullFrame, limit: float) -> Matrix:
        """Return (1/n) sum of omega u u' + noise, with omega = min(1, limit / ||u||^2)."""
        own = self._checked(frame)
        _check_limits(limit)
        return self._matrix(query, LongRows(own, limit), own.size, limit)

    def residual(self, query: str, w: Vector, frame: FullFrame, limit: float) -> float:
        """Return the mean of min(|<u, w> - y|, limit) + noise, with 0 for rows without a weight."""
        own = self._checked(frame)
        point = _checked_point(w, own)
        _check_limits(limit)
        planned = self._meter.take(query, Gaussian)
        moved = limit / sensitivity_factor(self._problem.relation)
        return float(self._answer(planned, Distances(own, point, limit, self._keeps(own)), moved, limit)[0])

    def gradient(self, query: str, w: Vector, frame: FullFrame, weights: AnyWeights) -> Vector:
        """Return (1/n) sum of omega t u at w + noise; a record's term is no longer than the gradient bound."""
        work = self._scores(w, frame, weights)
        planned = self._meter.take(query, Gaussian)
        bound = work.weights.gradient_bound * _slip(work.frame)
        return self._answer(planned, work, bound, bound)

    def curvature(self, query: str, w: Vector, frame: FullFrame, weights: AnyWeights) -> Matrix:
        """Return (1/n) sum of omega f u u' at w + noise; a record's term has a trace of at most the curvature bound."""
        scores = self._scores(w, frame, weights)
        work = Curvatures(scores.frame, scores.w, scores.weights, scores.keeps)
        return self._matrix(query, work, work.frame.size, work.weights.curvature_bound)

    def squared_scores(self, query: str, w: Vector, frame: FullFrame, weights: AnyWeights) -> Matrix:
        """Return (1/n) sum of S S' at w + noise, with S the mean of omega t u over a record's slots."""
        k, work = self._problem.unit.slots, SquaredScores(self._scores(w, frame, weights))
        scores = work.scores
        return k * self._matrix(query, work, scores.frame.size, scores.weights.gradient_bound**2 / k)

    def _matrix(self, query: str, work: Work, size: int, trace: float) -> Matrix:
        """Return the mean of positive semidefinite terms with at most this trace + noise.

        The distance of two of them is at most sqrt(2) trace, and that of one from 0 at most the trace.
        """
        planned = self._meter.take(query, Gaussian)
        trace *= 1 + 2 * (size + self._problem.unit.slots + 32) * UNIT
        moved = trace / math.sqrt(sensitivity_factor(self._problem.relation))
        upper, weights = packing(size)
        total = np.asarray(self._data.total(work))[upper] * weights
        bound = moment_bounds.of_means(self._problem, moved, trace)
        return unpacked(self._meter.answer(planned, total / self._problem.slots, bound), size)

    def _answer(self, planned: PlannedQuery, work: Work, moved: float, longest: float) -> Vector:
        """Return total / (n k) + noise, with the per-record bound `moved` of the exact total and the longest term."""
        bound = moment_bounds.of_means(self._problem, moved, longest)
        return self._meter.answer(planned, np.atleast_1d(self._data.total(work)) / self._problem.slots, bound)

    def _scores(self, w: Vector, frame: FullFrame, weights: AnyWeights) -> WeightedScores:
        """Return the scores of a request that is in range, with private copies of its arguments."""
        if type(weights) not in get_args(AnyWeights):
            raise Unsuitable("weights must be those of solvers.weighting, whose bounds are proven")
        own = replace(weights)
        for limit in (own.row_limit, own.gradient_bound, own.curvature_bound):
            _check_limits(limit)
        checked = self._checked(frame)
        return WeightedScores(checked, _checked_point(w, checked), own, self._keeps(checked))

    def _keeps(self, frame: FullFrame) -> bool:
        """Return whether the coordinates of all rows are kept between sums; every partition keeps its own."""
        return self._problem.slots * frame.size <= MOST_CACHED_COORDINATES

    def _checked(self, frame: FullFrame) -> FullFrame:
        """Return a private copy of a frame. Raise `Unsuitable` if it is out of range, by the request alone."""
        width = self._problem.d - 1
        own = FullFrame(np.array(frame.matrix, float), np.array(frame.offset, float), np.array(frame.has_weight, bool))
        fits = own.matrix.shape == (own.size, width) and own.has_weight.shape == (width,) and 0 < own.size <= width + 1
        if not (fits and (np.abs(own.raw) <= _LARGEST_ENTRY).all()):
            raise Unsuitable("frame: entries must lie in [-1e30, 1e30], with a column for each coordinate of a row")
        return own


def _checked_point(w: Vector, frame: FullFrame) -> Vector:
    """Return a private copy of w. Raise `Unsuitable` if it has a wrong shape or is out of range."""
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
