"""Running averages of released points: free of charge."""

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
        """One more point, of positive weight."""
        self._weight += weight
        self._mean = w.copy() if self._mean is None else self._mean + (w - self._mean) * (weight / self._weight)

    def add_all(self, points: NDArray[np.float64]) -> None:
        """The rows of (k, d), each of weight 1; k may be 0."""
        if len(points):
            self.add(points.mean(axis=0), float(len(points)))

    @property
    def value(self) -> Vector:
        """The mean; there must be a point."""
        if self._mean is None:
            raise ValueError("nothing was added")
        return self._mean
