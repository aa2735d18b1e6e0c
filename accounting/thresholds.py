"""The thresholds of a new filter: its orders, how they and mu^2 share delta, and what each admits. Rounded down."""

import math
from fractions import Fraction
from functools import lru_cache
from typing import Literal

import numpy as np

from accounting.charges import UNIT
from accounting.divergences.gaussian import gauss_mu

Kind = Literal["rdp", "gdp", "gdp_rdp", "pure"]

SHARES = {"rdp": (0.55, 1.0, 1.8), "gdp_rdp": (1.0, 1.8)}  # of a*, the orders of a new filter
LEAST_ORDER = 1.01  # nearer to 1 a threshold could not be computed to one unit; none would be positive there
_ABOUT = 1e-9  # terms are below 2,800 in absolute value, and each is right to some units in its last place
_MIXED = {1: (24 / 64, 40 / 64), 2: (24 / 64, 25 / 64, 15 / 64)}  # weights of mu^2 and of so many orders


@lru_cache(maxsize=256)
def orders(kind: Kind, epsilon: float, delta: float, alone: float) -> tuple[float, ...]:
    """Shares of a*, less the dead: while a threshold is not positive, the least is dropped.

    a* maximizes 2 B(a) / a, the total mu^2 of Gaussian jobs that the order a alone would admit, at delta = `alone`.
    """
    grid = 1 + np.geomspace(1e-2, 1e7, 20_001)
    about = (epsilon - np.log1p(-1 / grid) + np.log(grid * alone) / (grid - 1)) / grid  # off by less than _ABOUT
    near = grid[about >= about.max() - 2 * _ABOUT * max(1.0, abs(about.max()))]
    best = max(near, key=lambda a: _renyi_budget(epsilon, alone, float(a), 1.0) / a)
    found = [a for a in (float(f"{share * best:.4g}") for share in SHARES[kind]) if a >= LEAST_ORDER]
    while found:
        weighed = zip(found, weights(kind, len(found))[-len(found) :], strict=True)
        budgets = [renyi(epsilon, delta, a, w) for a, w in weighed]
        if min(budgets) > 0:
            break
        found.pop(budgets.index(min(budgets)))
    return tuple(found)


def weights(kind: Kind, count: int) -> tuple[float, ...]:
    """Of mu^2, where it is a coordinate, and of so many orders; at most 1 together.

    Equal ones under `rdp`: for 1, 2 and 3 the float is not above the quotient. Under `gdp_rdp` each order keeps 97 % of
    the threshold that it has there (docs/decisions/0016-default-filter.md).
    """
    return _MIXED.get(count, ()) if kind == "gdp_rdp" else (1.0 / count,) * count if count else ()


def gaussian(epsilon: float, delta: float) -> int:
    """mu*(epsilon, delta)^2, in units."""
    return math.floor(Fraction(gauss_mu(epsilon, delta)) ** 2 * UNIT) if epsilon > 0 else 0


def renyi(epsilon: float, delta: float, a: float, weight: float) -> int:
    """B(a) with a weight's part of delta, in units."""
    return math.floor(Fraction(_renyi_budget(epsilon, delta, a, weight)) * UNIT) - 1


def _renyi_budget(epsilon: float, delta: float, a: float, weight: float) -> float:
    """B(a) in floats, off by less than half a unit where B(a) > 0 and a >= 1.01 (docs/proofs/filter.md)."""
    return epsilon - math.log1p(-1 / a) + math.log(a * weight * delta) / (a - 1)
