"""A pair of laws that dominates every mechanism of a given Renyi curve, in both orders of neighbors.

If another bound on the profile is known, the pair lies above the smaller of both.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from accounting.divergences import polygon
from accounting.divergences.losses import Masses, Vector
from accounting.divergences.polygon import Knots

_ORDERS = 1 + np.geomspace(1e-2, 1e5, 400)
_KNOT_COUNT = 300
_SMALLEST_PROFILE = 1e-13  # at the last knot; the profile beyond it counts as infinite loss
_ROUNDING = 1 + 1e-9

Curve = Callable[[Sequence[float]], Vector]
Profile = Callable[[Vector], Vector]
"""A bound on H at gamma = e^epsilon for each epsilon >= 0, in both orders of neighbors; hashable."""


@dataclass(frozen=True, slots=True)
class RenyiLoss:
    """The loss of the polygon over H_gamma <= min over a of e^((a-1)(rho(a) - epsilon)) (1 - 1/a)^(a-1) / a.

    At gamma = 1 the bound is also sqrt(rho(a) / 2) (Pinsker).

    Parameters
    ----------
    curve : rho, hashable
    shift : the largest shift behind it, in noise stds
    profile : another bound, or None

    Reference: Canonne, Kamath and Steinke 2020, Proposition 12; docs/proofs/filter.md.
    """

    curve: Curve
    shift: float
    profile: Profile | None = None

    @property
    def deviation(self) -> float:
        """The standard deviation of the Gaussian loss of this shift."""
        return self.shift

    @property
    def widest(self) -> float:
        return 2 * float(_knots(self.curve, self.profile).epsilons[-1])

    def moments(self, count: int) -> tuple[float, float]:
        """Return a bound on the mean, rho at the lowest order, and the variance of a Gaussian loss of this mean."""
        mean = float(np.asarray(self.curve([float(_ORDERS[0])]))[0])
        return count * mean, count * 2 * mean

    def masses(self, interval: float) -> Masses:
        return polygon.on_grid(_knots(self.curve, self.profile), interval)


@lru_cache(maxsize=64)
def _knots(curve: Curve, profile: Profile | None) -> Knots:
    rho = np.asarray(curve([float(a) for a in _ORDERS]))
    slack = (_ORDERS - 1) * np.log1p(-1 / _ORDERS) - np.log(_ORDERS)
    last = float(np.min(rho + (slack - math.log(_SMALLEST_PROFILE)) / (_ORDERS - 1)))
    epsilons = np.linspace(0.0, last, _KNOT_COUNT)
    logs = np.min((_ORDERS - 1) * (rho - epsilons[:, None]) + slack, axis=1)
    bounds = np.minimum(np.exp(np.minimum(logs, 0.0)) * _ROUNDING, 1.0)
    bounds[0] = min(bounds[0], math.sqrt(float(rho.min()) / 2) * _ROUNDING)
    if profile is not None:
        bounds = np.minimum(bounds, profile(epsilons))
    return polygon.knots(np.exp(epsilons), np.minimum.accumulate(bounds))
