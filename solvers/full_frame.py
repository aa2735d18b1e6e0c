"""Coordinates u(x) = L x + o of rows, made of released numbers only."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from solvers.problem import Vector


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

    def equals(self, frame: "FullFrame") -> bool:
        """Return whether both frames have the same numbers."""
        return (
            np.array_equal(self.matrix, frame.matrix)
            and np.array_equal(self.offset, frame.offset)
            and np.array_equal(self.has_weight, frame.has_weight)
        )
