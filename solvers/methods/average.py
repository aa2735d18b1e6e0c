"""Running averages of released points, which have no privacy cost."""

import numpy as np
from numpy.typing import NDArray

from solvers.problem import Vector


class Average:
    """The weighted mean of the points added so far."""

    __slots__ = ("_mean", "_weight")

    def __init__(self) -> None:
        self._weight = 0.0
        self._mean: Vector | None = None

    def add(self, w: Vector, weight: float = 1.0) -> None:
        """Add a point with a positive weight."""
        self._weight += weight
        self._mean = w.copy() if self._mean is None else self._mean + (w - self._mean) * (weight / self._weight)

    def add_all(self, points: NDArray[np.float64]) -> None:
        """Add the rows of (k, d), each with weight 1; k may be 0."""
        if len(points):
            self.add(points.mean(axis=0), float(len(points)))

    @property
    def value(self) -> Vector:
        """Weighted mean of the points; raises ValueError before the first point."""
        if self._mean is None:
            raise ValueError("the mean of nothing is undefined. Add a point first")
        return self._mean
