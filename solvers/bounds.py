"""Per-record bounds of answers, including floating-point error, from public facts.

A per-record bound is the largest distance by which an answer moves if a record becomes null, including the rounding of
both answers. So a replaced record moves an answer by at most two bounds (docs/proofs/relation.md). Oracles make noise
for these bounds, and methods plan with them. Proof: docs/proofs/oracle.md.
"""

import math
from typing import Literal

from solvers.losses.one_margin import OneMargin
from solvers.problem import Problem

UNIT = 1.01 * 2.0**-53  # rounding of one operation, with room for the second order
FARTHEST = 1e100
"""Largest norm of a w that is answered; no margin overflows below it."""

BLOCK = 16_384
"""Number of rows that are summed at once if there are few coordinates; these sums are added in order."""

GROUP = 1 << 18
"""Number of slots in a group; the sums of groups are added in order. A partition on another machine is one group."""

_CACHED_NUMBERS = 1 << 17  # numbers that stay in the second-level cache


def block_rows(problem: Problem) -> int:
    """Return how many records are summed at once, so many that adding these sums costs less than computing them."""
    if problem.outputs > 1:
        return max(1024, min(BLOCK, _CACHED_NUMBERS // problem.outputs))
    return min(GROUP, max(BLOCK, problem.d))


def unfolded_rows(width: int) -> int:
    """Return how many rows of `width` numbers are unfolded at a time."""
    return max(16, min(BLOCK, _CACHED_NUMBERS // width))


Reads = Literal["records", "numbers", "matrix", "rows"]
"""The form in which a sum reads data: stored records, stored numbers, the matrix of all numbers, or unfolded rows."""


def piece_rows(problem: Problem, reads: Reads, sparse: bool = False) -> int:
    """Return how many rows of this form are read at once."""
    if reads == "records" or (reads == "numbers" and sparse):
        return block_rows(problem)
    if reads != "rows" and problem.columns is not None:
        return unfolded_rows(max(1, problem.columns.widths.count(1)))
    return unfolded_rows(problem.d)


def gradient_bound(problem: Problem, reach: float = 0.0) -> float:
    """Return the per-record bound of a computed mean gradient at a w of norm `reach`: G/n, and rounding."""
    return problem.G * long_rows(problem) / problem.n + 2 * _interaction_error(problem, problem.G, reach)


def sampled_bound(problem: Problem, size: float, bound: float, reach: float = 0.0) -> float:
    """Return the per-record bound of a sum over a batch, divided by its fixed size.

    The rounding counts twice, because the answers with and without the record both have it.

    Parameters
    ----------
    size : fixed size of the batch, in records; the batch itself has at most n records
    bound : the largest norm that a row adds to the sum
    """
    long, summing = sampled_factors(problem)
    slopes = 0.0 if isinstance(problem.loss, OneMargin) else 2 * problem.slots * _slopes_error(problem, reach)
    return (bound * long + bound * summing + slopes) / (size * problem.unit.slots)


def printed_bound(problem: Problem, batch: int, reach: float = 0.0) -> float:
    """Return the per-record bound of a printed step, with changes up to 2 G over the batch.

    b / 2n of it is at least `gradient_bound`.
    """
    whole = 2 * problem.n / batch * gradient_bound(problem, reach)
    return max(sampled_bound(problem, batch, 2 * problem.G, reach), whole)


def sampled_factors(problem: Problem) -> tuple[float, float]:
    """Return the factors of `bound` in `sampled_bound`, which is their sum for a loss with a compiled slope."""
    return problem.unit.slots * long_rows(problem), 2 * problem.slots * _summing(problem, problem.slots, 1.0)


def gradient_error(problem: Problem, records: int, reach: float) -> float:
    """Return the largest l2 error of a computed mean gradient over `records` records, at a w of norm `reach`."""
    summing = _summing(problem, records * problem.unit.slots, problem.G)
    return problem.G * (long_rows(problem) - 1) + summing + _slopes_error(problem, reach)


def long_rows(problem: Problem) -> float:
    """Return the largest length of a row over R after its norm, its scale and its product with a slope are rounded."""
    return 1 + (problem.d + 16) * UNIT


def _interaction_error(problem: Problem, bound: float, reach: float) -> float:
    """Return the largest distance of a computed mean from a mean of vectors, each of which depends on one row only.

    A compiled slope is a function of its row and w, bit for bit, so only the addition has an error. A slope that NumPy
    computes may depend on the row's position in its block, and is only known to be close to the exact slope.
    """
    summing = _summing(problem, problem.slots, bound)
    return summing if isinstance(problem.loss, OneMargin) else summing + _slopes_error(problem, reach)


def _summing(problem: Problem, rows: int, bound: float) -> float:
    """Return the l2 error of adding up at most `rows` products of norm up to `bound` in blocks, over their number.

    In a released frame the error is relative to the terms before they are centered, which are `stretch` times as long.
    """
    block = block_rows(problem)
    return (min(block, rows) + rows / block + 16) * UNIT * bound * problem.stretch


def _slopes_error(problem: Problem, reach: float) -> float:
    """Return the largest l2 error of one record's computed gradient, at a w of norm `reach`."""
    slopes = (27 + 5 * problem.outputs) * UNIT * problem.loss.slope_bound * problem.row_norm  # before it is limited
    # If the loss is not smooth, the least rounding of a margin may turn the slope from one bound to the other.
    margins = (2 * problem.d + 12) * UNIT * problem.L * reach * problem.stretch if problem.is_smooth else math.inf
    return slopes + min(margins, 2 * problem.G)
