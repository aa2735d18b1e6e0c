"""What one record adds to an answer, and how far floating point may take it from the exact one: from public facts.

A per-record bound is how far an answer moves when a record becomes null, the rounding of both answers included; so a
replaced one moves it by at most two bounds (docs/proofs/relation.md). The door makes its noise by these, methods plan
by them. Proof: docs/proofs/oracle.md.
"""

import math
from typing import Literal

from solvers.losses.one_margin import OneMargin
from solvers.problem import Problem

UNIT = 1.01 * 2.0**-53  # the rounding of one operation, with room for its second order
FARTHEST = 1e100
"""The longest w that is answered: no margin overflows then."""

BLOCK = 16_384
"""Rows whose sum is made at once, for few coordinates; such sums are added in order, group by group."""

GROUP = 1 << 18
"""Places whose sum is one number's worth of all that is added up beyond: a partition of what no machine holds."""

_CACHED = 1 << 17  # numbers that stay in the second-level cache


def block_rows(problem: Problem) -> int:
    """How many records' sum is made at once: so many that adding such sums costs less than making them."""
    if problem.outputs > 1:
        return max(1024, min(BLOCK, _CACHED // problem.outputs))
    return min(GROUP, max(BLOCK, problem.d))


def unfolded_rows(width: int) -> int:
    """How many rows of so many numbers are unfolded at a time."""
    return max(16, min(BLOCK, _CACHED // width))


Reads = Literal["records", "numbers", "matrix", "rows"]
"""What a sum needs: records, or their numbers, as they are stored; or the numbers of all columns, or rows, unfolded."""


def piece_rows(problem: Problem, reads: Reads, sparse: bool = False) -> int:
    """How many of them are read at once."""
    if reads == "records" or (reads == "numbers" and sparse):
        return block_rows(problem)
    if reads != "rows" and problem.columns is not None:
        return unfolded_rows(max(1, problem.columns.widths.count(1)))
    return unfolded_rows(problem.d)


def gradient_bound(problem: Problem, reach: float = 0.0) -> float:
    """What one record adds to the mean gradient at a w of norm `reach`, computed: G/n, and rounding."""
    return problem.G * _long_rows(problem) / problem.n + 2 * _unlike(problem, problem.G, reach)


def sampled_bound(problem: Problem, size: float, bound: float, reach: float = 0.0) -> float:
    """The same for a batch of at most n records over the fixed size, where a row adds up to `bound` before division.

    Twice the rounding, because both the answer with the record and the answer without it have it.

    Parameters
    ----------
    size : of the batch, in records
    """
    long, summing = sampled_factors(problem)
    slopes = 0.0 if isinstance(problem.loss, OneMargin) else 2 * problem.places * _slopes_error(problem, reach)
    return (bound * long + bound * summing + slopes) / (size * problem.unit.slots)


def printed_bound(problem: Problem, batch: int, reach: float = 0.0) -> float:
    """The same for a printed step: changes up to 2 G over the batch; b / 2n of it is no less than `gradient_bound`."""
    whole = 2 * problem.n / batch * gradient_bound(problem, reach)
    return max(sampled_bound(problem, batch, 2 * problem.G, reach), whole)


def sampled_factors(problem: Problem) -> tuple[float, float]:
    """The factors of `bound` in `sampled_bound`, which is their sum for a loss with a compiled slope."""
    return problem.unit.slots * _long_rows(problem), 2 * problem.places * _summing(problem, problem.places, 1.0)


def gradient_error(problem: Problem, records: int, reach: float) -> float:
    """l2 distance of a computed mean gradient over so many records, at a w of norm `reach`, from the exact one."""
    summing = _summing(problem, records * problem.unit.slots, problem.G)
    return problem.G * (_long_rows(problem) - 1) + summing + _slopes_error(problem, reach)


def _long_rows(problem: Problem) -> float:
    """How much longer than R a row may be once its norm, its scale and its product with a slope are rounded."""
    return 1 + (problem.d + 16) * UNIT


def _unlike(problem: Problem, bound: float, reach: float) -> float:
    """How far 1/(n k) of a computed sum may be from a sum of one vector per row that no other row can change.

    A compiled slope is a function of its row and w, bit for bit, so only the adding up is left. A slope that NumPy
    computes may depend on the row's place in its block, and is only known to be close to the exact one.
    """
    summing = _summing(problem, problem.places, bound)
    return summing if isinstance(problem.loss, OneMargin) else summing + _slopes_error(problem, reach)


def _summing(problem: Problem, rows: int, bound: float) -> float:
    """l2 error of adding up at most so many products of norm up to `bound`, block by block, over their number.

    In a released frame it is relative to the terms before they are centred, which are `stretch` times as long.
    """
    block = block_rows(problem)
    return (min(block, rows) + rows / block + 16) * UNIT * bound * problem.stretch


def _slopes_error(problem: Problem, reach: float) -> float:
    """l2 distance between one record's computed gradient and the exact one, at w of norm `reach`."""
    slopes = (27 + 5 * problem.outputs) * UNIT * problem.loss.slope_bound * problem.row_norm  # before it is limited
    # Where the loss is not smooth, a margin's least rounding may turn the slope from one bound to the other.
    margins = (2 * problem.d + 12) * UNIT * problem.L * reach * problem.stretch if problem.is_smooth else math.inf
    return slopes + min(margins, 2 * problem.G)
