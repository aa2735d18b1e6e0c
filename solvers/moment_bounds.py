"""What one record adds to the sums that private moments are made of, from the declared layout alone.

Proof: docs/proofs/standardisation.md.
"""

import math

import numpy as np
from numpy.typing import NDArray

from accounting.privacy import REPLACE_ONE, Relation, Unit, apart
from solvers.columns import Columns


def diameter(columns: Columns) -> float:
    """The largest l2 distance of two rows: a number's range, sqrt(2) for a block."""
    blocks = len(columns.widths) - columns.widths.count(1)
    return math.sqrt(float(((columns.high - columns.low) ** 2).sum()) + 2 * blocks)


def means(columns: Columns, relation: Relation = REPLACE_ONE, unit: Unit = Unit()) -> float:  # noqa: B008
    """The per-record bound of a sum of rows without their constants: half the diameter, or the longest of them.

    Of persons', whose places may be empty, constants are added up too.
    """
    blocks = len(columns.widths) - columns.widths.count(1)
    longest = math.sqrt(float((np.maximum(columns.high, -columns.low) ** 2).sum()) + blocks + unit.is_person)
    if relation == REPLACE_ONE:
        return max(diameter(columns), longest if unit.is_person else 0.0) / 2
    return longest


def counts(columns: Columns, relation: Relation = REPLACE_ONE) -> float:
    """That of counts which hold a row once for each number: it leaves a cell, and enters another or none."""
    return math.sqrt(columns.widths.count(1) / apart(relation))


def farthest(columns: Columns, center: NDArray[np.float64]) -> NDArray[np.float64]:
    """The most that (x_j - m_j)^2 can be, for each number, (p,)."""
    m = center[columns.is_number]
    return np.maximum(columns.high - m, m - columns.low) ** 2


def variances(columns: Columns, center: NDArray[np.float64], radius: float, relation: Relation = REPLACE_ONE) -> float:
    """That of a sum of y o y, y the numbers of a row less the center, shortened to `radius`.

    Coordinates lie in [0, farthest_j]; and y o y is nonnegative and no longer than radius^2, so that two of them are at
    most sqrt(2) radius^2 apart. Not shortened where the first bound is the lesser.
    """
    k = apart(relation)
    return min(math.hypot(*farthest(columns, center).tolist()), math.sqrt(k) * radius**2) / k
