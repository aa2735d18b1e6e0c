"""What one record adds to the sums that private moments are made of, from the declared layout alone.

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

SLIP = 1 + 8 * UNIT  # of a difference, a product, a shortening


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
    return math.sqrt(columns.widths.count(1) / sensitivity_factor(relation))


def cells(relation: Relation = REPLACE_ONE) -> float:
    """That of counts which hold a row once: it leaves a cell, and enters another or none."""
    return math.sqrt(1 / sensitivity_factor(relation))


def scored(problem: Problem, bins: int) -> int:
    """The cells of an evaluation: of a number a bin of the residual; of two classes (class, bin of the score); of K
    (class, class that is said), class by class.
    """
    if problem.outputs > 1:
        return problem.outputs**2
    return bins if problem.loss.takes == "number" else 2 * bins


def farthest(columns: Columns, center: NDArray[np.float64]) -> NDArray[np.float64]:
    """The most that (x_j - m_j)^2 can be, for each number, (p,)."""
    m = center[columns.is_number]
    return np.maximum(columns.high - m, m - columns.low) ** 2


def variances(columns: Columns, center: NDArray[np.float64], radius: float, relation: Relation = REPLACE_ONE) -> float:
    """That of a sum of y o y, y the numbers of a row less the center, shortened to `radius`.

    Coordinates lie in [0, farthest_j]; and y o y is nonnegative and no longer than radius^2, so that two of them are at
    most sqrt(2) radius^2 apart. Not shortened where the first bound is the lesser.
    """
    k = sensitivity_factor(relation)
    return min(math.hypot(*farthest(columns, center).tolist()), math.sqrt(k) * radius**2) / k


def products(columns: Columns, center: NDArray[np.float64], relation: Relation = REPLACE_ONE) -> float:
    """That of a sum of y y', y the numbers of a row less the center, in the Frobenius norm.

    y y' is positive semidefinite, and no longer than f = ||farthest||_1, so that two of them are at most sqrt(2) f
    apart. Or: an entry on the diagonal lies in [0, f_j], any other within sqrt(f_i f_j) of 0.
    """
    far = farthest(columns, center)
    most = float(far.sum())
    if relation != REPLACE_ONE:
        return most
    return min(math.sqrt(2) * most, math.sqrt(4 * most**2 - 3 * float((far**2).sum()))) / 2


def of_means(problem: Problem, moved: float, longest: float) -> float:
    """The per-record bound of a computed sum over (n k), the rounding of both sums included.

    Parameters
    ----------
    moved : what a record adds to the exact sum, its rows' over k
    longest : the most that a term's norm can be
    """
    places, most = problem.places, max(block_rows(problem), BLOCK)  # a piece of numbers has no more
    least = min(block_rows(problem), unfolded_rows(problem.d))
    rounding = (min(most, places) + places / least + 16) * UNIT * longest
    return moved * SLIP / problem.n + 2 * rounding
