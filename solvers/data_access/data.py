"""The data, in memory or memory-mapped; only the oracle reads it."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from solvers import kernels
from solvers.bounds import block_rows
from solvers.columns import Columns
from solvers.errors import Unsuitable
from solvers.problem import Problem, Vector

_LARGEST_NORM = 1e100  # products with a w of norm up to 1e100 then stay far from overflow


@dataclass(frozen=True, slots=True, eq=False)
class Data:
    """n rows with ||scale_i x_i||_2 <= R (to rounding) and targets that the loss knows. Make one with `Data.of`.

    Every record passes the same map, alone: a row that is not finite, or longer than 1e100, becomes zeros; one that is
    not laid out as the columns are declared becomes an empty one; a row longer
    than R is scaled to norm R; a target goes to the loss's nearest one. So replacing one record of the input replaces
    one record here.

    Parameters
    ----------
    X : (n, d), the rows as they came
    y : (n,), the targets
    scale : (n,), what each row is multiplied with when it is read
    problem : whose R and loss the maps used
    """

    X: NDArray[np.float64]
    y: Vector
    scale: Vector
    problem: Problem

    @staticmethod
    def of(X: NDArray[np.float64], y: Vector, problem: Problem) -> "Data":
        """The data of a problem.

        Parameters
        ----------
        X : (n, d) float64; a row-major memory map is read in place (a copy is made only if a row has to be zeroed)
        y : (n,) float64

        Raises
        ------
        Unsuitable
            if shapes or types are not the problem's.
        """
        if X.shape != (problem.n, problem.d) or y.shape != (problem.n,):
            raise Unsuitable("X must be of shape (n, d) and y of shape (n,), with the problem's n and d")
        if X.dtype != np.float64 or y.dtype != np.float64:
            raise Unsuitable("X and y must be float64")
        X = np.require(
            X, requirements=["C", "A", "E"]
        )  # a plain array: a memory map's own class would slow every slice
        norms = kernels.norms(X)
        broken = ~(norms <= _LARGEST_NORM)  # true for NaN, too
        if broken.any():
            X = X.copy()
            X[broken], norms[broken] = 0.0, 0.0
        if problem.columns is not None and (broken := ~_laid_out(X, problem.columns)).any():
            X = X.copy()
            X[broken] = _empty_row(problem.columns)
            norms[broken] = kernels.norms(X[broken])
        scale = problem.row_norm / np.maximum(norms, problem.row_norm)
        return Data(X, np.require(problem.loss.targets(np.asarray(y)), requirements=["C", "A", "E"]), scale, problem)


def _laid_out(X: NDArray[np.float64], columns: Columns) -> NDArray[np.bool_]:
    """(n,), whether each row is as declared: numbers in [-1, 1], a single 1 and else zeros in each block, a last 1."""
    numbers, starts, kept = columns.is_number, columns.starts, np.empty(len(X), dtype=np.bool_)
    several = np.array(columns.widths, dtype=np.int64) > 1
    for rows in blocks(len(X), columns.d):
        x = X[rows, :-1]
        held = (np.abs(x[:, numbers]) <= 1).all(axis=1) & (X[rows, -1] == 1)
        if several.any():
            coded = x[:, ~numbers]
            ones = np.add.reduceat(x, starts, axis=1)[:, several]
            held &= ((coded == 0) | (coded == 1)).all(axis=1) & (ones == 1).all(axis=1)
        kept[rows] = held
    return kept


def _empty_row(columns: Columns) -> Vector:
    """Zeros, the first entry of each block, the constant: what a row of another layout counts as."""
    row = np.zeros(columns.d)
    row[columns.starts[np.array(columns.widths, dtype=np.int64) > 1]] = 1.0
    row[-1] = 1.0
    return row


def blocks(n: int, width: int) -> Iterator[slice]:
    """n rows in order, cut into blocks."""
    size = block_rows(width)
    return (slice(start, min(n, start + size)) for start in range(0, n, size))
