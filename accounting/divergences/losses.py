"""Privacy-loss distributions of one answer, as pessimistic masses on a grid; those of Gaussian pairs.

The masses of the loss in each grid cell are exact differences of Gaussian tails; "connect the dots" moves them to the
grid's points so that the privacy profile only grows. Both directions of each pair are one: x -> -x swaps them.
Reference: Doroshenko et al. 2022 (connect the dots); docs/spec T3, 12.5.
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

Vector = NDArray[np.float64]

_TAIL = 1e-18  # mass left beyond the grid, all of it counted as infinite loss
_X = float(-ndtri(_TAIL))


Search = Literal["about", "nearly"]
"""How a search of noise looks a curve up: its epsilon is then a few thousandths off what is certified, or 1e-4."""


class Masses(NamedTuple):
    """masses[i] at loss (lowest + i) * interval, `infinity` at +inf."""

    interval: float
    lowest: int
    masses: Vector
    infinity: float


class Loss(Protocol):
    """The privacy loss of one answer under a dominating pair that serves both directions."""

    @property
    def shift(self) -> float:
        """The pair's largest shift, in noise stds."""
        ...

    @property
    def deviation(self) -> float:
        """The loss's typical standard deviation."""
        ...

    @property
    def widest(self) -> float:
        """The largest finite loss on the grid."""
        ...

    def moments(self, count: int) -> tuple[float, float]:
        """Upper bounds on, or close to, the mean and variance of the sum of `count` losses."""
        ...

    def masses(self, interval: float) -> Masses:
        """The pessimistic masses."""
        ...


@dataclass(frozen=True, slots=True)
class GaussianLoss:
    """N(mu, 1) against N(0, 1): the loss is N(mu^2/2, mu^2)."""

    mu: float

    @property
    def shift(self) -> float:
        return self.mu

    @property
    def deviation(self) -> float:
        return self.mu

    @property
    def widest(self) -> float:
        return 2 * self.mu * _X + self.mu**2

    def moments(self, count: int) -> tuple[float, float]:
        return count * self.mu**2 / 2, count * self.mu**2

    def masses(self, interval: float) -> Masses:
        return _gaussian_masses(self.mu, interval)


@lru_cache(maxsize=16)
def _gaussian_masses(mu: float, interval: float) -> Masses:
    """Loss mu x + mu^2/2 at x ~ N(0,1), i.e. N(mu^2/2, mu^2)."""
    lowest = math.floor((mu * mu / 2 - _X * mu) / interval)
    highest = math.ceil((mu * mu / 2 + _X * mu) / interval)
    x = np.divide(np.arange(lowest, highest + 1) * interval - mu * mu / 2, mu)
    upper, lower = mass(x[:-1], x[1:]), mass(np.add(x[:-1], mu), np.add(x[1:], mu))
    return connect_the_dots(interval, lowest, upper, lower, float(ndtr(x[0])), float(ndtr(-x[-1])))


def symmetric(
    interval: float, upper: Vector, lower: Vector, beyond_p: float, beyond_q: float, zero: float = 0.0
) -> Masses:
    """A pair that is its own mirror image, from its cells of positive loss, (i interval, (i+1) interval].

    Parameters
    ----------
    upper, lower : the cells' masses under P and under Q; a loss of -e has those of +e with P and Q exchanged
    beyond_p, beyond_q : the same for losses beyond the last cell
    zero : mass of the loss 0
    """
    p, q = np.concatenate([lower[::-1], upper]), np.concatenate([upper[::-1], lower])
    return connect_the_dots(interval, -len(upper), p, q, beyond_q, beyond_p, zero)


def connect_the_dots(
    interval: float, lowest: int, upper: Vector, lower: Vector, extra: float, infinity: float, zero: float = 0.0
) -> Masses:
    """Cell i, losses (e_i, e_i + interval], has mass upper[i] under P and lower[i] under Q; put it on its two ends so
    that P's mass stays and Q's is matched: the upper end's share b solves (upper - b) e^-e_i + b e^-e_(i+1) = lower.
    `extra` sits at the lowest point, `zero` at 0, `infinity` at +inf.
    """
    points = (lowest + np.arange(len(upper))) * interval
    to_high = np.clip((upper - np.exp(points) * lower) / -math.expm1(-interval), 0.0, upper)
    masses = np.zeros(len(upper) + 1)
    masses[:-1] += upper - to_high
    masses[1:] += to_high
    masses[0] += extra
    if zero:
        masses[-lowest] += zero
    return Masses(interval, lowest, masses, infinity)


def mass(low: Vector, high: Vector) -> Vector:
    """Phi(high) - Phi(low), low <= high, to relative accuracy on both sides of 0."""
    positive = low > 0
    a, b = np.where(positive, -high, low), np.where(positive, -low, high)
    return np.asarray(ndtr(b) - ndtr(a))


def reach(q: float, shift: float) -> float:
    """x beyond which (1-q) N(0,1) + q N(shift,1) has the mass that the grid may leave out, twice at most."""
    return max(_X, shift - float(ndtri(min(_TAIL / q, 0.5))))
