"""How a coded row is laid out: a public fact, from the declaration alone."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from solvers.errors import Unsuitable


@dataclass(frozen=True, slots=True)
class Columns:
    """Row x = (feature 1, ..., feature k, 1): a feature is a number in [-1, 1], or a block with a single 1 in it.

    Parameters
    ----------
    widths : for each feature 1, a number, or the length of its block, 2 or more

    Raises
    ------
    Unsuitable
        if a width is not a positive integer.
    """

    widths: tuple[int, ...]

    def __post_init__(self) -> None:
        if not all(type(width) is int and width >= 1 for width in self.widths):
            raise Unsuitable("the width of a feature is a positive integer")

    @property
    def d(self) -> int:
        """The length of a row, the constant included."""
        return sum(self.widths) + 1

    @property
    def row_norm(self) -> float:
        """The largest l2 norm of a row: every feature's is at most 1."""
        return math.sqrt(len(self.widths) + 1)

    @property
    def diameter(self) -> float:
        """The largest l2 distance of two rows: 2 for a number, sqrt(2) for a block."""
        numbers = self.widths.count(1)
        return math.sqrt(4 * numbers + 2 * (len(self.widths) - numbers))

    def variance_bound(self, center: NDArray[np.float64], radius: float) -> float:
        """Half of the l2 distance of y o y from y' o y', y the numbers of a row less the center, shortened to `radius`.

        Coordinates lie in [0, (1 + |m_j|)^2]; and y o y is nonnegative and no longer than radius^2, so that two of
        them are at most sqrt(2) radius^2 apart. Not shortened where the first bound is the lesser.
        """
        farthest = (1 + np.abs(center[self.is_number])) ** 2
        return min(math.hypot(*farthest.tolist()), math.sqrt(2) * radius**2) / 2

    @property
    def starts(self) -> NDArray[np.int64]:
        """Where each feature begins in the row."""
        return np.concatenate(([0], np.cumsum(self.widths, dtype=np.int64)[:-1])) if self.widths else np.zeros(0, int)

    @property
    def is_number(self) -> NDArray[np.bool_]:
        """(d - 1,), True where an entry is a number."""
        return np.repeat(np.array(self.widths, dtype=np.int64) == 1, self.widths)
