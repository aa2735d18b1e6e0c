"""Per-record bounds of the sums for private moments, from the declared layout only.

Proof: docs/proofs/standardisation.md.
"""

import math

import numpy as np
from numpy.typing import NDArray

from accounting.privacy import REPLACE_ONE, Relation, Unit, sensitivity_factor
from solvers.bounds import BLOCK, UNIT, block_rows, unfolded_rows
from solvers.columns import Columns
from solvers.problem import Problem

MOMENTS = {"means", "spread", "variances"}
"""Names of the queries whose answers are private moments."""

SLIP = 1 + 8 * UNIT  # relative rounding of a difference, a product and a shortening


def diameter(columns: Columns) -> float:
    """Return the largest l2 distance of two rows: a number adds its range, a block sqrt(2)."""
    blocks = len(columns.widths) - columns.widths.count(1)
    return math.sqrt(float(((columns.high - columns.low) ** 2).sum()) + 2 * blocks)


def means(columns: Columns, relation: Relation = REPLACE_ONE, unit: Unit = Unit()) -> float:  # noqa: B008
    """Return the per-record bound of a sum of rows without their constants: half the diameter, or the longest row.

    For persons the constants are added up too, because slots may be empty.
    """
    blocks = len(columns.widths) - columns.widths.count(1)
    longest = math.sqrt(float((np.maximum(columns.high, -columns.low) ** 2).sum()) + blocks + unit.is_person)
    if relation == REPLACE_ONE:
        return max(diameter(columns), longest if unit.is_person else 0.0) / 2
    return longest


def farthest(columns: Columns, center: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the largest (x_j - m_j)^2 for each number, (p,)."""
    m = center[columns.is_number]
    return np.maximum(columns.high - m, m - columns.low) ** 2


def variances(columns: Columns, center: NDArray[np.float64], radius: float, relation: Relation = REPLACE_ONE) -> float:
    """Return the per-record bound of a sum of y o y, with y the numbers of a row minus the center.

    Coordinates lie in [0, farthest_j]. If y is shortened to `radius`, y o y is nonnegative and has at most the norm
    radius^2, so two of them have at most the distance sqrt(2) radius^2. y is shortened only if this bound is smaller.
    """
    k = sensitivity_factor(relation)
    return min(math.hypot(*farthest(columns, center).tolist()), math.sqrt(k) * radius**2) / k


def of_means(problem: Problem, moved: float, longest: float) -> float:
    """Return the per-record bound of a computed sum divided by n k, including the rounding of both sums.

    Parameters
    ----------
    moved : the per-record bound of the exact sum; a person's rows are divided by k
    longest : the largest norm of a term
    """
    slots = problem.slots
    longest_piece = max(block_rows(problem), BLOCK)  # a piece of numbers has no more rows
    shortest_piece = min(block_rows(problem), unfolded_rows(problem.d))
    rounding = (min(longest_piece, slots) + slots / shortest_piece + 16) * UNIT * longest
    return moved * SLIP / problem.n + 2 * rounding
