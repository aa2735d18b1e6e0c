"""What a method sees of the oracle: questions and private answers."""

from typing import Protocol

from solvers.problem import Vector


class Oracle(Protocol):
    """See `solvers.oracle.PrivateOracle`."""

    def gradient(self, query: str, w: Vector) -> Vector:
        """Noisy mean gradient over all rows."""
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

    def allocated_gradient(self, query: str, w: Vector) -> Vector:
        """Noisy mean gradient over the next slot of a random allocation."""
        ...
