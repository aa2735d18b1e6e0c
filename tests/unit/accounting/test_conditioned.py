"""What conditioned_mu promises, for every law within the error of the masses it is given; by brute force."""

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
    for _ in range(200):  # a tilt at which P's and Q's missing parts are those asked for
        tilt = (low + high) / 2
        middle = p[inner] * np.exp(tilt * POINTS[inner])
        middle *= (1 - infinite - p[0] - p[-1]) / middle.sum()
        low, high = (tilt, high) if (middle @ FALL[inner]) > 1 - lost - lower - upper * FALL[-1] else (low, tilt)
    return np.concatenate([p[:1], middle, p[-1:]])


def least(p: NDArray[np.float64], most: float) -> float:
    """mu of the pair given the shortest [-l, l] that keeps 1 - most of both, over every corner."""
    for end in range(REACH + 1):
        kept = np.abs(POINTS) <= end
        one, two = p[kept], (p * FALL)[kept]
        if min(one.sum(), two.sum()) >= 1 - most:
            above = [np.cumsum(x[::-1] / x.sum())[:-1] for x in (one, two)]
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
    """Each loss's mass may be off by the error, up or down, or two of them by half of it: no such pair is told apart
    better than mu says of what it was taken for.
    """
    *shape, most, error = CASES[case]
    true, found = pair(*shape), list[float]()
    exact = least(true, most)
    for i, sign, j in product(range(len(true)), (1.0, -1.0), (None, 0, -1)):
        given = true.copy()
        given[i] += sign * error / (1 if j is None else 2)
        if j is not None:
            given[j] -= sign * error / 2
        mu = conditioned_mu(Masses(STEP, -REACH, given, 0.0), most, error)
        if mu is not None:
            found.append(mu)
            assert mu >= exact * (1 - 1e-12), (i, sign, j)
    assert found
    assert min(found) < exact * (1 + 10 * most + 3e3 * error)
