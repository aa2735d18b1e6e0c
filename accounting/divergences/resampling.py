"""The cost of a pure run on a bootstrap sample, by the theorem of docs/proofs/resampled.md, rounded up."""

import math
from functools import lru_cache

import numpy as np

from accounting.divergences.losses import Vector
from accounting.divergences.roots import brent
from accounting.privacy import REPLACE_ONE, Relation

LARGEST_RUN_EPSILON = 3.0  # the largest epsilon of a run on a bootstrap sample
_MOST_COPIES = 200  # a row drawn more often changes the sum by less than e^(3 * 201) / 201! < 1e-100
_ROUNDING = 1 + 1e-9
_ULP = 2.0**-52
_ROOT_TOLERANCE = 4 * _ULP  # the smallest that brentq accepts


@lru_cache(maxsize=4096)
def epsilon_of(run: float, n: int, relation: Relation = REPLACE_ONE) -> float:
    """Return ln of the smallest r with p_0 (1 - r) + sum_(j>=1) p_j max over y in Y_j of y (e^(jg) - r) <= 0.

    p_j = P(Bin(n, 1/n) = j), and e = `run` for a replacement, e/2 for a record that becomes null. Under replace_one
    g = e and Y_j = {e^(-je), 1}. Under zero_out g = e/2 and Y_j is {e^(-je/2), e^(je/2)} or {e^(-je), 1} in the two
    orders of neighbors, of which the larger r counts. It is rounded up, and infinite for e above 3.
    """
    if run > LARGEST_RUN_EPSILON:
        return math.inf
    j = np.arange(1, min(n, _MOST_COPIES) + 1, dtype=float)
    p0 = math.exp(n * math.log1p(-1 / n))
    p = np.asarray(p0 * np.cumprod((n - j + 1) / j / (n - 1.0)), dtype=float)
    own = j * (run / 2 if relation == "zero_out" else run)
    ends = [(np.exp(-j * run), np.ones(len(j)))] + ([(np.exp(-own), np.exp(own))] if relation == "zero_out" else [])
    return max(_log_smallest_ratio(p0, p, np.expm1(own), smallest, largest) for smallest, largest in ends)


def _log_smallest_ratio(p0: float, p: Vector, gains: Vector, smallest: Vector, largest: Vector) -> float:
    """Return ln of the smallest r for these e^(jg) - 1 and the two ends of Y_j, rounded up."""

    def left_side(over: float) -> tuple[float, float]:
        """Return the left side at r = 1 + `over` and minus its slope. It falls, and is convex and piecewise linear."""
        gaps = gains - over
        y = p * np.where(gaps > 0, largest, smallest)
        return float(y @ gaps) - p0 * over, float(y.sum()) + p0

    over, (excess, slope) = 0.0, left_side(0.0)
    for _ in range(_MOST_COPIES):  # Newton's steps from below the root stay below it, except for rounding
        if not excess > 0 or over + excess / slope == over:
            break
        over += excess / slope
        excess, slope = left_side(over)
    rounding = _ULP
    while excess > 0 and rounding < _ROUNDING - 1:
        over, rounding = over * (1 + rounding), 2 * rounding
        excess, _ = left_side(over)
    return math.log1p(over) * _ROUNDING if excess <= 0 else math.inf


@lru_cache(maxsize=4096)
def run_epsilon(epsilon: float, n: int, relation: Relation = REPLACE_ONE) -> float:
    """Return the largest e, up to 3, for which `epsilon_of(e, n, relation)` is at most epsilon."""
    if epsilon_of(LARGEST_RUN_EPSILON, n, relation) <= epsilon:
        return LARGEST_RUN_EPSILON

    def over(e: float) -> float:
        return epsilon_of(e, n, relation) - epsilon

    run = brent(over, 0.0, LARGEST_RUN_EPSILON, xtol=1e-300, rtol=_ROOT_TOLERANCE)
    rounding = _ULP
    while over(run) > 0:
        run, rounding = run * (1 - rounding), 2 * rounding
    return run
