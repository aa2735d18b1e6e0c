"""Coordinates of rows, made of released numbers only: centred and scaled, or any linear map."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from solvers.columns import Columns
from solvers.problem import Vector


@dataclass(frozen=True, slots=True, eq=False)
class Frame:
    """Coordinates z(x) with <z(x), w> = <x, raw(w)>, so that a model in them is a model of the original columns.

    Parameters
    ----------
    center : m, (d - 1,), without the constant column
    scale : a > 0, (d - 1,)
    constant : c > 0, the last coordinate of every z
    """

    center: Vector
    scale: Vector
    constant: float

    def longest(self, columns: Columns | None) -> float:
        """Return the largest ||a o x'|| + ||a o m|| + c, to which the rounding of sums of a o (x' - m) is relative."""
        starts = np.zeros(0, int) if columns is None else columns.starts
        parts = np.maximum.reduceat(self.scale**2, starts) if len(self.scale) else np.zeros(1)
        return math.sqrt(float(parts.sum())) + float(np.linalg.norm(self.scale * self.center)) + self.constant

    @property
    def lengths(self) -> Vector:
        """The l2 norm of each row of the matrix of `raw`, (d,)."""
        last = math.hypot(self.constant, float(np.linalg.norm(self.scale * self.center)))
        return np.append(self.scale, last)

    def raw(self, w: Vector) -> Vector:
        """Return (a o w', c w_0 - <m, a o w'>) for w of shape (K, d), which gives the same margins for x."""
        slopes = w[:, :-1] * self.scale
        return np.column_stack((slopes, self.constant * w[:, -1] - slopes @ self.center))


@dataclass(frozen=True, slots=True, eq=False)
class FullFrame:
    """Coordinates u(x) = L x + o. A row that is in a level without weight has u = 0.

    Parameters
    ----------
    matrix : L, (coordinates, d - 1); x is a row without its constant column
    offset : o, (coordinates,)
    has_weight : (d - 1,), whether the rows in this level of a category have a weight; true for numbers
    """

    matrix: NDArray[np.float64]
    offset: Vector
    has_weight: NDArray[np.bool_]

    @property
    def size(self) -> int:
        """Number of coordinates."""
        return len(self.offset)

    @property
    def raw(self) -> NDArray[np.float64]:
        """The matrix B, (d, coordinates), with <u(x), w> = <(x, 1), B w>."""
        return np.vstack((self.matrix.T, self.offset))
