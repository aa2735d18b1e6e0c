"""When a change of gradients is centred, and what one record then adds to it; docs/proofs/oracle.md."""

from solvers.bounds import UNIT, sampled_factors
from solvers.errors import Unsuitable
from solvers.losses.one_margin import OneMargin
from solvers.problem import Problem

NEAREST = 1e-100  # the shortest move whose length is exact but for rounding


def check_centred(problem: Problem) -> None:
    """`Unsuitable` unless every record's loss is convex and smooth, of one margin."""
    if not (problem.is_smooth and problem.is_convex and isinstance(problem.loss, OneMargin)):
        raise Unsuitable("changes are centred for convex and smooth losses of one margin")


def centres(problem: Problem, distance: float) -> bool:
    """Whether a change so far from the anchor is centred: (L/2) distance <= G, and no square of it underflows."""
    return distance >= NEAREST and problem.L * distance <= 2 * problem.G


def centred_bound(problem: Problem, size: float, half: float) -> float:
    """`sampled_bound` of a centred change, where a row adds up to half = (L/2) ||u|| before division."""
    long, summing = centred_factors(problem)
    return (half * long + half * summing) / (size * problem.unit.slots)


def centred_factors(problem: Problem) -> tuple[float, float]:
    """The factors of `half` in it: rows, lengths and margins of u are rounded; what is summed is twice as long."""
    long = problem.unit.slots * (1 + (8 * problem.d + 100) * UNIT * problem.stretch)
    return long, 2 * (sampled_factors(problem)[1] + 8 * problem.places * UNIT)
