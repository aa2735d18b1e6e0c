"""Symmetric matrices as vectors: the upper triangle by rows, off the diagonal times sqrt(2).

The l2 norm of the vector is the Frobenius norm of the matrix.
"""

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from solvers.problem import Vector


@lru_cache(maxsize=4)
def packing(size: int) -> tuple[tuple[NDArray[np.int64], NDArray[np.int64]], Vector]:
    """Return the indices of the upper triangle of a matrix by rows, and the factor of each entry.

    They are computed once for all pieces of a sum.
    """
    rows, columns = np.triu_indices(size)
    return (rows, columns), np.where(rows == columns, 1.0, math.sqrt(2))


def unpacked(entries: Vector, size: int) -> NDArray[np.float64]:
    """Return the symmetric matrix of a vector."""
    upper, factors = packing(size)
    matrix = np.zeros((size, size))
    matrix[upper] = entries / factors
    return matrix + np.triu(matrix, 1).T
