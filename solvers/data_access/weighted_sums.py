"""Sums of weighted scores and curvatures in a released frame, for `WeightedOracle`.

The coordinates of a row are computed by elementwise operations, from this row alone, so they are a function of the row
and of the frame, bit for bit. Every term is cut to its bound at the end, whatever the error of its factors.
A work that keeps coordinates stores those of all rows in the cache of the data, for the next sums in the same frame.
Proof: docs/proofs/regression_table.md.
"""

from dataclasses import dataclass
from functools import reduce
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from solvers.bounds import Reads
from solvers.data_access.data import Data, Slots, Work
from solvers.data_access.moment_sums import columns_of, range_of
from solvers.data_access.rows import slices
from solvers.data_access.unfolded import rows_of
from solvers.full_frame import FullFrame
from solvers.problem import Vector
from solvers.weighting import LEAST_NORM, AnyWeights

Matrix = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class LongRows(Work):
    """The sum of omega u u' with omega = min(1, limit / ||u||^2): (coordinates, coordinates)."""

    reads: ClassVar[Reads] = "rows"

    frame: FullFrame
    limit: float

    def sum(self, data: Data, rows: Slots) -> Matrix:
        """Return the sum over a piece."""
        u, _ = coordinates(data, slice(*range_of(rows)), self.frame)
        return (u * np.minimum(1.0, self.limit / row_lengths(u) ** 2)[:, None]).T @ u


class InFrame(Work):
    """A sum over rows in a frame. If it keeps coordinates, those of all rows are computed once, for all next sums."""

    __slots__ = ()
    reads: ClassVar[Reads] = "rows"
    frame: FullFrame
    keeps: bool

    def prepare(self, data: Data) -> None:
        """Compute the coordinates of all rows if they are kept."""
        if self.keeps:
            _kept_coordinates(data, self.frame)

    def row_coordinates(self, data: Data, rows: slice) -> tuple[Matrix, Vector, NDArray[np.bool_]]:
        """Return u, its norm, and whether the row has a weight, for some rows."""
        if not self.keeps:
            u, has_weight = coordinates(data, rows, self.frame)
            return u, row_lengths(u), has_weight
        u, lengths, has_weight = _kept_coordinates(data, self.frame)
        return u[rows], lengths[rows], has_weight[rows]


@dataclass(frozen=True, slots=True, eq=False)
class Distances(InFrame):
    """The sum of min(|<u, w> - y|, limit) over rows with a weight."""

    frame: FullFrame
    w: Vector
    limit: float
    keeps: bool = True

    def sum(self, data: Data, rows: Slots) -> Vector:
        """Return the sum over a piece."""
        u, _, has_weight = self.row_coordinates(data, slice(*range_of(rows)))
        distances = np.abs(_margins(u, self.w) - np.clip(data.y[rows], -1, 1))
        return np.array((np.minimum(distances, self.limit) * has_weight).sum())


@dataclass(frozen=True, slots=True, eq=False)
class WeightedScores(InFrame):
    """The sum of omega t u at w, (coordinates,)."""

    frame: FullFrame
    w: Vector
    weights: AnyWeights
    keeps: bool = True

    def sum(self, data: Data, rows: Slots) -> Vector:
        """Return the sum over a piece."""
        return np.asarray(self.each(data, slice(*range_of(rows))).sum(axis=0))

    def each(self, data: Data, rows: slice) -> Matrix:
        """Return omega t u of each row, cut to the gradient bound: (rows, coordinates)."""
        (u, lengths, _), weights = self.row_coordinates(data, rows), self.weights
        margins = _margins(u, self.w)
        factors = weights.weights(margins, lengths) * weights.residuals(margins, data.y[rows])
        bounds = weights.gradient_bound / lengths
        return np.asarray(u * np.clip(factors, -bounds, bounds)[:, None])


