"""The Renyi curve of the best of N runs, each of which counts by a fair coin (docs/proofs/selection.md)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

Vector = NDArray[np.float64]

_EDGE, _CELLS = 12.0, 4096  # beyond +-12 a normal tail is below 2e-33
_GRID = np.linspace(-_EDGE, _EDGE, _CELLS + 1)
_GRID_ERROR = (2 * _EDGE / _CELLS) ** 2 / 8  # over a bound on the second derivative
_ORDERS = np.geomspace(1.25, 4096.0, 48)  # a divergence grows with its order, so these bound lower orders
_ROUNDING, _LOG_ERROR = 1 + 1e-10, 1e-13


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
        log_factor = _log_factor(self.mu, tuple(orders.tolist())) + _LOG_ERROR * orders
        return orders * (self.mu**2 / 2) + (log_count + (self.runs - 1) * log_factor) / (orders - 1)


@lru_cache(maxsize=256)
def _log_factor(mu: float, orders: tuple[float, ...]) -> Vector:
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


def _log_half(x: Vector) -> Vector:
    """Return ln((1 + Phi(x)) / 2)."""
    return np.asarray(np.log1p(-ndtr(-x) / 2))
