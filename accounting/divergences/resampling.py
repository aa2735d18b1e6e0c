"""The cost of a pure run on a bootstrap sample, by the theorem of docs/proofs/resampled.md, rounded up."""

import math
from functools import lru_cache

import numpy as np

from accounting.divergences.roots import brent

LARGEST_RUN_EPSILON = 3.0  # the largest epsilon of a run on a bootstrap sample
_MOST_COPIES = 200  # a row drawn more often changes the sum by less than e^(3 * 201) / 201! < 1e-100
_ROUNDING = 1 + 1e-9
_ULP = 2.0**-52
_ROOT_TOLERANCE = 4 * _ULP  # the smallest that brentq accepts


@lru_cache(maxsize=4096)
def epsilon_of(run: float, n: int) -> float:
    """Return ln of the smallest r with p_0 (1 - r) + sum_(j>=1) p_j max over y in {e^(-je), 1} of y (e^(je) - r) <= 0.

    p_j = P(Bin(n, 1/n) = j) and e = `run`. It is rounded up, and infinite for e above 3.
    """
    if run > LARGEST_RUN_EPSILON:
        return math.inf
    j = np.arange(1, min(n, _MOST_COPIES) + 1, dtype=float)
    p0 = math.exp(n * math.log1p(-1 / n))
    p = p0 * np.cumprod((n - j + 1) / j / (n - 1.0))
    gains = np.expm1(j * run)
    smallest = np.exp(-j * run)

    def left_side(over: float) -> tuple[float, float]:
        """Return the left side at r = 1 + `over` and minus its slope. It falls, and is convex and piecewise linear."""
        gaps = gains - over
        y = p * np.where(gaps > 0, 1.0, smallest)
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
def run_epsilon(epsilon: float, n: int) -> float:
    """Return the largest e, up to 3, for which `epsilon_of(e, n)` is at most epsilon."""
    if epsilon_of(LARGEST_RUN_EPSILON, n) <= epsilon:
        return LARGEST_RUN_EPSILON
    run = brent(lambda e: epsilon_of(e, n) - epsilon, 0.0, LARGEST_RUN_EPSILON, xtol=1e-300, rtol=_ROOT_TOLERANCE)
    rounding = _ULP
    while epsilon_of(run, n) > epsilon:
        run, rounding = run * (1 - rounding), 2 * rounding
    return run
