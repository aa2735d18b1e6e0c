"""Conditions and per-record bounds of centred changes of gradients; docs/proofs/oracle.md."""

from solvers.bounds import UNIT, sampled_factors
from solvers.errors import Unsuitable
from solvers.losses.one_margin import OneMargin
from solvers.problem import Problem

NEAREST = 1e-100  # shortest move whose computed length is exact except for rounding


def check_centred(problem: Problem) -> None:
    """Raise `Unsuitable` unless every record's loss is convex and smooth and has one margin."""
    if not (problem.is_smooth and problem.is_convex and isinstance(problem.loss, OneMargin)):
        raise Unsuitable("loss: centred changes need a convex and smooth loss of one margin. Use form 'safeguarded'")


def centres(problem: Problem, distance: float) -> bool:
    """Return whether a change at this distance from the anchor is centred: (L/2) distance <= G, without underflow."""
    return distance >= NEAREST and problem.L * distance <= 2 * problem.G


def centred_bound(problem: Problem, size: float, half: float) -> float:
    """Return `sampled_bound` of a centred change, to which a row adds up to half = (L/2) ||u|| before division."""
    long, summing = centred_factors(problem)
    return (half * long + half * summing) / (size * problem.unit.slots)


def centred_factors(problem: Problem) -> tuple[float, float]:
    """Return the factors of `half` in `centred_bound`.

    Rows, lengths and margins of u are rounded, and the terms of the sum are twice as long.
    """
    long = problem.unit.slots * (1 + (8 * problem.d + 100) * UNIT * problem.stretch)
    _, summing = sampled_factors(problem)
    return long, 2 * (summing + 8 * problem.slots * UNIT)
