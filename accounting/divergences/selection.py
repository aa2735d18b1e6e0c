"""Renyi curve of the best of N runs, each of which counts with a fair coin: the theorem of docs/proofs/selection.md."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

Vector = NDArray[np.float64]

_EDGE, _CELLS = 12.0, 4096  # beyond +-12 a normal tail is below 2e-33
_X = np.linspace(-_EDGE, _EDGE, _CELLS + 1)
_SQUARED = (2 * _EDGE / _CELLS) ** 2 / 8
_ORDERS = np.geomspace(1.25, 4096.0, 48)  # from which a lower order may borrow: a Renyi divergence grows with its order
_ROUNDING, _LEAST = 1 + 1e-10, 1e-13


@dataclass(frozen=True, slots=True)
class BestOf:
    """rho(a) = min over b >= a of b mu^2 / 2 + (ln(N / (2 - 2^(1-N))) + (N - 1) ln S_b) / (b - 1), and N a mu^2 / 2,
    S_b = max over x of ((1 + Phi(x + mu)) / 2)^b ((1 + Phi(x)) / 2)^(1-b).

    Parameters
    ----------
    runs : N
    mu : each run is mu-GDP
    """

    runs: int
    mu: float

    def __call__(self, orders: Sequence[float]) -> Vector:
        asked = np.asarray(orders, dtype=float)
        every = np.unique(np.concatenate((asked, _ORDERS)))
        found = self._at(every)
        least = np.minimum.accumulate(found[::-1])[::-1][np.searchsorted(every, asked)]
        return np.asarray(np.minimum(least, self.runs * asked * (self.mu**2 / 2)) * _ROUNDING)

    def _at(self, orders: Vector) -> Vector:
        counted = math.log(self.runs / (2 - 2.0 ** (1 - self.runs)))
        more = counted + (self.runs - 1) * (_log_factor(self.mu, tuple(orders.tolist())) + _LEAST * orders)
        return orders * (self.mu**2 / 2) + more / (orders - 1)


@lru_cache(maxsize=256)
def _log_factor(mu: float, orders: tuple[float, ...]) -> Vector:
    """ln S at each order, from above: on a grid, and what a second derivative of at most 1/2 + (b - 1) mu leaves."""
    near, far = _log_half(_X + mu), _log_half(_X)
    below = _log_half(np.array([mu - _EDGE]))[0], -math.log(2.0)
    found = np.empty(len(orders))
    for k, b in enumerate(orders):
        inside = float((b * near - (b - 1) * far).max()) + _SQUARED * (0.5 + (b - 1) * mu)
        found[k] = max(inside, b * below[0] - (b - 1) * below[1], -(b - 1) * far[-1])
    return found


def _log_half(x: Vector) -> Vector:
    """ln((1 + Phi(x)) / 2)."""
    return np.asarray(np.log1p(-ndtr(-x) / 2))
