"""What `StandardisedOracle` adds up over records whose layout is declared, and pays noise for."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from solvers import kernels
from solvers.bounds import Reads
from solvers.columns import Columns
from solvers.data_access.data import Data, listed
from solvers.data_access.frames import in_frame
from solvers.data_access.rows import entries_of, stored_numbers
from solvers.data_access.summed import Slots, Work
from solvers.errors import Unsuitable
from solvers.frame import Frame
from solvers.problem import Vector

Sum = Callable[[Slots], NDArray[Any]]


@dataclass(frozen=True, slots=True)
class MeanRow(Work):
    """Of rows, the constant included: (d,)."""

    def on(self, data: Data) -> Sum:
        """Over a piece."""
        return lambda rows: kernels.weighted_sum(data.records, data.present(rows).astype(np.float64), listed(rows))


@dataclass(frozen=True, slots=True, eq=False)
class Spread(Work):
    """Of min(||y||^2, most), y the numbers of x - m."""

    reads: ClassVar[Reads] = "numbers"

    center: Vector
    most: float

    def on(self, data: Data) -> Sum:
        """Over a piece."""

        def added(rows: Slots) -> Vector:
            return np.array(np.minimum(_squared(data, rows, self.center), self.most).sum())

        return added


@dataclass(frozen=True, slots=True, eq=False)
class Squares(Work):
    """Of y o y, (p,), y the numbers of x - m, shortened to ||y||^2 <= short unless that is infinite."""

    reads: ClassVar[Reads] = "numbers"

    center: Vector
    short: float

    def on(self, data: Data) -> Sum:
        """Over a piece."""

        def squares(rows: Slots) -> Vector:
            values: Vector = numbers_of(data, rows, self.center) ** 2
            if self.short < np.inf:
                values *= (self.short / np.maximum(values.sum(axis=1), self.short))[:, None]
            return np.asarray(values.sum(axis=0))

        def of_entries(rows: Slots) -> Vector:
            weights = data.present(rows).astype(np.float64)
            if self.short < np.inf:
                weights *= self.short / np.maximum(_squared(data, rows, self.center), self.short)
            found: Vector = kernels.square_sums(data.records, _numbers(data, self.center), weights, range_of(rows)[0])
            return found

        return of_entries if data.is_sparse else squares


@dataclass(frozen=True, slots=True)
class Targets(Work):
    """Of y, cut to [-1, 1]; with a center c of |y - c|."""

    reads: ClassVar[Reads] = "numbers"

    center: float | None = None

    def on(self, data: Data) -> Sum:
        """Over a piece."""

        def added(rows: Slots) -> Vector:
            y = np.clip(data.y[rows], -1, 1)
            values = y if self.center is None else np.abs(y - self.center)
            return np.array((values * data.present(rows)).sum())

        return added


@dataclass(frozen=True, slots=True, eq=False)
class Residuals(Work):
    """Of min(|<z, w> - y|, most), z a row of a checked frame."""

    reads: ClassVar[Reads] = "numbers"

    frame: Frame
    w: Vector
    most: float

    def on(self, data: Data) -> Sum:
        """Over a range of slots."""
        records, y, here = in_frame(data, self.frame), data.y, data.scale

        def added(rows: Slots) -> Vector:
            start, stop = range_of(rows)
            return np.array(kernels.residual_sum(records, y, here, self.w, self.most, start, stop))

        return added


@dataclass(frozen=True, slots=True, eq=False)
class Limited(Work):
    """Of t_i z_i, |t_i| <= limit / ||z_i||, in a checked frame: (K, d). W has a row for each output."""

    frame: Frame
    W: Vector
    limit: float

    def on(self, data: Data) -> Sum:
        """Over a range of slots."""
        records, y, loss = in_frame(data, self.frame), data.y, data.problem.loss
        W, limit, inverse = self.W, self.limit, _allowed(data, self.frame)
        scalar_sum = kernels.logistic_sum if loss.takes == "class" else kernels.squared_sum

        def added(rows: Slots) -> Vector:
            start, stop = range_of(rows)
            if loss.outputs > 1:
                total: Vector = kernels.softmax_sum(records, y, inverse, limit, W, start, stop)
                return total
            one: Vector = scalar_sum(records, y, inverse, limit, W[0], start, stop)
            return one[None]

        return added


def columns_of(data: Data) -> Columns:
    """How its rows are laid out; `Unsuitable` if that is not declared."""
    if data.problem.columns is None:
        raise Unsuitable("the columns must be declared")
    return data.problem.columns


def numbers_of(data: Data, rows: Slots, center: Vector) -> Vector:
    """The numbers of x - m, (rows, p); zeros where there is no row."""
    at, records = columns_of(data).is_number, data.records
    if data.is_sparse:
        start, stop = range_of(rows)
        stored: NDArray[np.floating[Any]] = np.zeros((stop - start, int(at.sum())))
        row, entry, values = entries_of(records, slice(start, stop))
        stored[row, entry] = values
    else:
        stored = stored_numbers(records)[rows][:, records.positions[:-1][at]]
    numbers: Vector = stored - center[at]
    return numbers * data.present(rows)[:, None]


def _numbers(data: Data, center: Vector) -> Vector:
    """The center's own."""
    return np.ascontiguousarray(center[columns_of(data).is_number])


def _squared(data: Data, rows: Slots, center: Vector) -> Vector:
    """||y||^2 of each row, y the numbers of x - m; 0 where there is no row."""
    if data.is_sparse:
        found: Vector = kernels.distances(data.records, _numbers(data, center), *range_of(rows))
        return found * data.present(rows)
    return np.asarray((numbers_of(data, rows, center) ** 2).sum(axis=1))


def range_of(rows: Slots) -> tuple[int, int]:
    """Where it begins and ends; `Unsuitable` if it is no range."""
    if not isinstance(rows, slice):
        raise Unsuitable("this is of ranges of slots")
    return rows.start, rows.stop


def _allowed(data: Data, own: Frame) -> Vector:
    """1 / ||z_i|| for every row, 0 for none; a frame is used for many answers."""
    last = data.kept.get("allowed")
    same = (
        last is not None
        and last[0].constant == own.constant
        and np.array_equal(last[0].center, own.center)
        and np.array_equal(last[0].scale, own.scale)
    )
    if last is None or not same:
        last = own, kernels.inverse_norms(in_frame(data, own)) * data.present()
        data.kept["allowed"] = last
    found: Vector = last[1]
    return found
