"""Sums of gradients over rows, exactly clipped; `solvers.bounds` says what one record adds to them."""

from collections.abc import Callable, Iterable

import numpy as np
from numpy.typing import NDArray

from solvers import kernels
from solvers.bounds import lattice_bits
from solvers.data_access.data import Data, blocks
from solvers.problem import Problem, Vector

Rows = slice | NDArray[np.int64]

_PULSE = 64  # points between two signs of life


def gradient_sum(
    data: Data, pieces: Iterable[Rows], w: Vector, anchor: Vector | None = None, limit: float = 0.0
) -> Vector:
    """Sum over the rows of s_i x_i', piece by piece, |s_i| clipped to the slope's bound or a change's limit; flat.

    A record's gradient is its slope, a number or a vector of K, times its row: clipping the one clips the norm.
    """
    X, y, scale, loss = data.X, data.y, data.scale, data.problem.loss.compiled
    if loss is None:
        return _plain_sum(data, pieces, w, anchor, limit)
    total, w = np.zeros(data.problem.d), np.ascontiguousarray(w)
    for rows in pieces:
        if anchor is not None:
            places = np.arange(rows.start, rows.stop) if isinstance(rows, slice) else rows
            total += kernels.sum_of_changes(X, y, scale, places, w, np.ascontiguousarray(anchor), loss, limit)
        elif isinstance(rows, slice):
            total += kernels.sum_of_range(X, y, scale, rows.start, rows.stop, w, loss)
        else:
            total += kernels.sum_of_places(X, y, scale, rows, w, loss)
    return total


def _plain_sum(data: Data, pieces: Iterable[Rows], w: Vector, anchor: Vector | None, limit: float) -> Vector:
    """The same in NumPy, for a loss of K outputs."""
    total = np.zeros(data.problem.shape)
    for rows in pieces:
        X, y, scale = data.X[rows], data.y[rows], data.scale[rows]
        slopes = _slopes(data.problem, X, y, scale, w)
        if anchor is not None:
            slopes -= _slopes(data.problem, X, y, scale, anchor)
            clip(slopes, limit)
        slopes *= scale
        total += slopes @ X
    return total.ravel()


def _slopes(problem: Problem, X: NDArray[np.float64], y: Vector, scale: Vector, w: Vector) -> Vector:
    """f'(scale W'x, y), forced into its bound: (K, rows)."""
    margins: Vector = w.reshape(problem.shape) @ X.T
    margins *= scale
    return clip(problem.loss.slope(margins, y), problem.loss.slope_bound)


def clip(slopes: Vector, bound: float) -> Vector:
    """Each record's slope, a column, cut down to l2 norm `bound` > 0, in place."""
    norms = np.sqrt(np.einsum("kn,kn->n", slopes, slopes))
    slopes *= bound / np.maximum(norms, bound)
    return slopes


def pieces(rows: NDArray[np.int64], width: int) -> Iterable[Rows]:
    """A batch cut as the whole is."""
    return (rows[block] for block in blocks(len(rows), width))


def lattice_mean_gradients(data: Data, points: NDArray[np.float64], pulse: Callable[[], None]) -> NDArray[np.float64]:
    """The mean of grad f_i at each point, (m, d), every record's gradient first rounded to the lattice of G 2^-k.

    The rounded gradients are integers, summed without error: the mean is one record's function plus one that does not
    know it, bit for bit, whatever the order. For few coordinates; elementwise, so that no record's margin is touched by
    another's.
    """
    problem, total = data.problem, np.zeros(points.shape, dtype=np.int64)
    unit, bound = problem.G * 2.0 ** -lattice_bits(problem), problem.loss.slope_bound
    for block in blocks(problem.n, problem.d):
        columns, y = (data.X[block] * data.scale[block, None]).T.copy(), data.y[block]
        for j, w in enumerate(points):
            if j % _PULSE == 0:
                pulse()
            margins = columns[0] * w[0]
            for column, coordinate in zip(columns[1:], w[1:], strict=True):
                margins += column * coordinate
            slopes = np.clip(problem.loss.slope(margins, y), -bound, bound)
            total[j] += np.rint(columns * slopes / unit).sum(axis=1).astype(np.int64)
    means: NDArray[np.float64] = total.astype(np.float64) * (unit / problem.n)
    return means
