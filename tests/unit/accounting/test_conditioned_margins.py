"""The margins of conditioned_mu: it holds for every law that masses told with an error may be of, by small laws."""

import math
from collections.abc import Iterator

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import norm

from accounting.divergences.conditioned import conditioned_mu
from accounting.divergences.losses import Masses

Vector = NDArray[np.float64]

STEP, MOST = 0.5, 4  # the losses are -2, -1.5, .. 2
LOSSES = np.arange(-MOST, MOST + 1)
RATIO = np.exp(-STEP * LOSSES)


def law(p: dict[int, float]) -> Vector:
    """Masses under P, so many at 0 that neither P nor Q has more than 1."""
    found = np.array([p.get(int(loss), 0.0) for loss in LOSSES])
    found[MOST] = 1 - max(found.sum(), found @ RATIO)
    return found


LAWS = {
    "even": law({k: 0.11 * math.exp(-0.4 * abs(k) + STEP * k / 2) for k in (-4, -3, -2, -1, 1, 2, 3, 4)}),
    "high": law({4: 0.012, 1: 0.05, -1: 0.02}),
    "low": law({-4: 0.0016, -1: 0.03, 1: 0.04}),
    "ends": law({-4: 0.003, -3: 0.003, 3: 0.012, 4: 0.012}),
    "lacking": law({4: 0.01, 1: 0.1}) * 0.97,
}


def cuts(p: Vector) -> Iterator[tuple[float, float]]:
    """For each E = {|loss| <= l} the larger of P and Q beyond it, and the mu of the pair given E."""
    q = p * RATIO
    for end in range(MOST + 1):
        kept = slice(MOST - end, MOST + end + 1)
        beyond = max(1 - p[kept].sum(), 1 - q[kept].sum())
        u, v = (np.cumsum(m[kept][::-1])[:-1] / m[kept].sum() for m in (p, q))
        inside = (v > 1e-12) & (u < 1 - 1e-12)  # where a law ends, both are 0 or 1 but for rounding
        yield beyond, float(np.max(norm.ppf(u[inside]) - norm.ppf(v[inside]), initial=0.0))


def told(p: Vector, error: float) -> Iterator[Vector]:
    """Masses that may be said of this law: their sums, with weights in [0, 1], are good to the error."""
    for more in range(-1, len(p)):
        for less in range(-1, len(p)):
            found = p.copy()
            if less >= 0:
                found[less] = max(found[less] - error, 0.0)
            if more >= 0:
                found[more] += error
            yield found


@pytest.mark.slow
@pytest.mark.parametrize("error", [1e-12, 1e-3])
@pytest.mark.parametrize("name", LAWS)
def test_it_holds_for_every_law_that_the_masses_may_be_of(name: str, error: float) -> None:
    true, found = LAWS[name], 0
    costs = list(cuts(true))
    allowed = {beyond * factor for beyond, _ in costs for factor in (1 - 1e-6, 1 + 1e-6, 1.3)} | {0.02, 0.1, 0.3}
    for masses in told(true, error):
        for most in allowed:
            mu = conditioned_mu(Masses(STEP, -MOST, masses, 0.0), most, error) if 0 < most < 1 else None
            if mu is not None:
                found += 1
                assert any(beyond <= most and least <= mu * (1 + 1e-9) for beyond, least in costs)
    assert found
