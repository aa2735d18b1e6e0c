"""Running averages of released points: free of charge."""

from solvers.problem import Vector


class Average:
    """The mean of the points added so far."""

    __slots__ = ("_count", "_mean")

    def __init__(self) -> None:
        self._count = 0
        self._mean: Vector | None = None

    def add(self, w: Vector) -> None:
        """One more point."""
        self._count += 1
        self._mean = w.copy() if self._mean is None else self._mean + (w - self._mean) / self._count

    @property
    def value(self) -> Vector:
        """The mean; there must be a point."""
        if self._mean is None:
            raise ValueError("nothing was added")
        return self._mean
