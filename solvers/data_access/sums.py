"""Sums of gradients over rows, exactly clipped; `solvers.bounds` says what one record adds to them."""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from solvers import kernels
from solvers.bounds import FARTHEST
from solvers.data_access.data import Data, blocks, of_each, places_of
from solvers.errors import Unsuitable
from solvers.problem import Problem, Vector

Rows = slice | NDArray[np.int64]


def gradient_sum(
    data: Data,
    pieces: Iterable[Rows],
    w: Vector,
    anchor: Vector | None = None,
    limit: float = 0.0,
    curvature: float = 0.0,
) -> Vector:
    """Sum over the rows of s_i x_i', piece by piece, |s_i| clipped to the slope's bound or a change's limit; flat.

    A record's gradient is its slope, a number or a vector of K, times its row: clipping the one clips the norm. With a
    curvature w is how far from the anchor, and a change of slope is clipped to between 0 and curvature <x_i, w>.
    """
    records, y, scale, loss = data.records, data.y, data.scale, data.problem.compiled
    if loss is None:
        return _plain_sum(data, pieces, w, anchor, limit)
    w = np.ascontiguousarray(w)

    def work(rows: Rows) -> Vector:
        places = np.arange(rows.start, rows.stop) if isinstance(rows, slice) else rows
        if anchor is None:
            return kernels.sum_of_places(records, y, scale, places, w, loss)
        old = np.ascontiguousarray(anchor)
        return kernels.sum_of_changes(records, y, scale, places, w, old, loss, limit, curvature)

    total = np.zeros(data.problem.d)
    for sums in of_each(work, pieces):
        total += sums
    return total


def _plain_sum(data: Data, pieces: Iterable[Rows], w: Vector, anchor: Vector | None, limit: float) -> Vector:
    """The same for a loss of K outputs, its slopes in NumPy."""
    total = np.zeros(data.problem.shape)
    for rows in pieces:
        places = np.arange(rows.start, rows.stop) if isinstance(rows, slice) else rows
        y, scale = data.y[places], data.scale[places]
        slopes = _slopes(data, places, y, scale, w)
        if anchor is not None:
            slopes -= _slopes(data, places, y, scale, anchor)
            clip(slopes, limit)
        slopes *= scale
        for k, own in enumerate(slopes):
            total[k] += kernels.weighted_sum(data.records, own, places)
    return total.ravel()


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


def pieces(records: NDArray[np.int64], problem: Problem) -> Iterable[Rows]:
    """A batch's places, cut as the whole is."""
    places = places_of(records, problem)
    return (places[block] for block in blocks(len(places), problem))


def reach(problem: Problem, w: Vector) -> float:
    """||w||, once w is known to be one that no margin can overflow at; else `Unsuitable`."""
    if w.shape != (problem.size,):
        raise Unsuitable("w must have one coordinate for each column and each of the loss's outputs")
    norm = kernels.length(np.ascontiguousarray(w))
    if not norm <= FARTHEST:
        raise Unsuitable("w must be finite and of norm at most 1e100")
    return norm
