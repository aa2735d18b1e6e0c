"""Sums of gradients over rows, exactly clipped; `solvers.bounds` says what one record adds to them."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from solvers import kernels
from solvers.bounds import FARTHEST
from solvers.data_access.data import Data, listed
from solvers.data_access.summed import Places, Summed, Work
from solvers.errors import Unsuitable
from solvers.problem import Problem, Vector


def gradient_sum(
    data: Summed,
    places: Places,
    w: Vector,
    anchor: Vector | None = None,
    limit: float = 0.0,
    curvature: float = 0.0,
) -> Vector:
    """Sum over the places of s_i x_i', piece by piece, |s_i| clipped to the slope's bound or a change's limit; flat.

    A record's gradient is its slope, a number or a vector of K, times its row: clipping the one clips the norm. With a
    curvature w is how far from the anchor, and a change of slope is clipped to between 0 and curvature <x_i, w>.
    """
    return data.total(Gradients(w, anchor, limit, curvature), places)


def mean_gradient(data: Summed, w: Vector) -> Vector:
    """Return the exact grad F(w), without noise: only for answers that add noise to it."""
    places = data.problem.places
    return gradient_sum(data, slice(0, places), w) / places


@dataclass(frozen=True, slots=True, eq=False)
class Gradients(Work):
    """The sum that `gradient_sum` says."""

    w: Vector
    anchor: Vector | None
    limit: float
    curvature: float

    def on(self, data: Data) -> Callable[[Places], Vector]:
        """Over a piece."""
        records, y, scale, loss = data.records, data.y, data.scale, data.problem.compiled
        if loss is None:
            return lambda rows: _plain_sum(data, rows, self.w, self.anchor, self.limit)
        w = np.ascontiguousarray(self.w)
        if self.anchor is None:
            return lambda rows: kernels.gradient_sum(records, y, scale, listed(rows), w, loss)
        changes = (w, np.ascontiguousarray(self.anchor), loss, self.limit, self.curvature)
        return lambda rows: kernels.change_sum(records, y, scale, listed(rows), *changes)


@dataclass(frozen=True, slots=True)
class RowCount(Work):
    """The number of slots that hold a row."""

    def on(self, data: Data) -> Callable[[Places], NDArray[np.int64]]:
        """In a piece."""
        return lambda rows: np.array(np.count_nonzero(data.scale[rows]))


def _plain_sum(data: Data, rows: Places, w: Vector, anchor: Vector | None, limit: float) -> Vector:
    """The same over a piece for a loss of K outputs, its slopes in NumPy."""
    places = listed(rows)
    y, scale = data.y[places], data.scale[places]
    slopes = _slopes(data, places, y, scale, w)
    if anchor is not None:
        slopes -= _slopes(data, places, y, scale, anchor)
        clip(slopes, limit)
    slopes *= scale
    return np.concatenate([kernels.weighted_sum(data.records, own, places) for own in slopes])


def _slopes(data: Data, places: NDArray[np.int64], y: Vector, scale: Vector, w: Vector) -> Vector:
    """f'(scale W'x, y), forced into its bound: (K, rows)."""
    points, loss = np.ascontiguousarray(w.reshape(data.problem.shape)), data.problem.loss
    margins = np.stack([kernels.margins_of(data.records, point, places) for point in points])
    margins *= scale
    return clip(loss.slope(margins, y), data.problem.slope_bound)


def clip(slopes: Vector, bound: float) -> Vector:
    """Each record's slope, a column, cut down to l2 norm `bound` > 0, in place."""
    norms = np.sqrt(np.einsum("kn,kn->n", slopes, slopes))
    slopes *= bound / np.maximum(norms, bound)
    return slopes


def center(problem: Problem, moved: Vector, share: float) -> Vector:
    """(L/2) u (1 - |B|/b), share = |B|/b, in rows: what centred changes of a batch B miss of the mean, and add back."""
    return (problem.L / 2 * (1 - share)) * moved


def reach(problem: Problem, w: Vector) -> float:
    """||w||, once w is known to be one that no margin can overflow at; else `Unsuitable`."""
    if w.shape != (problem.size,):
        raise Unsuitable("w must have one coordinate for each column and each of the loss's outputs")
    norm = kernels.length(np.ascontiguousarray(w))
    if not norm <= FARTHEST:
        raise Unsuitable("w must be finite and of norm at most 1e100")
    return norm
