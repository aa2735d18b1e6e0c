"""The layout of a coded row, a public fact that depends only on the declaration."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from solvers.errors import Unsuitable


@dataclass(frozen=True, slots=True)
class Columns:
    """The layout x = (feature 1, ..., feature k, 1), each feature a number in its range or a block with a single 1.

    Parameters
    ----------
    widths : for each feature 1 if it is a number, otherwise the length of its block, at least 2
    ranges : for each number its range [l, h] with -1 <= l <= 0 <= h <= 1; [-1, 1] for all numbers if empty

    Raises
    ------
    Unsuitable
        if a width is not a positive integer, or the ranges are not as stated
    """

    widths: tuple[int, ...]
    ranges: tuple[tuple[float, float], ...] = ()

    def __post_init__(self) -> None:
        if not all(type(width) is int and width >= 1 for width in self.widths):
            raise Unsuitable(
                "widths must be positive integers: 1 for a number, the number of categories for a category"
            )
        if self.ranges and len(self.ranges) != self.widths.count(1):
            raise Unsuitable("ranges must have one entry for each number, or be empty")
        if not all(-1 <= low <= 0 <= high <= 1 for low, high in self.ranges):
            raise Unsuitable("each of the ranges must contain 0 and lie in [-1, 1]. Scale the column")

    @property
    def d(self) -> int:
        """Length of a row, including the constant."""
        return sum(self.widths) + 1

    @property
    def row_norm(self) -> float:
        """Largest l2 norm of a row; the norm of each feature is at most 1."""
        return math.sqrt(len(self.widths) + 1)

    @property
    def low(self) -> NDArray[np.float64]:
        """Lower end of each number's range, (p,)."""
        return np.array([low for low, _ in self.ranges] or [-1.0] * self.widths.count(1))

    @property
    def high(self) -> NDArray[np.float64]:
        """Upper end of each number's range, (p,)."""
        return np.array([high for _, high in self.ranges] or [1.0] * self.widths.count(1))

    @property
    def starts(self) -> NDArray[np.int64]:
        """First index of each feature in the row."""
        return np.concatenate(([0], np.cumsum(self.widths, dtype=np.int64)[:-1])) if self.widths else np.zeros(0, int)

    @property
    def is_number(self) -> NDArray[np.bool_]:
        """Whether each coordinate but the constant is a number, (d - 1,)."""
        return np.repeat(np.array(self.widths, dtype=np.int64) == 1, self.widths)

    def cells(self, bins: int) -> int:
        """Return the number of cells: combinations of a part of each number's range and a category of each block.

        Each range has `bins` parts.
        """
        return math.prod(bins if width == 1 else width for width in self.widths)
