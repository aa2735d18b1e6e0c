"""What a method sees of the oracle: questions and private answers."""

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from solvers.problem import Vector


class Oracle(Protocol):
    """See `solvers.data_access.oracle.PrivateOracle`."""

    def gradient(self, query: str, w: Vector) -> Vector:
        """Noisy mean gradient over all rows."""
        ...

    def horizon(self, query: str) -> int:
        """How many answers the query will give."""
        ...

    def sampled_gradient(self, query: str, w: Vector) -> Vector:
        """Noisy mean gradient over a fresh random batch."""
        ...

    def sampled_change(self, query: str, w: Vector, anchor: Vector) -> Vector:
        """Noisy mean of grad f_i(w) - grad f_i(anchor) over a fresh random batch."""
        ...

    def printed_change(self, query: str, w: Vector, anchor: Vector) -> Vector:
        """Mean of grad f_i(w) - grad f_i(anchor) over a fresh random batch, plus grad F(anchor), with one noise."""
        ...

    def walk(
        self, query: str, w: Vector, anchor: Vector, snapshot: Vector, step: float, count: int
    ) -> NDArray[np.float64] | None:
        """`count` points of a variance-reduced walk, shape (count, d), one answer each; None if not compiled."""
        ...

    def allocated_gradient(self, query: str, w: Vector) -> Vector:
        """Noisy mean gradient over the next slot of a random allocation."""
        ...