@dataclass(frozen=True, slots=True, eq=False)
class Curvatures(InFrame):
    """The sum of omega f u u' at w: (coordinates, coordinates)."""

    frame: FullFrame
    w: Vector
    weights: AnyWeights
    keeps: bool = True

    def sum(self, data: Data, rows: Slots) -> Matrix:
        """Return the sum over a piece."""
        u, lengths, _ = self.row_coordinates(data, slice(*range_of(rows)))
        margins = _margins(u, self.w)
        factors = self.weights.weights(margins, lengths) * self.weights.slopes(margins, data.y[rows])
        return (u * np.minimum(factors, self.weights.curvature_bound / lengths**2)[:, None]).T @ u


@dataclass(frozen=True, slots=True, eq=False)
class SquaredScores(Work):
    """The sum over records of S S', with S the mean over a record's slots of omega t u.

    A record that begins in a piece is added with it, even if its last slots are in the next one.
    """

    reads: ClassVar[Reads] = "rows"

    scores: WeightedScores

    def prepare(self, data: Data) -> None:
        """Prepare the scores."""
        self.scores.prepare(data)

    def sum(self, data: Data, rows: Slots) -> Matrix:
        """Return the sum over the records that begin in a piece."""
        k = data.problem.unit.slots
        start, stop = (-(-end // k) * k for end in range_of(rows))
        scores = self.scores.each(data, slice(start, stop))
        own = scores.reshape(-1, k, scores.shape[1]).sum(axis=1) / k
        return np.asarray(own.T @ own)


def _kept_coordinates(data: Data, frame: FullFrame) -> tuple[Matrix, Vector, NDArray[np.bool_]]:
    """Return u, its norm, and whether the row has a weight, computed once for all sums in this frame."""
    slots = data.problem.slots
    cached: tuple[FullFrame, Matrix, Vector, NDArray[np.bool_]] | None = data.cache.get("coordinates")
    if cached is None or not cached[0].equals(frame):
        u = np.empty((slots, frame.size), order="F")
        lengths = np.empty(slots)
        has_weight = np.empty(slots, dtype=np.bool_)
        for rows in slices(slots, data.problem.d):
            u[rows], has_weight[rows] = coordinates(data, rows, frame)
            lengths[rows] = row_lengths(u[rows])
        cached = frame, u, lengths, has_weight
        data.cache["coordinates"] = cached
    return cached[1:]


def coordinates(data: Data, rows: slice, frame: FullFrame) -> tuple[Matrix, NDArray[np.bool_]]:
    """Return u of each row, (rows, coordinates), and whether the row has a weight; u is 0 if it has none.

    The array has Fortran order (the values of one coordinate are contiguous), because NumPy is slow on many short
    rows. Every row takes the same operations, whatever its values are.
    """
    x = rows_of(data, rows)
    columns = columns_of(data)
    u = np.empty((len(x), frame.size), order="F")
    u[:] = frame.offset
    has_weight = data.present(rows).copy()
    for start, width in zip(columns.starts.tolist(), columns.widths, strict=True):
        if width == 1:
            u += np.multiply.outer(frame.matrix[:, start], x[:, start].copy()).T
        else:
            level = start + x[:, start : start + width].argmax(axis=1)
            u += frame.matrix[:, level].T
            has_weight &= frame.has_weight[level]
    u *= has_weight[:, None]
    return u, has_weight


def row_lengths(u: Matrix) -> Vector:
    """Return the norm of each row, at least `LEAST_NORM`."""
    return np.asarray(np.maximum(np.sqrt(_row_sums(u * u)), LEAST_NORM))


def _margins(u: Matrix, w: Vector) -> Vector:
    """Return <u, w> of each row."""
    return _row_sums(u * w)


def _row_sums(values: Matrix) -> Vector:
    """Return the sum of each row, column after column.

    NumPy's own sum over the rows of a Fortran array adds the numbers of a lone row in another order than those of many
    rows. Then a row's bits would depend on how the rows are cut into blocks.
    """
    return reduce(np.add, values.T)
