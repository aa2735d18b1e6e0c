"""The Renyi curve and the privacy profile of the best of N runs, each of which counts by a fair coin.

Proof: docs/proofs/selection.md.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.special import ndtr

from accounting.divergences.gaussian import SMALLEST_MU, gauss_deltas
from accounting.divergences.losses import Vector
from accounting.divergences.polygon import lower_hull

_EDGE, _CELLS = 12.0, 4096  # beyond +-12 a normal tail is below 2e-33
_GRID = np.linspace(-_EDGE, _EDGE, _CELLS + 1)
_GRID_ERROR = (2 * _EDGE / _CELLS) ** 2 / 8  # over a bound on the second derivative
_ORDERS = np.geomspace(1.25, 4096.0, 48)  # a divergence grows with its order, so these bound lower orders
_ROUNDING, _LOG_ERROR = 1 + 1e-10, 1e-13
_SHORT_EDGE = 6.5  # for the profile: a normal tail beyond it is 4e-11
_FEWEST_CELLS, _CELLS_PER_RUN = 1024, 256
_PROFILE_ROUNDING, _PROFILE_LOG_ERROR = 1 + 1e-9, 1e-12


@dataclass(frozen=True, slots=True)
class BestOf:
    """The curve rho(a) = min over b >= a of b mu^2 / 2 + (ln(N / (2 - 2^(1-N))) + (N - 1) ln S_b) / (b - 1).

    It is at most N a mu^2 / 2. S_b = max over x of ((1 + Phi(x + mu)) / 2)^b ((1 + Phi(x)) / 2)^(1-b).

    Parameters
    ----------
    runs : N
    mu : each run is mu-GDP
    """

    runs: int
    mu: float

    def __call__(self, orders: Sequence[float]) -> Vector:
        requested = np.asarray(orders, dtype=float)
        grid = np.unique(np.concatenate((requested, _ORDERS)))
        running_minimum = np.minimum.accumulate(self._at(grid)[::-1])[::-1]
        curve = running_minimum[np.searchsorted(grid, requested)]
        return np.asarray(np.minimum(curve, self.runs * requested * (self.mu**2 / 2)) * _ROUNDING)

    def _at(self, orders: Vector) -> Vector:
        log_count = math.log(self.runs / (2 - 2.0 ** (1 - self.runs)))
        log_factor = log_supremum(self.mu, tuple(orders.tolist())) + _LOG_ERROR * orders
        return orders * (self.mu**2 / 2) + (log_count + (self.runs - 1) * log_factor) / (orders - 1)


@dataclass(frozen=True, slots=True)
class BestOfProfile:
    """A bound on the profile at each epsilon >= 0: the sum over i of w_i H_(t_i gamma) of a single run.

    w_i, t_i are the jumps and positions of the slope of t -> sup over x of t F(x)^(N-1) - G(x)^(N-1), or 0 if that is
    less. F = (1 + Phi(x + mu)) / 2, G = (1 + Phi(x)) / 2.

    Parameters
    ----------
    runs : N
    mu : each run is mu-GDP
    """

    runs: int
    mu: float

    def __call__(self, epsilons: Vector) -> Vector:
        mu = max(self.mu, SMALLEST_MU)
        weights, log_thresholds = thresholds(self.runs, mu)
        one_run = gauss_deltas(mu, epsilons[:, None] + log_thresholds)
        count = self.runs / (2 - 2.0 ** (1 - self.runs))
        return np.asarray(np.minimum(one_run @ weights * (count * _PROFILE_ROUNDING), 1.0))


@lru_cache(maxsize=256)
def log_supremum(mu: float, orders: tuple[float, ...]) -> Vector:
    """Return ln S at each order, from above: on a grid, with a second derivative of at most 1/2 + (b - 1) mu."""
    shifted = _log_half(_GRID + mu)
    base = _log_half(_GRID)
    shifted_below = _log_half(np.array([mu - _EDGE]))[0]
    base_below = -math.log(2.0)
    log_factors = np.empty(len(orders))
    for k, b in enumerate(orders):
        inside = float((b * shifted - (b - 1) * base).max()) + _GRID_ERROR * (0.5 + (b - 1) * mu)
        log_factors[k] = max(inside, b * shifted_below - (b - 1) * base_below, -(b - 1) * base[-1])
    return log_factors


@lru_cache(maxsize=64)
def thresholds(runs: int, mu: float) -> tuple[Vector, Vector]:
    """Return w_i and ln t_i, from above: h(t) <= sum of w_i (t - t_i)_+ for the h of `BestOfProfile`."""
    cells = min(max(_FEWEST_CELLS, _CELLS_PER_RUN * runs), _CELLS)
    x = np.linspace(-_SHORT_EDGE - mu, _SHORT_EDGE, cells + 1)
    log_f = np.maximum.accumulate(_log_half(x + mu))
    log_g = np.maximum.accumulate(_log_half(x))
    log_g[0], log_f[-1] = -math.log(2.0), 0.0  # so that both end points bound all x beyond them
    other_runs, step = runs - 1, float(x[1] - x[0])
    between_points = step**2 / 16 + _PROFILE_LOG_ERROR  # |(ln F)''|, |(ln G)''| < 1/2
    chord = (other_runs * float(np.diff(log_g).max())) ** 2 / 8
    f = np.append(0.0, np.exp(other_runs * (log_f + between_points)))
    g = np.append(0.0, np.exp(other_runs * (log_g - between_points) - chord))
    first_of_equals = np.insert(np.diff(f) > 0, 0, True)
    f, g = f[first_of_equals], g[first_of_equals]
    hull = lower_hull(f, g)
    weights = np.diff(f[hull])
    return weights, np.log(np.diff(g[hull]) / weights)


def _log_half(x: Vector) -> Vector:
    """Return ln((1 + Phi(x)) / 2)."""
    return np.asarray(np.log1p(-ndtr(-x) / 2))
