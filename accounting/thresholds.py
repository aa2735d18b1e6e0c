"""The orders, weights and thresholds of a new filter, rounded down."""

import math
from fractions import Fraction
from functools import lru_cache
from typing import Literal

import numpy as np

from accounting.charges import UNIT
from accounting.divergences.gaussian import gauss_mu, largest_shared_mu, order_cover
from accounting.errors import OutOfRange
from accounting.numbers import finite
from accounting.privacy import Privacy

Kind = Literal["rdp", "gdp", "gdp_rdp", "pure"]

ORDER_RATIOS = {"rdp": (0.55, 1.0, 1.8), "gdp_rdp": (1.0, 1.8)}  # the orders of a new filter over a*
SMALLEST_ORDER = 1.01  # below it a threshold is not exact to one unit, and none would be positive
# Relative error of a budget on the grid: its terms are below 2,800 in absolute value, each right to a few last units.
_GRID_ERROR = 1e-9
_SQUARE_ROUNDING = 1 + 1e-15  # more than the error of a difference from a square that is not larger
_MIXED_WEIGHTS = {1: (28 / 64, 36 / 64), 2: (28 / 64, 24 / 64, 12 / 64)}  # of mu^2 and of that many orders


@lru_cache(maxsize=256)
def orders(kind: Kind, epsilon: float, delta: float, delta_alone: float) -> tuple[float, ...]:
    """Return the orders: ratios of a*, without those whose threshold would not be positive.

    a* maximizes 2 B(a) / a, the total mu^2 of the Gaussian jobs that the order a alone admits at `delta_alone`. While a
    threshold is not positive, the order with the smallest threshold is dropped.
    """
    grid = 1 + np.geomspace(1e-2, 1e7, 20_001)
    budgets = (epsilon - np.log1p(-1 / grid) + np.log(grid * delta_alone) / (grid - 1)) / grid
    candidates = grid[budgets >= budgets.max() - 2 * _GRID_ERROR * max(1.0, abs(budgets.max()))]
    best = max(candidates, key=lambda a: _renyi_budget(epsilon, delta_alone, float(a), 1.0) / a)
    chosen = [a for a in (float(f"{ratio * best:.4g}") for ratio in ORDER_RATIOS[kind]) if a >= SMALLEST_ORDER]
    while chosen:
        weighed = zip(chosen, weights(kind, len(chosen))[-len(chosen) :], strict=True)
        thresholds = [renyi(epsilon, delta, a, w) for a, w in weighed]
        if min(thresholds) > 0:
            break
        chosen.pop(thresholds.index(min(thresholds)))
    return tuple(chosen)


def weights(kind: Kind, count: int) -> tuple[float, ...]:
    """Return the weights of mu^2, if it is a coordinate, and of `count` orders; their sum is at most 1.

    They are equal under `rdp`: for 1, 2 and 3 the float is not above the quotient. Those of `gdp_rdp` are a compromise
    between Gaussian jobs and jobs that orders decide (docs/decisions/0016-default-filter.md).
    """
    if kind == "gdp_rdp":
        return _MIXED_WEIGHTS.get(count, ())
    return (1.0 / count,) * count if count else ()


def delta_without_slack(kind: Kind, privacy: Privacy, slack: float) -> float:
    """Return delta less the slack, rounded down; `OutOfRange` if the filter cannot have this slack."""
    if slack == 0.0 and kind != "gdp_rdp":
        return privacy.delta
    if kind not in ORDER_RATIOS or not 0 < finite(slack, "slack") <= privacy.delta / 2:
        raise OutOfRange("slack must lie in (0, delta / 2], and only filters 'rdp' and 'gdp_rdp' have one")
    return math.nextafter(privacy.delta - slack, 0.0)


def gaussian(epsilon: float, delta: float) -> int:
    """Return mu*(epsilon, delta)^2 in units."""
    return math.floor(Fraction(gauss_mu(epsilon, delta)) ** 2 * UNIT) if epsilon > 0 else 0


def gaussian_beside_orders(
    epsilon: float, delta: float, weight: float, orders: tuple[float, ...], tops: tuple[int, ...], slack: float
) -> int:
    """Return the largest T_0 in units with (1 - the sum of the orders' covers) delta_G(epsilon, T_0) <= weight delta.

    An order with threshold T_k covers a part of what the Gaussian jobs can lose, as both are paid for in advance. The
    delta of T_0 alone is at most `delta`. Proof: docs/proofs/filter.md.

    Parameters
    ----------
    tops : the thresholds of the orders, in units
    """
    if epsilon <= 0:
        return 0

    def counted(mu: float) -> float:
        covers = (
            order_cover(a, mu * mu * _SQUARE_ROUNDING - 2 * top / UNIT / a) * math.exp((a - 1) * math.log1p(-slack))
            for a, top in zip(orders, tops, strict=True)
        )
        return max(0.0, 1 - sum(covers))

    return math.floor(Fraction(largest_shared_mu(epsilon, delta * weight, delta, counted)) ** 2 * UNIT)


def renyi(epsilon: float, delta: float, a: float, weight: float) -> int:
    """Return B(a) at `weight` times delta in units."""
    return math.floor(Fraction(_renyi_budget(epsilon, delta, a, weight)) * UNIT) - 1


def _renyi_budget(epsilon: float, delta: float, a: float, weight: float) -> float:
    """Return B(a), with an error below half a unit if B(a) > 0 and a >= 1.01 (docs/proofs/filter.md)."""
    return epsilon - math.log1p(-1 / a) + math.log(a * weight * delta) / (a - 1)
