"""The margins of conditioned_mu, which holds for every law within the error of its masses, by small laws."""

import math
from collections.abc import Iterator

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import norm

from accounting.divergences.conditioned import conditioned_mu
from accounting.divergences.losses import Masses

Vector = NDArray[np.float64]

STEP, REACH = 0.5, 4  # the losses are -2, -1.5, .. 2
LOSSES = np.arange(-REACH, REACH + 1)
RATIO = np.exp(-STEP * LOSSES)


def law(p: dict[int, float]) -> Vector:
    """Return masses under P, with enough at 0 that neither P nor Q sums to more than 1."""
    masses = np.array([p.get(int(loss), 0.0) for loss in LOSSES])
    masses[REACH] = 1 - max(masses.sum(), masses @ RATIO)
    return masses


LAWS = {
    "even": law({k: 0.11 * math.exp(-0.4 * abs(k) + STEP * k / 2) for k in (-4, -3, -2, -1, 1, 2, 3, 4)}),
    "high": law({4: 0.012, 1: 0.05, -1: 0.02}),
    "low": law({-4: 0.0016, -1: 0.03, 1: 0.04}),
    "ends": law({-4: 0.003, -3: 0.003, 3: 0.012, 4: 0.012}),
    "lacking": law({4: 0.01, 1: 0.1}) * 0.97,
}


def cuts(p: Vector) -> Iterator[tuple[float, float]]:
    """Yield the larger mass of P and Q outside E = {|loss| <= l}, and the mu of the pair given E, for each l."""
    q = p * RATIO
    for end in range(REACH + 1):
        interval = slice(REACH - end, REACH + end + 1)
        beyond = max(1 - p[interval].sum(), 1 - q[interval].sum())
        u, v = (np.cumsum(m[interval][::-1])[:-1] / m[interval].sum() for m in (p, q))
        inside = (v > 1e-12) & (u < 1 - 1e-12)  # where a law ends, both are 0 or 1 but for rounding
        yield beyond, float(np.max(norm.ppf(u[inside]) - norm.ppf(v[inside]), initial=0.0))


def misstated(p: Vector, error: float) -> Iterator[Vector]:
    """Yield masses whose sums, with weights in [0, 1], differ from those of this law by at most the error."""
    for raised in range(-1, len(p)):
        for lowered in range(-1, len(p)):
            masses = p.copy()
            if lowered >= 0:
                masses[lowered] = max(masses[lowered] - error, 0.0)
            if raised >= 0:
                masses[raised] += error
            yield masses


@pytest.mark.slow
@pytest.mark.parametrize("error", [1e-12, 1e-3])
@pytest.mark.parametrize("name", LAWS)
def test_mu_holds_for_every_law_within_the_error_of_the_masses(name: str, error: float) -> None:
    true, count = LAWS[name], 0
    costs = list(cuts(true))
    allowed = {beyond * factor for beyond, _ in costs for factor in (1 - 1e-6, 1 + 1e-6, 1.3)} | {0.02, 0.1, 0.3}
    for masses in misstated(true, error):
        for missing in allowed:
            mu = conditioned_mu(Masses(STEP, -REACH, masses, 0.0), missing, error) if 0 < missing < 1 else None
            if mu is not None:
                count += 1
                assert any(beyond <= missing and true_mu <= mu * (1 + 1e-9) for beyond, true_mu in costs)
    assert count
