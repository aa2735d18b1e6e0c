"""The data, in memory or memory-mapped; only the oracle reads it."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from solvers.errors import Unsuitable
from solvers.problem import Problem, Vector

BLOCK = 16_384
"""Rows of one block: their sum is one matrix product, and blocks are added in order."""


@dataclass(frozen=True, slots=True, eq=False)
class Data:
    """n rows with ||scale_i x_i||_2 <= R (to rounding) and finite targets. Make one with `Data.of`.

    Every row passes the same map, alone: a row that is not finite becomes zeros, a longer row is scaled to norm R, a
    target that is not finite becomes 0. So replacing one record of the input replaces one row here.
    """

    X: NDArray[np.float64]
    y: Vector
    scale: Vector

    @staticmethod
    def of(X: NDArray[np.float64], y: Vector, problem: Problem) -> "Data":
        """The data of a problem.

        Parameters
        ----------
        X : (n, d) float64; a row-major memory map is read in place
        y : (n,)

        Raises
        ------
        Unsuitable
            if shapes or types are not the problem's.
        """
        if X.shape != (problem.n, problem.d) or y.shape != (problem.n,):
            raise Unsuitable("X must be of shape (n, d) and y of shape (n,), with the problem's n and d")
        if X.dtype != np.float64 or y.dtype != np.float64:
            raise Unsuitable("X and y must be float64")
        scale = np.empty(problem.n)
        broken = np.zeros(problem.n, dtype=bool)
        for block in blocks(problem.n):
            rows = X[block]
            with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
                norms = np.sqrt(np.einsum("ij,ij->i", rows, rows))
                scale[block] = np.minimum(1.0, problem.row_norm / norms)
            broken[block] = ~np.isfinite(rows).all(axis=1)
        scale[broken] = 0.0
        if broken.any():
            X = np.where(broken[:, None], 0.0, X)
        return Data(X, np.nan_to_num(y, nan=0.0, posinf=0.0, neginf=0.0), scale)


def blocks(n: int) -> Iterator[slice]:
    """The rows in order, cut into blocks."""
    return (slice(start, min(n, start + BLOCK)) for start in range(0, n, BLOCK))
