"""What a pure run on a bootstrap sample costs: the theorem of docs/proofs/resampled.md, rounded up."""

import math
from functools import lru_cache

import numpy as np

LARGEST = 3.0  # the largest epsilon of a run on a bootstrap sample
_COPIES = 200  # a row drawn more often would matter by less than e^(3 * 201) / 201! < 1e-100
_ROUNDING = 1 + 1e-9
_ULP = 2.0**-52
_ROOT = 4 * _ULP  # the least that brentq takes


@lru_cache(maxsize=4096)
def epsilon_of(run: float, n: int) -> float:
    """ln of the least r with p_0 (1 - r) + sum over j >= 1 of p_j max over y in {e^(-je), 1} of y (e^(je) - r) <= 0.

    p_j = P(Bin(n, 1/n) = j), e = `run`; rounded up; infinite for e above 3.
    """
    if run > LARGEST:
        return math.inf
    j = np.arange(1, min(n, _COPIES) + 1, dtype=float)
    p0 = math.exp(n * math.log1p(-1 / n))
    p, gains, least = p0 * np.cumprod((n - j + 1) / j / (n - 1.0)), np.expm1(j * run), np.exp(-j * run)

    def left(over: float) -> tuple[float, float]:
        """The left side at r = 1 + `over`, and its slope's size: convex, and falls; a line piece by piece."""
        gaps = gains - over
        y = p * np.where(gaps > 0, 1.0, least)
        return float(y @ gaps) - p0 * over, float(y.sum()) + p0

    over, (excess, slope) = 0.0, left(0.0)
    for _ in range(_COPIES):  # from below the root Newton's steps stay below it, but for rounding, and end on its line
        if not excess > 0 or over + excess / slope == over:
            break
        over += excess / slope
        excess, slope = left(over)
    rounding = _ULP
    while excess > 0 and rounding < _ROUNDING - 1:
        over, rounding = over * (1 + rounding), 2 * rounding
        excess, _ = left(over)
    return math.log1p(over) * _ROUNDING if excess <= 0 else math.inf


@lru_cache(maxsize=4096)
def run_epsilon(epsilon: float, n: int) -> float:
    """The largest e, up to 3, for which `epsilon_of(e, n)` is at most epsilon."""
    from scipy.optimize import brentq  # late: few plans need it, and it is slow to load

    if epsilon_of(LARGEST, n) <= epsilon:
        return LARGEST
    found = float(brentq(lambda e: epsilon_of(e, n) - epsilon, 0.0, LARGEST, xtol=1e-300, rtol=_ROOT))
    rounding = _ULP
    while epsilon_of(found, n) > epsilon:
        found, rounding = found * (1 - rounding), 2 * rounding
    return found
