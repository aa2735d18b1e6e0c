"""StandardisedOracle: private moments, and limited gradients in coordinates that are centered and scaled by them.

Precondition: the data are `Data` of a problem whose columns are declared. The plan and n are public.
Guarantee: as `FullBatchOracle`. All answers together are as private as the plan, for all choices of requests.
Proofs: docs/proofs/standardisation.md, docs/proofs/adaptive_gd.md.
"""

import math

import numpy as np

from accounting.mechanisms import Gaussian
from accounting.plan import PlannedQuery
from accounting.privacy import sensitivity_factor
from solvers import moment_bounds
from solvers.bounds import UNIT
from solvers.data_access.data import Work
from solvers.data_access.frames import check_center, checked
from solvers.data_access.meter import AbstractOracle
from solvers.data_access.moment_sums import Limited, MeanRow, ResidualSum, SpreadSum, Squares, Targets, columns_of
from solvers.errors import Unsuitable
from solvers.frame import Frame
from solvers.problem import Vector

_SHORTEST, _LONGEST = 1e-100, 1e100  # so that no square of a limit, a norm or its inverse underflows


class StandardisedOracle(AbstractOracle):
    """Private moments of rows whose layout is public, and gradients in a released frame.

    Every answer is one use of the Gaussian mechanism over all rows. Parameters as `AbstractOracle`. If a record is a
    person, sums are divided by the number of slots, n k. `means` also releases the share of slots that hold a row. All
    answers but gradients are divided by this share, so they are means over rows.
    """

    __slots__ = ("_columns", "_factor", "_means", "_share")

    def _set_up(self) -> None:
        self._columns = columns_of(self._data)
        self._factor = sensitivity_factor(self._problem.relation)
        self._share = 1.0
        self._means: tuple[Vector, float] | None = None

    @property
    def released_means(self) -> tuple[Vector, float] | None:
        """The last answer of `means` with the std of its noise; None before the first one."""
        return self._means

    @property
    def share(self) -> float:
        """The noisy share of slots that hold a row, in (0, 1], which `means` released; 1 before that, and for rows."""
        return self._share

    def planned(self, query: str) -> PlannedQuery:
        """Return the query with its planned noise, which is public."""
        return self._meter.look(query, Gaussian)

    def means(self, query: str) -> Vector:
        """Return the mean row without its constant, (d - 1,), + noise; a replaced row moves it by the diameter / n.

        For persons, the query also answers the constant, whose mean is the share of slots that hold a row.
        """
        planned, problem = self._meter.take(query, Gaussian), self._problem
        total, is_person = self._data.total(MeanRow()), problem.unit.is_person
        total = total if is_person else total[:-1]
        moved = moment_bounds.means(self._columns, problem.relation, problem.unit)
        answer = self._answer(planned, total, moved, self._columns.row_norm)
        noise_std = planned.noise_multiplier * moved / problem.n
        if is_person:
            self._share = min(1.0, max(float(answer[-1]), noise_std))
            answer = answer[:-1] / self._share
        self._means = (answer.copy(), noise_std / self._share)  # a method may change its own array
        return answer

    def spread(self, query: str, center: Vector) -> float:
        """Return the mean of ||y||^2 + noise, with y the numbers of x - m; ||y||^2 is at most the sum of `farthest`."""
        check_center(center, self._problem)
        planned = self._meter.take(query, Gaussian)
        limit = float(self._farthest(center).sum())
        return float(self._mean(planned, SpreadSum(center, limit), limit / self._factor, limit)[0])

    def variances(self, query: str, center: Vector, radius: float) -> Vector:
        """Return the mean of y o y + noise, (p,), with y the numbers of x - m.

        y is shortened to `radius` if that saves noise.
        """
        check_center(center, self._problem)
        _check_length(radius)
        planned = self._meter.take(query, Gaussian)
        longest = float(np.linalg.norm(self._farthest(center)))
        moved = moment_bounds.variances(self._columns, center, radius, self._problem.relation)
        squared_radius = radius * radius
        moved *= 1 + (self._columns.widths.count(1) + 16) * UNIT  # rounding of the computed ||y||^2
        is_shortened = longest > math.sqrt(self._factor) * squared_radius
        squares = Squares(center, squared_radius if is_shortened else math.inf)
        return self._mean(planned, squares, moved, min(longest, squared_radius) if is_shortened else longest)

    def target_mean(self, query: str) -> float:
        """Return the mean of y in [-1, 1] + noise."""
        planned = self._meter.take(query, Gaussian)
        return float(self._mean(planned, Targets(), 1.0, 1.0)[0])

    def target_spread(self, query: str, center: float) -> float:
        """Return the mean of |y - c| + noise, with y and c in [-1, 1] and |y - c| <= 1 + |c|."""
        if not abs(center) <= 1:
            raise Unsuitable("center must lie in [-1, 1], as targets do")
        planned = self._meter.take(query, Gaussian)
        limit = 1 + abs(center)
        return float(self._mean(planned, Targets(center), limit / self._factor, limit)[0])

    def residual(self, query: str, w: Vector, frame: Frame, limit: float) -> float:
        """Return the mean of min(|<z, w> - y|, limit) + noise."""
        own = self._own(frame, limit)
        points = self._points(w)
        planned = self._meter.take(query, Gaussian)
        return float(self._mean(planned, ResidualSum(own, points[0], limit), limit / self._factor, limit)[0])

    def gradient(self, query: str, w: Vector, frame: Frame, limit: float, smoothing: float = 0.0) -> Vector:
        """Return (1/n) sum_i t_i z_i + noise, flat, with z_i in the frame and |t_i| <= limit / ||z_i||.

        t is the loss's slope at <z, w>. For `squared` it is clipped. For other losses it is multiplied by
        min(1, (limit / ||z||) / s), which does not move the minimizer if the model is right. For `logistic` and
        `softmax`, s is the largest slope over all targets at this margin, otherwise the bound of all slopes.

        Parameters
        ----------
        limit : C
        smoothing : a loss with a kink is replaced by its form with at least this smoothing, unless that is 0

        Raises
        ------
        OutOfPlan
            if the plan does not hold this answer
        Unsuitable
            if w, the frame, the limit or the smoothing are not finite or have a wrong shape; this depends on the
            request only
        """
        own = self._own(frame, limit)
        points = self._points(w)
        problem = self._problem
        if not 0 <= smoothing <= _LONGEST:
            raise Unsuitable("smoothing must be 0 or a positive number")
        planned = self._meter.take(query, Gaussian)
        sums = self._data.total(Limited(own, points, limit, smoothing))
        added = limit * (1 + (problem.d + 2 * problem.outputs + 16) * UNIT)
        longest = limit / own.constant * own.longest(self._columns) * (1 + (problem.d + 8) * UNIT)
        return self._answer(planned, sums.ravel(), added, longest)

    def _own(self, frame: Frame, limit: float) -> Frame:
        """Return a checked copy of the frame, and check the limit."""
        _check_length(limit)
        return checked(frame, self._problem)

    def _points(self, w: Vector) -> Vector:
        """Return w in the shape (K, d)."""
        if w.shape != (self._problem.size,) or not (np.abs(w) < 1e50).all():
            raise Unsuitable("w must be finite, with one coordinate for each column and each output")
        return np.ascontiguousarray(w.reshape(-1, self._problem.d))

    def _farthest(self, center: Vector) -> Vector:
        """Return the largest squared difference of each number, including the rounding of its computation."""
        farthest = moment_bounds.farthest(self._columns, center)
        return farthest * (1 + (len(farthest) + 16) * UNIT)

    def _mean(self, planned: PlannedQuery, work: Work, moved: float, longest: float) -> Vector:
        """Return the sum + noise as a mean over the slots that hold a row."""
        return self._answer(planned, np.atleast_1d(self._data.total(work)), moved, longest) / self._share

    def _answer(self, planned: PlannedQuery, total: Vector, moved: float, longest: float) -> Vector:
        """Return total / (n k) + noise, with the per-record bound `moved` of the exact total and the longest term."""
        moved = moment_bounds.of_means(self._problem, moved, longest)
        return self._meter.answer(planned, total / self._problem.slots, moved)


def _check_length(length: float) -> None:
    """Raise `Unsuitable` unless the square of the length is a positive float."""
    if not _SHORTEST <= length <= _LONGEST:
        raise Unsuitable("limit and radius must lie in [1e-100, 1e100]")
