"""StandardisedOracle: private moments, and gradients of limited slopes in coordinates that they centre and scale.

Precondition: the data are `Data.of` a problem whose columns are declared. The plan and n are public.
Promise: as `PrivateOracle`: all answers together are as private as the plan, however the questions are chosen.
Proofs: docs/proofs/standardisation.md, docs/proofs/adaptive_gd.md.
"""

import math
from collections.abc import Callable

import numpy as np

from accounting.mechanisms import Gaussian
from accounting.noise import Noise
from accounting.plan import Plan, PlannedQuery
from solvers import kernels
from solvers.bounds import UNIT, block_rows
from solvers.columns import Columns
from solvers.data_access.data import Data, blocks
from solvers.data_access.meter import Meter
from solvers.errors import Unsuitable
from solvers.frame import Frame
from solvers.problem import Problem, Vector

_SLIP = 1 + 8 * UNIT  # of a difference, a square, a shortening


class StandardisedOracle:
    """Noisy answers about rows whose layout is public: their moments, and gradients in a released frame.

    Every answer is one use of the Gaussian mechanism over all rows. Parameters as `PrivateOracle`.
    """

    __slots__ = ("__columns", "__data", "__inverse", "__meter", "__problem")

    def __init__(
        self, problem: Problem, data: Data, plan: Plan, noise: Noise, on_answer: Callable[[int], None] | None = None
    ) -> None:
        if data.problem != problem or problem.columns is None:
            raise Unsuitable("the data were prepared for another problem, or their columns are not declared")
        self.__problem, self.__data, self.__meter = problem, data, Meter(plan, noise, on_answer)
        self.__columns: Columns = problem.columns
        self.__inverse: tuple[Frame, Vector] | None = None

    def planned(self, query: str) -> PlannedQuery:
        """The query with its noise, as planned: public."""
        return self.__meter.look(query, Gaussian)

    def means(self, query: str) -> Vector:
        """The mean row without its constant, (d - 1,), + noise; replacing a row moves it by the rows' diameter / n."""
        planned = self.__meter.take(query, Gaussian)
        total = self.__total(lambda rows: self.__data.X[rows, :-1].sum(axis=0))
        return self.__answer(planned, total, self.__columns.diameter / 2, self.__columns.row_norm)

    def spread(self, query: str, center: Vector) -> float:
        """The mean of ||y||^2 + noise, y the numbers of x - m: between 0 and the sum of (1 + |m_j|)^2."""
        planned, most = self.__meter.take(query, Gaussian), float(self.__farthest(center).sum())
        total = self.__total(lambda rows: np.minimum((self.__numbers(rows, center) ** 2).sum(axis=1), most).sum())
        return float(self.__answer(planned, np.atleast_1d(total), most / 2, most)[0])

    def variances(self, query: str, center: Vector, radius: float) -> Vector:
        """The mean of y o y + noise, (p,), y the numbers of x - m, shortened to `radius` if that lets less noise do."""
        if not 0 < radius < math.inf:
            raise Unsuitable("a radius is positive and finite")
        planned, longest = self.__meter.take(query, Gaussian), float(np.linalg.norm(self.__farthest(center)))
        moved, short = self.__columns.variance_bound(center, radius), radius * radius
        cut = longest > math.sqrt(2) * short

        def squares(rows: slice) -> Vector:
            values: Vector = self.__numbers(rows, center) ** 2
            if cut:
                values *= (short / np.maximum(values.sum(axis=1), short))[:, None]
            return np.asarray(values.sum(axis=0))

        return self.__answer(planned, self.__total(squares), moved, min(longest, short) if cut else longest)

    def target_mean(self, query: str) -> float:
        """The mean of y in [-1, 1] + noise."""
        planned = self.__meter.take(query, Gaussian)
        total = self.__total(lambda rows: np.clip(self.__data.y[rows], -1, 1).sum())
        return float(self.__answer(planned, np.atleast_1d(total), 1.0, 1.0)[0])

    def target_spread(self, query: str, center: float) -> float:
        """The mean of |y - c| + noise, y and c in [-1, 1]: between 0 and 1 + |c|."""
        planned, most = self.__meter.take(query, Gaussian), 1 + abs(center)
        total = self.__total(lambda rows: np.abs(np.clip(self.__data.y[rows], -1, 1) - center).sum())
        return float(self.__answer(planned, np.atleast_1d(total), most / 2, most)[0])

    def residual(self, query: str, w: Vector, frame: Frame, most: float) -> float:
        """The mean of min(|<z, w> - y|, most) + noise."""
        planned = self.__meter.take(query, Gaussian)
        v = self.__raw(frame, w)[0]
        X, y = self.__data.X, self.__data.y
        total = self.__total(lambda rows: kernels.residual_sum(X, y, v, most, rows.start, rows.stop))
        return float(self.__answer(planned, np.atleast_1d(total), most / 2, most)[0])

    def gradient(self, query: str, w: Vector, frame: Frame, limit: float) -> Vector:
        """(1/n) sum_i t_i z_i + noise, z_i in the frame's coordinates and |t_i| <= limit / ||z_i||; flat.

        t is the loss's slope at <z, w>, times min(1, (limit / ||z||) / the largest slope over all targets at that
        margin) for classes, which keeps the minimizer where the log-odds are right; cut for numbers.

        Raises
        ------
        OutOfPlan
            if the plan does not hold this answer.
        Unsuitable
            if w, the frame or the limit are not finite and of the problem's shape: functions of the question alone.
        """
        if not 0 < limit < math.inf:
            raise Unsuitable("a limit is positive and finite")
        v, problem = self.__raw(frame, w), self.__problem
        planned, allowed = self.__meter.take(query, Gaussian), self.__allowed(frame)
        sums = np.zeros(v.shape)
        for rows in blocks(problem.n, problem.width):
            sums += self.__sum(v, allowed, limit, rows)
        scale, center = frame.scale, np.abs(frame.center)
        parts = np.maximum.reduceat(scale**2, self.__columns.starts) if len(scale) else np.zeros(1)
        lengths = math.sqrt(float(parts.sum())) + float(np.linalg.norm(scale * center)) + frame.constant
        value = frame.pulled_back(sums).ravel() / problem.n
        added = limit * (1 + (problem.d + 16) * UNIT)
        return self.__answer(planned, value * problem.n, added, limit / frame.constant * lengths * _SLIP)

    def transcript(self) -> Plan:
        """What was really answered."""
        return self.__meter.transcript()

    def __sum(self, v: Vector, inverse: Vector, limit: float, rows: slice) -> Vector:
        """Of t_i x_i over a block, (K, d)."""
        X, y, loss = self.__data.X, self.__data.y, self.__problem.loss
        if loss.outputs > 1:
            total: Vector = kernels.softmax_sum(X, y, inverse, limit, v, rows.start, rows.stop)
            return total
        classes = loss.takes == "class"
        one: Vector = kernels.scalar_sum(X, y, inverse, limit, v[0], classes, rows.start, rows.stop)
        return one[None]

    def __raw(self, frame: Frame, w: Vector) -> Vector:
        """What the stored rows are multiplied with, (K, d)."""
        finite = all(np.isfinite(part).all() for part in (w, frame.center, frame.scale)) and 0 < frame.constant < 1e3
        shaped = w.shape == (self.__problem.size,) and frame.center.shape == frame.scale.shape == (
            self.__problem.d - 1,
        )
        if not (finite and shaped and (np.abs(w) < 1e50).all() and (np.abs(frame.center) <= 1).all()):
            raise Unsuitable("a point is finite and has a coordinate for each column and each output")
        if not ((frame.scale > 0) & (frame.scale < 1e25)).all():
            raise Unsuitable("a frame's scale is positive and finite")
        return np.ascontiguousarray(frame.raw(w.reshape(-1, self.__problem.d)))

    def __allowed(self, frame: Frame) -> Vector:
        """1 / ||z_i|| for every row; a frame is used for many answers."""
        if self.__inverse is None or self.__inverse[0] is not frame:
            squares, m = frame.scale**2, frame.center
            self.__inverse = frame, kernels.inverse_norms(self.__data.X, m, squares, frame.constant)
        return self.__inverse[1]

    def __numbers(self, rows: slice, center: Vector) -> Vector:
        """The numbers of x - m, (rows, p)."""
        at = self.__columns.is_number
        return self.__data.X[rows, :-1][:, at] - center[at]

    def __farthest(self, center: Vector) -> Vector:
        """(1 + |m_j|)^2 of the numbers, with the rounding of a difference and a square."""
        farthest: Vector = (1 + np.abs(center[self.__columns.is_number])) ** 2 * _SLIP
        return farthest

    def __total(self, of: Callable[[slice], Vector | float]) -> Vector:
        """The sum over all rows, block by block."""
        total = np.zeros(())
        for rows in blocks(self.__problem.n, self.__problem.width):
            total = total + of(rows)
        return total

    def __answer(self, planned: PlannedQuery, total: Vector, moved: float, longest: float) -> Vector:
        """total / n made private: replacing a record moves the exact total by 2 `moved`; a term's norm is `longest`."""
        n, block = self.__problem.n, block_rows(self.__problem.width)
        rounding = (min(block, n) + n / block + 8) * UNIT * longest
        return self.__meter.answer(planned, total / n, moved * _SLIP / n + rounding)
