"""The guarantee of conditioned_mu, compared by brute force for every law within the error of its masses."""

import math
from itertools import product

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import norm

from accounting.divergences.conditioned import conditioned_mu
from accounting.divergences.losses import Masses

STEP, REACH = 0.25, 8
POINTS = np.arange(-REACH, REACH + 1)
FALL = np.exp(-POINTS * STEP)


def pair(upper: float, lower: float, infinite: float, lost: float) -> NDArray[np.float64]:
    """P's masses: a bell, `upper` of P at the largest loss, `lower` of Q at the least; `infinite` of P lies at +inf and
    `lost` of Q at -inf.
    """
    p = np.exp(-(POINTS**2) / 6.0) * np.exp(POINTS * STEP / 2)
    p[0], p[-1] = lower / FALL[0], upper
    inner = slice(1, -1)
    low, high = -2.0, 2.0
    for _ in range(200):  # a tilt at which P and Q lack the requested masses
        tilt = (low + high) / 2
        middle = p[inner] * np.exp(tilt * POINTS[inner])
        middle *= (1 - infinite - p[0] - p[-1]) / middle.sum()
        low, high = (tilt, high) if (middle @ FALL[inner]) > 1 - lost - lower - upper * FALL[-1] else (low, tilt)
    return np.concatenate([p[:1], middle, p[-1:]])


def exact_mu(p: NDArray[np.float64], missing: float) -> float:
    """Return mu of the pair given the shortest [-l, l] that keeps 1 - missing of both, over every corner."""
    for end in range(REACH + 1):
        inside = np.abs(POINTS) <= end
        first, second = p[inside], (p * FALL)[inside]
        if min(first.sum(), second.sum()) >= 1 - missing:
            above = [np.cumsum(x[::-1] / x.sum())[:-1] for x in (first, second)]
            return float(np.max(norm.ppf(above[0]) - norm.ppf(above[1]), initial=0.0))
    return math.inf


CASES = {  # upper, lower, infinite, lost; the most that may be given up; the error
    "tails of both": (4e-3, 4e-3, 0.0, 0.0, 2e-2, 1e-12),
    "the upper tail binds": (3e-2, 1e-5, 0.0, 0.0, 2e-2, 1e-12),
    "the lower tail binds": (1e-5, 3e-2, 0.0, 0.0, 2e-2, 1e-12),
    "infinite losses, and what is above": (8e-3, 1e-5, 1.5e-2, 0.0, 2e-2, 1e-12),
    "losses of minus infinity, and what is below": (1e-5, 8e-3, 0.0, 1.5e-2, 2e-2, 1e-12),
    "much is given up": (1e-3, 1e-3, 5e-2, 5e-2, 0.15, 1e-12),
    "little is": (1e-4, 1e-4, 0.0, 0.0, 1e-3, 1e-4),
    "above, barely too much": (2.5e-3 + 5e-5, 1e-5, 0.0, 0.0, 2.5e-3, 1e-4),
    "below, barely too much": (1e-5, 2.5e-3 + 4e-4, 0.0, 0.0, 2.5e-3, 1e-4),
    "above, hardly more than the error": (2.9e-4, 4e-5, 0.0, 0.0, 2.5e-4, 2e-5),
    "below, hardly more than the error": (4e-5, 2.9e-4, 0.0, 0.0, 2.5e-4, 2e-5),
}


@pytest.mark.parametrize("case", CASES)
def test_mu_holds_of_every_pair_within_the_error(case: str) -> None:
    """Change one mass by the error, or two masses by half of it. Mu of the changed masses bounds the true pair."""
    *shape, missing, error = CASES[case]
    true, bounds = pair(*shape), list[float]()
    exact = exact_mu(true, missing)
    for i, sign, j in product(range(len(true)), (1.0, -1.0), (None, 0, -1)):
        changed = true.copy()
        changed[i] += sign * error / (1 if j is None else 2)
        if j is not None:
            changed[j] -= sign * error / 2
        mu = conditioned_mu(Masses(STEP, -REACH, changed, 0.0), missing, error)
        if mu is not None:
            bounds.append(mu)
            assert mu >= exact * (1 - 1e-12), (i, sign, j)
    assert bounds
    assert min(bounds) < exact * (1 + 10 * missing + 3e3 * error)
