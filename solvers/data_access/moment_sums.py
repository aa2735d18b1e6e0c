"""Sums over records of declared columns, for `StandardisedOracle`."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from solvers import kernels
from solvers.bounds import Reads
from solvers.columns import Columns
from solvers.data_access.data import Data, Slots, Work, listed
from solvers.data_access.frames import in_frame
from solvers.data_access.rows import entries_of, stored_numbers
from solvers.data_access.summed import Summed
from solvers.errors import Unsuitable
from solvers.frame import Frame
from solvers.losses import Logistic, Softmax, Squared
from solvers.losses.smoothing import BoundedSlope, at_least
from solvers.problem import Vector


@dataclass(frozen=True, slots=True)
class MeanRow(Work):
    """The sum of rows, including the constant: (d,)."""

    def sum(self, data: Data, rows: Slots) -> Vector:
        """Return the sum over a piece."""
        return kernels.weighted_sum(data.records, data.present(rows).astype(np.float64), listed(rows))


@dataclass(frozen=True, slots=True, eq=False)
class SpreadSum(Work):
    """The sum of min(||y||^2, limit), with y the numbers of x - m."""

    reads: ClassVar[Reads] = "numbers"

    center: Vector
    limit: float

    def sum(self, data: Data, rows: Slots) -> Vector:
        """Return the sum over a piece."""
        return np.array(np.minimum(_squared(data, rows, self.center), self.limit).sum())


@dataclass(frozen=True, slots=True, eq=False)
class Squares(Work):
    """The sum of y o y, (p,), with y the numbers of x - m, shortened to ||y||^2 <= limit unless that is infinite."""

    reads: ClassVar[Reads] = "numbers"

    center: Vector
    limit: float

    def sum(self, data: Data, rows: Slots) -> Vector:
        """Return the sum over a piece."""
        if data.is_sparse:
            return self._of_entries(data, rows)
        values: Vector = numbers_of(data, rows, self.center) ** 2
        if self.limit < np.inf:
            values *= (self.limit / np.maximum(values.sum(axis=1), self.limit))[:, None]
        return np.asarray(values.sum(axis=0))

    def _of_entries(self, data: Data, rows: Slots) -> Vector:
        """Return the sum over a piece of sparse rows."""
        weights = data.present(rows).astype(np.float64)
        if self.limit < np.inf:
            weights *= self.limit / np.maximum(_squared(data, rows, self.center), self.limit)
        start, _ = range_of(rows)
        return kernels.square_sums(data.records, _center_of_numbers(data, self.center), weights, start)


@dataclass(frozen=True, slots=True)
class Targets(Work):
    """The sum of y, clipped to [-1, 1], or of |y - c| if there is a center c."""

    reads: ClassVar[Reads] = "numbers"

    center: float | None = None

    def sum(self, data: Data, rows: Slots) -> Vector:
        """Return the sum over a piece."""
        y = np.clip(data.y[rows], -1, 1)
        values = y if self.center is None else np.abs(y - self.center)
        return np.array((values * data.present(rows)).sum())


@dataclass(frozen=True, slots=True, eq=False)
class ResidualSum(Work):
    """The sum of min(|<z, w> - y|, limit), with z a row in a checked frame."""

    reads: ClassVar[Reads] = "numbers"

    frame: Frame
    w: Vector
    limit: float

    def sum(self, data: Data, rows: Slots) -> Vector:
        """Return the sum over a range of slots."""
        records = in_frame(data, self.frame)
        return np.array(kernels.residual_sum(records, data.y, data.scale, self.w, self.limit, *range_of(rows)))


@dataclass(frozen=True, slots=True, eq=False)
class Limited(Work):
    """The sum of t_i z_i with |t_i| <= limit / ||z_i|| in a checked frame: (K, d). W has a row for each output.

    t_i is a slope of the problem's loss, or of its form with at least the given smoothing.
    """

    frame: Frame
    W: Vector
    limit: float
    smoothing: float = 0.0

    def prepare(self, data: Data) -> None:
        """Compute the norms of all rows in the frame."""
        inverse_norms_in(data, self.frame)

    def sum(self, data: Data, rows: Slots) -> Vector:
        """Return the sum over a range of slots."""
        records = in_frame(data, self.frame)
        examples = kernels.FramedExamples(records, data.y, inverse_norms_in(data, self.frame)).read_only()
        (start, stop), W, limit, loss = range_of(rows), self.W, self.limit, data.problem.loss
        if isinstance(loss, BoundedSlope) and self.smoothing > 0:
            loss = at_least(loss, self.smoothing)
        bounded = None if isinstance(loss, Logistic | Softmax | Squared) else loss.compiled
        if isinstance(loss, Softmax):
            return kernels.softmax_sum(examples, limit, W, start, stop)
        if bounded is not None:
            return kernels.bounded_sum(examples, limit, bounded, W[0], start, stop)[None]
        scalar_sum = kernels.logistic_sum if loss.takes == "class" else kernels.squared_sum
        return scalar_sum(examples, limit, W[0], start, stop)[None]


def columns_of(data: Summed) -> Columns:
    """Return the declared layout of the rows; raise `Unsuitable` if there is none."""
    if data.problem.columns is None:
        raise Unsuitable("columns must be declared")
    return data.problem.columns


def numbers_of(data: Data, rows: Slots, center: Vector) -> Vector:
    """Return the numbers of x - m, (rows, p), with zeros for empty slots."""
    at, records = columns_of(data).is_number, data.records
    if data.is_sparse:
        start, stop = range_of(rows)
        stored: NDArray[np.floating[Any]] = np.zeros((stop - start, int(at.sum())))
        row, entry, values = entries_of(records, slice(start, stop))
        stored[row, entry] = values
    else:
        stored = stored_numbers(records)[rows][:, records.positions[:-1][at]]
    return np.asarray((stored - center[at]) * data.present(rows)[:, None])


def _center_of_numbers(data: Data, center: Vector) -> Vector:
    """Return the coordinates of the center that are numbers."""
    return np.ascontiguousarray(center[columns_of(data).is_number])


def _squared(data: Data, rows: Slots, center: Vector) -> Vector:
    """Return ||y||^2 of each row, with y the numbers of x - m, and 0 for empty slots."""
    if data.is_sparse:
        return kernels.distances(data.records, _center_of_numbers(data, center), *range_of(rows)) * data.present(rows)
    return np.asarray((numbers_of(data, rows, center) ** 2).sum(axis=1))


def range_of(rows: Slots) -> tuple[int, int]:
    """Return start and stop of a range of slots; raise `Unsuitable` if the slots are not a range."""
    if not isinstance(rows, slice):
        raise Unsuitable("this sum needs a range of slots, not a batch")
    return rows.start, rows.stop


def inverse_norms_in(data: Data, own: Frame) -> Vector:
    """Return 1 / ||z_i|| of every row, and 0 for empty slots, cached because a frame has many answers."""
    cached: tuple[Frame, Vector] | None = data.cache.get("inverse_norms")
    if cached is not None:
        frame, inverse = cached
        if (
            frame.constant == own.constant
            and np.array_equal(frame.center, own.center)
            and np.array_equal(frame.scale, own.scale)
        ):
            return inverse
    inverse = kernels.inverse_norms(in_frame(data, own))
    inverse *= data.present()
    data.cache["inverse_norms"] = own, inverse
    return inverse
