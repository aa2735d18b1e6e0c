"""Sums of weighted scores and curvatures in a released frame, for `WeightedOracle`.

The coordinates of a row are computed by elementwise operations, from this row alone, so they are a function of the row
and of the frame, bit for bit. Every term is cut to its bound at the end, whatever the error of its factors.
A work with `keeps` leaves the coordinates of rows in the cache of the data, for the next sums in the same frame.
Proof: docs/proofs/regression_table.md.
"""

from collections.abc import Callable
from dataclasses import dataclass
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

    def on(self, data: Data) -> Callable[[Slots], Matrix]:
        """Return the sum over a piece."""

        def added(rows: Slots) -> Matrix:
            u, _ = coordinates(data, slice(*range_of(rows)), self.frame)
            return (u * np.minimum(1.0, self.limit / _lengths(u) ** 2)[:, None]).T @ u

        return added


@dataclass(frozen=True, slots=True, eq=False)
class Distances(Work):
    """The sum of min(|<u, w> - y|, limit) over rows with a weight."""

    reads: ClassVar[Reads] = "rows"

    frame: FullFrame
    w: Vector
    limit: float
    keeps: bool = True

    def on(self, data: Data) -> Callable[[Slots], Vector]:
        """Return the sum over a piece."""

        rows_in = coordinates_in(data, self.frame, self.keeps)

        def added(rows: Slots) -> Vector:
            u, has_weight = rows_in(slice(*range_of(rows)))
            distances = np.abs(_margins(u, self.w) - np.clip(data.y[rows], -1, 1))
            return np.array((np.minimum(distances, self.limit) * has_weight).sum())

        return added


@dataclass(frozen=True, slots=True, eq=False)
class Scores(Work):
    """The sum of omega t u at w, (coordinates,)."""

    reads: ClassVar[Reads] = "rows"

    frame: FullFrame
    w: Vector
    weights: AnyWeights
    keeps: bool = True

    def on(self, data: Data) -> Callable[[Slots], Vector]:
        """Return the sum over a piece."""
        scores = self.each(data)
        return lambda rows: np.asarray(scores(slice(*range_of(rows))).sum(axis=0))

    def each(self, data: Data) -> Callable[[slice], Matrix]:
        """Return a function that returns omega t u of each row, cut to the gradient bound: (rows, coordinates)."""
        rows_in, weights = coordinates_in(data, self.frame, self.keeps), self.weights

        def scores(rows: slice) -> Matrix:
            u, _ = rows_in(rows)
            lengths = _lengths(u)
            margins = _margins(u, self.w)
            factors = weights.weights(margins, lengths) * weights.residuals(margins, data.y[rows])
            bounds = weights.gradient_bound / lengths
            return np.asarray(u * np.clip(factors, -bounds, bounds)[:, None])

        return scores


@dataclass(frozen=True, slots=True, eq=False)
class Curvatures(Work):
    """The sum of omega f u u' at w: (coordinates, coordinates)."""

    reads: ClassVar[Reads] = "rows"

    frame: FullFrame
    w: Vector
    weights: AnyWeights
    keeps: bool = True

    def on(self, data: Data) -> Callable[[Slots], Matrix]:
        """Return the sum over a piece."""

        rows_in = coordinates_in(data, self.frame, self.keeps)

        def added(rows: Slots) -> Matrix:
            u, _ = rows_in(slice(*range_of(rows)))
            lengths = _lengths(u)
            margins = _margins(u, self.w)
            factors = self.weights.weights(margins, lengths) * self.weights.slopes(margins, data.y[rows])
            return (u * np.minimum(factors, self.weights.curvature_bound / lengths**2)[:, None]).T @ u

        return added


@dataclass(frozen=True, slots=True, eq=False)
class SquaredScores(Work):
    """The sum over records of S S', with S the mean over a record's slots of omega t u.

    A record that begins in a piece is added with it, even if its last slots are in the next one.
    """

    reads: ClassVar[Reads] = "rows"

    scores: Scores

    def on(self, data: Data) -> Callable[[Slots], Matrix]:
        """Return the sum over the records that begin in a piece."""
        k, each = data.problem.unit.slots, self.scores.each(data)

        def added(rows: Slots) -> Matrix:
            start, stop = (-(-end // k) * k for end in range_of(rows))
            scores = each(slice(start, stop))
            own = scores.reshape(-1, k, scores.shape[1]).sum(axis=1) / k
            return np.asarray(own.T @ own)

        return added


def coordinates_in(data: Data, frame: FullFrame, keeps: bool) -> Callable[[slice], tuple[Matrix, NDArray[np.bool_]]]:
    """Return a function that returns `coordinates` of some rows.

    Parameters
    ----------
    keeps : whether all rows are computed at once and kept for the next sums in this frame
    """
    if not keeps:
        return lambda rows: coordinates(data, rows, frame)
    slots = data.problem.slots
    cached: tuple[FullFrame, Matrix, NDArray[np.bool_]] | None = data.cache.get("coordinates")
    if cached is None or not (
        np.array_equal(cached[0].raw, frame.raw) and np.array_equal(cached[0].has_weight, frame.has_weight)
    ):
        u = np.empty((slots, frame.size))
        has_weight = np.empty(slots, dtype=np.bool_)
        for rows in slices(slots, data.problem.d):
            u[rows], has_weight[rows] = coordinates(data, rows, frame)
        cached = frame, u, has_weight
        data.cache["coordinates"] = cached
    _, all_u, all_weights = cached
    return lambda rows: (all_u[rows], all_weights[rows])


def coordinates(data: Data, rows: slice, frame: FullFrame) -> tuple[Matrix, NDArray[np.bool_]]:
    """Return u of each row, (rows, coordinates), and whether the row has a weight; u is 0 if it has none.

    Every row takes the same operations, whatever its values are.
    """
    x = rows_of(data, rows)
    columns = columns_of(data)
    matrix = np.ascontiguousarray(frame.matrix.T)
    u = np.tile(frame.offset, (len(x), 1))
    has_weight = data.present(rows).copy()
    for start, width in zip(columns.starts.tolist(), columns.widths, strict=True):
        if width == 1:
            u += x[:, start, None] * matrix[start]
        else:
            level = start + x[:, start : start + width].argmax(axis=1)
            u += matrix[level]
            has_weight &= frame.has_weight[level]
    u *= has_weight[:, None]
    return u, has_weight


def _lengths(u: Matrix) -> Vector:
    """Return the norm of each row, at least `LEAST_NORM`."""
    return np.asarray(np.maximum(np.sqrt((u * u).sum(axis=1)), LEAST_NORM))


def _margins(u: Matrix, w: Vector) -> Vector:
    """Return <u, w> of each row."""
    return np.asarray((u * w).sum(axis=1))
