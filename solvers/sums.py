"""Sums of gradients over rows, exactly clipped, and how far floating point may take them from the exact ones."""

import math
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from solvers.data import Data, block_rows, blocks
from solvers.problem import Problem, Vector

Rows = slice | NDArray[np.int64]

UNIT = 1.01 * 2.0**-53  # the rounding of one operation, with room for its second order
_LONG_ROW = 32  # from here on one dot product a row is faster than BLAS's matrix-vector product


def gradient_sum(
    data: Data, pieces: Iterable[Rows], w: Vector, anchor: Vector | None = None, limit: float = 0.0
) -> Vector:
    """Sum over the rows of s_i x_i, piece by piece, |s_i| clipped to the slope's bound or a change's limit.

    A record's gradient is its slope times its row, so clipping the scalar clips the norm.
    """
    total = np.zeros(data.problem.d)
    for rows in pieces:
        X, y, scale = data.X[rows], data.y[rows], data.scale[rows]
        slopes = _slopes(data.problem, X, y, scale, w)
        if anchor is not None:
            slopes -= _slopes(data.problem, X, y, scale, anchor)
            np.clip(slopes, -limit, limit, out=slopes)
        slopes *= scale
        total += slopes @ X
    return total


def _slopes(problem: Problem, X: NDArray[np.float64], y: Vector, scale: Vector, w: Vector) -> Vector:
    """f'(<scale x, w>, y), forced into its bound."""
    margins = np.vecdot(X, w) if X.shape[1] >= _LONG_ROW else X @ w
    margins *= scale
    slopes = problem.loss.slope(margins, y)
    bound = problem.loss.slope_bound
    return np.clip(slopes, -bound, bound, out=slopes)


def gradient_bound(problem: Problem, reach: float = 0.0) -> float:
    """What one record adds to the mean gradient at a w of norm `reach`: G/n, and the error of computing it."""
    return problem.G * _long_rows(problem) / problem.n + _error(problem, problem.n, problem.G, reach)


def sampled_bound(problem: Problem, size: float, bound: float, reach: float = 0.0) -> float:
    """The same for a batch of at most n records over the fixed size, where a record adds up to `bound` before division.

    Twice the error, because both the answer with the record and the answer without it are off by it.
    """
    return (bound * _long_rows(problem) + 2 * problem.n * _error(problem, problem.n, bound, reach)) / size


def gradient_error(problem: Problem, rows: int, reach: float) -> float:
    """l2 distance of a computed mean gradient over so many rows, at a w of norm `reach`, from the exact one."""
    return problem.G * (_long_rows(problem) - 1) + _error(problem, rows, problem.G, reach)


def _long_rows(problem: Problem) -> float:
    """How much longer than R a row may be once its norm, its scale and its product with a slope are rounded."""
    return 1 + (problem.d + 8) * UNIT


def _error(problem: Problem, rows: int, bound: float, reach: float) -> float:
    """l2 error, against exact arithmetic, of 1/rows times a sum of up to `rows` terms of norm up to `bound`."""
    block = block_rows(problem.d)
    summing = (min(block, rows) + rows / block) * UNIT * bound
    slopes = 32 * UNIT * problem.G
    # Where the loss is not smooth, a margin's least rounding may turn the slope from one bound to the other.
    margins = (problem.d + 4) * UNIT * problem.L * reach if problem.is_smooth else math.inf
    return summing + slopes + min(margins, 2 * problem.G)


def pieces(rows: NDArray[np.int64], d: int) -> Iterable[Rows]:
    """A batch cut as the whole is."""
    return (rows[block] for block in blocks(len(rows), d))
