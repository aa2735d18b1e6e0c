"""StandardisedOracle: private moments, and limited gradients in coordinates that are centred and scaled by them.

Precondition: the data are `Data` of a problem whose columns are declared. The plan and n are public.
Guarantee: as `FullBatchOracle`. All answers together are as private as the plan, for all choices of requests.
Proofs: docs/proofs/standardisation.md, docs/proofs/adaptive_gd.md.
"""

import math
from collections.abc import Callable

import numpy as np

from accounting.mechanisms import Gaussian
from accounting.noise import Noise
from accounting.plan import Plan, PlannedQuery
from accounting.privacy import sensitivity_factor
from solvers import moment_bounds
from solvers.bounds import UNIT
from solvers.columns import Columns
from solvers.data_access.frames import check_center, checked
from solvers.data_access.meter import Meter
from solvers.data_access.moment_sums import Limited, MeanRow, Residuals, Spread, Squares, Targets
from solvers.data_access.summed import Summed
from solvers.errors import Unsuitable
from solvers.frame import Frame
from solvers.problem import Problem, Vector

_SHORTEST, _LONGEST = 1e-100, 1e100  # so that no square of a limit, a norm or its inverse underflows


class StandardisedOracle:
    """Private moments of rows whose layout is public, and gradients in a released frame.

    Every answer is one use of the Gaussian mechanism over all rows. Parameters as `FullBatchOracle`. If a record is a
    person, sums are divided by n k. Means of anything but gradients are also divided by the share of slots that hold a
    row, which `means` releases with its answer; so they are means over rows.
    """

    __slots__ = ("__columns", "__data", "__factor", "__means", "__meter", "__problem", "__relation", "__share")

    def __init__(
        self, problem: Problem, data: Summed, plan: Plan, noise: Noise, on_answer: Callable[[int], None] | None = None
    ) -> None:
        if data.problem != problem or problem.columns is None:
            raise Unsuitable("the data were prepared for another problem, or their columns are not declared")
        self.__problem, self.__data, self.__meter = problem, data, Meter(plan, noise, on_answer, problem.relation)
        self.__columns: Columns = problem.columns
        self.__relation, self.__factor = problem.relation, sensitivity_factor(problem.relation)
        self.__share = 1.0
        self.__means: tuple[Vector, float] | None = None

    @property
    def released_means(self) -> tuple[Vector, float] | None:
        """The last answer of `means` with the std of its noise; None before the first one."""
        return self.__means

    @property
    def share(self) -> float:
        """The noisy share of slots that hold a row, in (0, 1], which `means` released; 1 before that, and for rows."""
        return self.__share

    def planned(self, query: str) -> PlannedQuery:
        """Return the query with its planned noise, which is public."""
        return self.__meter.look(query, Gaussian)

    def means(self, query: str) -> Vector:
        """Return the mean row without its constant, (d - 1,), + noise; a replaced row moves it by the diameter / n.

        For persons, the query also answers the constant, whose mean is the share of slots that hold a row.
        """
        planned, problem = self.__meter.take(query, Gaussian), self.__problem
        total, is_person = self.__data.total(MeanRow()), problem.unit.is_person
        total = total if is_person else total[:-1]
        moved = moment_bounds.means(self.__columns, problem.relation, problem.unit)
        answer = self.__answer(planned, total, moved, self.__columns.row_norm)
        noise_std = planned.noise_multiplier * moved / problem.n
        if is_person:
            self.__share = min(1.0, max(float(answer[-1]), noise_std))
            answer = answer[:-1] / self.__share
        self.__means = (answer.copy(), noise_std / self.__share)  # a method may change its own array
        return answer

    def spread(self, query: str, center: Vector) -> float:
        """Return the mean of ||y||^2 + noise, with y the numbers of x - m; ||y||^2 is at most the sum of `farthest`."""
        check_center(center, self.__problem)
        planned, limit = self.__meter.take(query, Gaussian), float(self.__farthest(center).sum())
        total = self.__data.total(Spread(center, limit))
        return float(self.__mean(planned, np.atleast_1d(total), limit / self.__factor, limit)[0])

    def variances(self, query: str, center: Vector, radius: float) -> Vector:
        """Return the mean of y o y + noise, (p,), with y the numbers of x - m.

        y is shortened to `radius` if that saves noise.
        """
        check_center(center, self.__problem)
        _check_length(radius)
        planned, longest = self.__meter.take(query, Gaussian), float(np.linalg.norm(self.__farthest(center)))
        moved, squared_radius = (
            moment_bounds.variances(self.__columns, center, radius, self.__relation),
            radius * radius,
        )
        moved *= 1 + (self.__columns.widths.count(1) + 16) * UNIT  # rounding of the computed ||y||^2
        is_shortened = longest > math.sqrt(self.__factor) * squared_radius
        total = self.__data.total(Squares(center, squared_radius if is_shortened else math.inf))
        return self.__mean(planned, total, moved, min(longest, squared_radius) if is_shortened else longest)

    def target_mean(self, query: str) -> float:
        """Return the mean of y in [-1, 1] + noise."""
        planned = self.__meter.take(query, Gaussian)
        total = self.__data.total(Targets())
        return float(self.__mean(planned, np.atleast_1d(total), 1.0, 1.0)[0])

    def target_spread(self, query: str, center: float) -> float:
        """Return the mean of |y - c| + noise, with y and c in [-1, 1] and |y - c| <= 1 + |c|."""
        if not abs(center) <= 1:
            raise Unsuitable("center must lie in [-1, 1], as targets do")
        planned, limit = self.__meter.take(query, Gaussian), 1 + abs(center)
        total = self.__data.total(Targets(center))
        return float(self.__mean(planned, np.atleast_1d(total), limit / self.__factor, limit)[0])

    def residual(self, query: str, w: Vector, frame: Frame, limit: float) -> float:
        """Return the mean of min(|<z, w> - y|, limit) + noise."""
        own, points = self.__own(frame, limit), self.__points(w)
        planned = self.__meter.take(query, Gaussian)
        total = self.__data.total(Residuals(own, points[0], limit))
        return float(self.__mean(planned, np.atleast_1d(total), limit / self.__factor, limit)[0])

    def gradient(self, query: str, w: Vector, frame: Frame, limit: float) -> Vector:
        """Return (1/n) sum_i t_i z_i + noise, flat, with z_i in the frame and |t_i| <= limit / ||z_i||.

        t is the loss's slope at <z, w>. For numbers it is clipped. For classes it is multiplied by
        min(1, (limit / ||z||) / s), with s the largest slope over all targets at this margin; this does not move the
        minimizer if the log-odds are right.

        Raises
        ------
        OutOfPlan
            if the plan does not hold this answer
        Unsuitable
            if w, the frame or the limit are not finite or have a wrong shape; this depends on the request only
        """
        own, points, problem = self.__own(frame, limit), self.__points(w), self.__problem
        planned = self.__meter.take(query, Gaussian)
        sums = self.__data.total(Limited(own, points, limit))
        added = limit * (1 + (problem.d + 2 * problem.outputs + 16) * UNIT)
        longest = limit / own.constant * own.longest(self.__columns) * (1 + (problem.d + 8) * UNIT)
        return self.__answer(planned, sums.ravel(), added, longest)

    def transcript(self) -> Plan:
        """Return what was really answered."""
        return self.__meter.transcript()

    def __own(self, frame: Frame, limit: float) -> Frame:
        """Return a checked copy of the frame, and check the limit."""
        _check_length(limit)
        return checked(frame, self.__problem)

    def __points(self, w: Vector) -> Vector:
        """Return w in the shape (K, d)."""
        if w.shape != (self.__problem.size,) or not (np.abs(w) < 1e50).all():
            raise Unsuitable("w must be finite, with one coordinate for each column and each output")
        return np.ascontiguousarray(w.reshape(-1, self.__problem.d))

    def __farthest(self, center: Vector) -> Vector:
        """Return the largest squared difference of each number, including the rounding of its computation."""
        farthest = moment_bounds.farthest(self.__columns, center)
        return farthest * (1 + (len(farthest) + 16) * UNIT)

    def __mean(self, planned: PlannedQuery, total: Vector, moved: float, longest: float) -> Vector:
        """Return the answer as a mean over the slots that hold a row."""
        return self.__answer(planned, total, moved, longest) / self.__share

    def __answer(self, planned: PlannedQuery, total: Vector, moved: float, longest: float) -> Vector:
        """Return total / (n k) + noise, with the per-record bound `moved` of the exact total and the longest term."""
        moved = moment_bounds.of_means(self.__problem, moved, longest)
        return self.__meter.answer(planned, total / self.__problem.slots, moved)


def _check_length(length: float) -> None:
    """Raise `Unsuitable` unless the square of the length is a positive float."""
    if not _SHORTEST <= length <= _LONGEST:
        raise Unsuitable("limit and radius must lie in [1e-100, 1e100]")
