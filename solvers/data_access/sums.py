"""Sums of gradients over rows, exactly clipped, and how far floating point may take them from the exact ones."""

import math
from collections.abc import Callable, Iterable

import numpy as np
from numpy.typing import NDArray

from solvers.data_access import kernels
from solvers.data_access.data import Data, block_rows, blocks
from solvers.problem import Problem, Vector

Rows = slice | NDArray[np.int64]

UNIT = 1.01 * 2.0**-53  # the rounding of one operation, with room for its second order
_PULSE = 64  # points between two signs of life


def gradient_sum(
    data: Data, pieces: Iterable[Rows], w: Vector, anchor: Vector | None = None, limit: float = 0.0
) -> Vector:
    """Sum over the rows of s_i x_i', piece by piece, |s_i| clipped to the slope's bound or a change's limit; flat.

    A record's gradient is its slope, a number or a vector of K, times its row: clipping the one clips the norm.
    """
    compiled = kernels.slope_of(data.problem.loss)
    if compiled is None:
        return _plain_sum(data, pieces, w, anchor, limit)
    X, y, scale = data.X, data.y, data.scale
    total, w = np.zeros(data.problem.d), np.ascontiguousarray(w)
    for rows in pieces:
        if anchor is not None:
            places = np.arange(rows.start, rows.stop) if isinstance(rows, slice) else rows
            total += kernels.sum_of_changes(X, y, scale, places, w, np.ascontiguousarray(anchor), compiled, limit)
        elif isinstance(rows, slice):
            total += kernels.sum_of_range(X, y, scale, rows.start, rows.stop, w, compiled)
        else:
            total += kernels.sum_of_places(X, y, scale, rows, w, compiled)
    return total


def _plain_sum(data: Data, pieces: Iterable[Rows], w: Vector, anchor: Vector | None, limit: float) -> Vector:
    """The same in NumPy, for a loss without a compiled form."""
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
    """f'(scale W'x, y), forced into its bound: (rows,), or (K, rows) for a loss of K outputs."""
    margins = _margins(X, w.reshape(problem.shape))
    margins *= scale
    return clip(problem.loss.slope(margins, y), problem.loss.slope_bound)


def _margins(X: NDArray[np.float64], w: Vector) -> Vector:
    """<x, w> for every row x of X, and for every row of w if there are several."""
    return w @ X.T if w.ndim == 2 else X @ w


def clip(slopes: Vector, bound: float) -> Vector:
    """Each record's slope, a number or a column, cut down to l2 norm `bound` > 0, in place."""
    if slopes.ndim == 1:
        return np.clip(slopes, -bound, bound, out=slopes)
    norms = np.sqrt(np.einsum("kn,kn->n", slopes, slopes))
    slopes *= bound / np.maximum(norms, bound)
    return slopes


def gradient_bound(problem: Problem, reach: float = 0.0) -> float:
    """What one record adds to the mean gradient at a w of norm `reach`, on the computer: G/n, and its rounding."""
    return problem.G * _long_rows(problem) / problem.n + _unlike(problem, problem.G, reach)


def sampled_bound(problem: Problem, size: float, bound: float, reach: float = 0.0) -> float:
    """The same for a batch of at most n records over the fixed size, where a record adds up to `bound` before division.

    Twice the rounding, because both the answer with the record and the answer without it have it.
    """
    long, summing = sampled_factors(problem)
    slopes = 0.0 if kernels.slope_of(problem.loss) else 2 * problem.n * _slopes_error(problem, reach)
    return (bound * long + bound * summing + slopes) / size


def sampled_factors(problem: Problem) -> tuple[float, float]:
    """The factors of `bound` in `sampled_bound`, which is their sum for a loss with a compiled slope."""
    return _long_rows(problem), 2 * problem.n * _summing(problem, problem.n, 1.0)


def gradient_error(problem: Problem, rows: int, reach: float) -> float:
    """l2 distance of a computed mean gradient over so many rows, at a w of norm `reach`, from the exact one."""
    return problem.G * (_long_rows(problem) - 1) + _summing(problem, rows, problem.G) + _slopes_error(problem, reach)


def _long_rows(problem: Problem) -> float:
    """How much longer than R a row may be once its norm, its scale and its product with a slope are rounded."""
    return 1 + (problem.d + 8) * UNIT


def _unlike(problem: Problem, bound: float, reach: float) -> float:
    """How far 1/n of a computed sum may be from a sum of one vector per record that no other record can change.

    A compiled slope is a function of its record and w, bit for bit, so only the adding up is left. A slope that NumPy
    computes may depend on the record's place in its block, and is only known to be close to the exact one.
    """
    summing = _summing(problem, problem.n, bound)
    return summing if kernels.slope_of(problem.loss) else summing + _slopes_error(problem, reach)


def _summing(problem: Problem, rows: int, bound: float) -> float:
    """l2 error of adding up at most so many products of norm up to `bound`, block by block, over their number."""
    block = block_rows(problem.width)
    return (min(block, rows) + rows / block + 8) * UNIT * bound


def _slopes_error(problem: Problem, reach: float) -> float:
    """l2 distance between one record's computed gradient and the exact one, at w of norm `reach`."""
    slopes = (27 + 5 * problem.outputs) * UNIT * problem.G
    # Where the loss is not smooth, a margin's least rounding may turn the slope from one bound to the other.
    margins = (problem.d + 4) * UNIT * problem.L * reach if problem.is_smooth else math.inf
    return slopes + min(margins, 2 * problem.G)


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
    unit, bound = problem.G * 2.0 ** -_lattice_bits(problem), problem.loss.slope_bound
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


def lattice_error(problem: Problem) -> float:
    """By what share of G a gradient rounded to that lattice may be longer than G."""
    return 8 * (problem.d + 8) * UNIT + math.sqrt(problem.d) * 2.0 ** -_lattice_bits(problem)


def _lattice_bits(problem: Problem) -> int:
    """k: a block's sum stays below 2^53, where floats are exact integers, and the whole below 2^62."""
    return min(36, 60 - problem.n.bit_length())
