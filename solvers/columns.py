"""How a coded row is laid out: a public fact, from the declaration alone."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from accounting.privacy import REPLACE_ONE, Relation, Unit, apart
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
    def diameter(self) -> float:
        """The largest l2 distance of two rows: a number's range, sqrt(2) for a block."""
        blocks = len(self.widths) - self.widths.count(1)
        return math.sqrt(float(((self.high - self.low) ** 2).sum()) + 2 * blocks)

    def mean_bound(self, relation: Relation = REPLACE_ONE, unit: Unit = Unit()) -> float:  # noqa: B008
        """The per-record bound of a sum of rows without their constants: half the diameter, or the longest of them.

        Of persons', whose places may be empty, constants are added up too.
        """
        blocks = len(self.widths) - self.widths.count(1)
        longest = math.sqrt(float((np.maximum(self.high, -self.low) ** 2).sum()) + blocks + unit.is_person)
        if relation == REPLACE_ONE:
            return max(self.diameter, longest if unit.is_person else 0.0) / 2
        return longest

    def count_bound(self, relation: Relation = REPLACE_ONE) -> float:
        """That of counts which hold a row once for each number: it leaves a cell, and enters another or none."""
        return math.sqrt(self.widths.count(1) / apart(relation))

    @property
    def low(self) -> NDArray[np.float64]:
        """The lower end of each number's range, (p,)."""
        return np.array([low for low, _ in self.ranges] or [-1.0] * self.widths.count(1))

    @property
    def high(self) -> NDArray[np.float64]:
        """The upper ends."""
        return np.array([high for _, high in self.ranges] or [1.0] * self.widths.count(1))

    def farthest(self, center: NDArray[np.float64]) -> NDArray[np.float64]:
        """The most that (x_j - m_j)^2 can be, for each number, (p,)."""
        m = center[self.is_number]
        return np.maximum(self.high - m, m - self.low) ** 2

    def variance_bound(self, center: NDArray[np.float64], radius: float, relation: Relation = REPLACE_ONE) -> float:
        """That of a sum of y o y, y the numbers of a row less the center, shortened to `radius`.

        Coordinates lie in [0, farthest_j]; and y o y is nonnegative and no longer than radius^2, so that two of
        them are at most sqrt(2) radius^2 apart. Not shortened where the first bound is the lesser.
        """
        k = apart(relation)
        return min(math.hypot(*self.farthest(center).tolist()), math.sqrt(k) * radius**2) / k

    @property
    def starts(self) -> NDArray[np.int64]:
        """Where each feature begins in the row."""
        return np.concatenate(([0], np.cumsum(self.widths, dtype=np.int64)[:-1])) if self.widths else np.zeros(0, int)

    @property
    def is_number(self) -> NDArray[np.bool_]:
        """(d - 1,), True where an entry is a number."""
        return np.repeat(np.array(self.widths, dtype=np.int64) == 1, self.widths)
