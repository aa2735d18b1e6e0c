"""A pair of laws above every mechanism of a given Renyi curve, in both orders of neighbors: for filters alone."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from accounting.divergences import polygon
from accounting.divergences.losses import Masses, Vector
from accounting.divergences.polygon import Knots

_ORDERS = 1 + np.geomspace(1e-2, 1e5, 400)
_KNOTS = 300
_LEAST = 1e-13  # beyond the last knot the profile is at most this, all of it counted as infinite loss
_ROUNDING = 1 + 1e-9

Curve = Callable[[Sequence[float]], Vector]


@dataclass(frozen=True, slots=True)
class RenyiLoss:
    """The polygon over H_gamma <= min over a of e^((a-1)(rho(a) - epsilon)) (1 - 1/a)^(a-1) / a, at gamma = 1 also over
    sqrt(rho(a) / 2) (Pinsker).

    Parameters
    ----------
    curve : rho, a value that compares
    shift : the largest displacement behind it, in noise stds

    Reference: Canonne, Kamath and Steinke 2020, Proposition 12; docs/proofs/filter.md.
    """

    curve: Curve
    shift: float

    @property
    def deviation(self) -> float:
        """That of the Gaussian loss of this displacement."""
        return self.shift

    @property
    def widest(self) -> float:
        return 2 * float(_knots(self.curve).epsilons[-1])

    def moments(self, count: int) -> tuple[float, float]:
        """The mean is at most rho at any order; the variance about that of a Gaussian loss of this mean."""
        mean = float(np.asarray(self.curve([float(_ORDERS[0])]))[0])
        return count * mean, count * 2 * mean

    def masses(self, interval: float) -> Masses:
        return polygon.on_grid(_knots(self.curve), interval)


@lru_cache(maxsize=64)
def _knots(curve: Curve) -> Knots:
    rho = np.asarray(curve([float(a) for a in _ORDERS]))
    slack = (_ORDERS - 1) * np.log1p(-1 / _ORDERS) - np.log(_ORDERS)
    last = float(np.min(rho + (slack - math.log(_LEAST)) / (_ORDERS - 1)))
    epsilons = np.linspace(0.0, last, _KNOTS)
    logs = np.min((_ORDERS - 1) * (rho - epsilons[:, None]) + slack, axis=1)
    bounds = np.minimum(np.exp(np.minimum(logs, 0.0)) * _ROUNDING, 1.0)
    bounds[0] = min(bounds[0], math.sqrt(float(rho.min()) / 2) * _ROUNDING)
    return polygon.knots(np.exp(epsilons), np.minimum.accumulate(bounds))
