"""Coordinates of centered and scaled rows, z(x) = (a o (x - m), c), made of released numbers only."""

import math
from dataclasses import dataclass

import numpy as np

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

    def rows(self, x: Vector) -> Vector:
        """Return z(x) of each of the rows, (n, d)."""
        return np.column_stack(((x[:, :-1] - self.center) * self.scale, np.full(len(x), self.constant)))

    def raw(self, w: Vector) -> Vector:
        """Return (a o w', c w_0 - <m, a o w'>) for w of shape (K, d), which gives the same margins for x."""
        slopes = w[:, :-1] * self.scale
        return np.column_stack((slopes, self.constant * w[:, -1] - slopes @ self.center))
