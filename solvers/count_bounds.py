"""Per-record bounds of private counts, products and sums in groups, from the declared layout only.

See also `solvers.moment_bounds`. Proof: docs/proofs/statistics.md.
"""

import math

import numpy as np
from numpy.typing import NDArray

from accounting.privacy import REPLACE_ONE, Relation, sensitivity_factor
from solvers.columns import Columns
from solvers.moment_bounds import farthest
from solvers.problem import Problem


def cells(relation: Relation = REPLACE_ONE, count: int = 1) -> float:
    """Return the per-record bound of counts in which each record is in at most `count` cells.

    A changed record leaves its cells, and enters other ones or none.
    """
    return math.sqrt(count / sensitivity_factor(relation))


def group_moments(numbers: int, relation: Relation = REPLACE_ONE) -> float:
    """Return the per-record bound of sums of u and u o u in each group, with u in [-1, 1]^numbers.

    Replacing a record moves them by at most 2 sqrt(numbers). The squares add nothing to this, because those of opposite
    numbers are equal.
    """
    return math.sqrt(numbers * (1 if relation == REPLACE_ONE else 2))


def scored(problem: Problem, bins: int) -> int:
    """Return the number of cells of an evaluation.

    A number has a cell for each bin of the residual. Two classes have a cell for each (class, bin of the score), and K
    classes for each (class, predicted class).
    """
    if problem.outputs > 1:
        return problem.outputs**2
    return bins if problem.loss.takes == "number" else 2 * bins


def products(columns: Columns, center: NDArray[np.float64], relation: Relation = REPLACE_ONE) -> float:
    """Return the per-record bound, in the Frobenius norm, of a sum of y y', with y the numbers minus the center.

    y y' is positive semidefinite and has at most the norm f = ||farthest||_1, so two of them have at most the distance
    sqrt(2) f. Another bound: a diagonal entry lies in [0, f_j], and any other entry within sqrt(f_i f_j) of 0.
    """
    squares = farthest(columns, center)
    largest = float(squares.sum())
    if relation != REPLACE_ONE:
        return largest
    return min(math.sqrt(2) * largest, math.sqrt(4 * largest**2 - 3 * float((squares**2).sum()))) / 2
