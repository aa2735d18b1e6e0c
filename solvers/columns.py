"""How a coded row is laid out: a public fact, from the declaration alone."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from solvers.errors import Unsuitable


@dataclass(frozen=True, slots=True)
class Columns:
    """Row x = (feature 1, ..., feature k, 1): a feature is a number in its range, or a block with a single 1 in it.

    Parameters
    ----------
    widths : for each feature 1, a number, or the length of its block, 2 or more
    ranges : for each number where it lies, [l, h] with -1 <= l <= 0 <= h <= 1; all in [-1, 1] if none is named

    Raises
    ------
    Unsuitable
        if a width is not a positive integer, or the ranges are not that.
    """

    widths: tuple[int, ...]
    ranges: tuple[tuple[float, float], ...] = ()

    def __post_init__(self) -> None:
        if not all(type(width) is int and width >= 1 for width in self.widths):
            raise Unsuitable("the width of a feature is a positive integer")
        if self.ranges and len(self.ranges) != self.widths.count(1):
            raise Unsuitable("there is a range for each number, or for none")
        if not all(-1 <= low <= 0 <= high <= 1 for low, high in self.ranges):
            raise Unsuitable("a number's range holds 0 and lies in [-1, 1]")

    @property
    def d(self) -> int:
        """The length of a row, the constant included."""
        return sum(self.widths) + 1

    @property
    def row_norm(self) -> float:
        """The largest l2 norm of a row: every feature's is at most 1."""
        return math.sqrt(len(self.widths) + 1)

    @property
    def low(self) -> NDArray[np.float64]:
        """The lower end of each number's range, (p,)."""
        return np.array([low for low, _ in self.ranges] or [-1.0] * self.widths.count(1))

    @property
    def high(self) -> NDArray[np.float64]:
        """The upper ends."""
        return np.array([high for _, high in self.ranges] or [1.0] * self.widths.count(1))

    @property
    def starts(self) -> NDArray[np.int64]:
        """Where each feature begins in the row."""
        return np.concatenate(([0], np.cumsum(self.widths, dtype=np.int64)[:-1])) if self.widths else np.zeros(0, int)

    @property
    def is_number(self) -> NDArray[np.bool_]:
        """(d - 1,), True where an entry is a number."""
        return np.repeat(np.array(self.widths, dtype=np.int64) == 1, self.widths)

    def cells(self, bins: int) -> int:
        """How many there are of a part of each number's range, of so many, and a category of each block."""
        return math.prod(bins if width == 1 else width for width in self.widths)
