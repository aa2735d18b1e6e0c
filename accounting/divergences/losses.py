"""Privacy-loss distributions of one answer, as pessimistic masses on a grid, and those of Gaussian pairs.

The masses of the loss in each grid cell are exact differences of Gaussian tails. "Connect the dots" moves them to the
grid points so that the privacy profile only grows. Both directions of each pair agree, since x -> -x swaps them.
Reference: Doroshenko et al. 2022 (connect the dots); docs/spec T3, 12.5.
"""

import math
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

Vector = NDArray[np.float64]

_TAIL = 1e-18  # mass beyond the grid, counted as infinite loss
_TAIL_QUANTILE = float(-ndtri(_TAIL))

Search = Literal["about", "nearly"]
"""Accuracy of a curve in a search of noise: epsilon is off by some thousandths ("about") or by 1e-4 ("nearly")."""


class Masses(NamedTuple):
    """masses[i] at loss (lowest + i) * interval, `infinity` at +inf."""

    interval: float
    lowest: int
    masses: Vector
    infinity: float


class Loss(Protocol):
    """The privacy loss of one answer under a pair that dominates it in both orders of the neighbors, or in one.

    Equal losses must have equal hashes, because their masses are cached.
    """

    def __hash__(self) -> int: ...

    @property
    def shift(self) -> float:
        """The pair's largest shift, in noise stds."""

    @property
    def deviation(self) -> float:
        """The loss's typical standard deviation."""

    @property
    def widest(self) -> float:
        """The largest finite loss on the grid."""

    def moments(self, count: int) -> tuple[float, float]:
        """Return the mean and variance of the sum of `count` losses, as upper bounds or approximately."""

    def masses(self, interval: float) -> Masses:
        """Return the pessimistic masses."""


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
        return 2 * self.mu * _TAIL_QUANTILE + self.mu**2

    def moments(self, count: int) -> tuple[float, float]:
        return count * self.mu**2 / 2, count * self.mu**2

    def masses(self, interval: float) -> Masses:
        """Return the masses of the loss mu x + mu^2/2 at x ~ N(0,1), which is N(mu^2/2, mu^2)."""
        mu = self.mu
        lowest = math.floor((mu * mu / 2 - _TAIL_QUANTILE * mu) / interval)
        highest = math.ceil((mu * mu / 2 + _TAIL_QUANTILE * mu) / interval)
        x = np.divide(np.arange(lowest, highest + 1) * interval - mu * mu / 2, mu)
        upper = mass(x[:-1], x[1:])
        lower = mass(np.add(x[:-1], mu), np.add(x[1:], mu))
        return connect_the_dots(interval, lowest, upper, lower, float(ndtr(x[0])), float(ndtr(-x[-1])))


class Side(NamedTuple):
    """The points of a pair at which one law is the larger: masses of the cells (i interval, (i+1) interval] of its log.

    `upper` and `lower` are those under the larger and the smaller law, `beyond` those after the last cell.
    """

    upper: Vector
    lower: Vector
    upper_beyond: float
    lower_beyond: float


def two_sided(interval: float, positive: Side, negative: Side, zero: float = 0.0) -> Masses:
    """Return the masses of a pair from the points at which P is the larger law and those at which Q is.

    A pair that is its own mirror image has one side twice. `zero` is the mass of the loss 0.
    """
    p = np.concatenate([negative.lower[::-1], positive.upper])
    q = np.concatenate([negative.upper[::-1], positive.lower])
    return connect_the_dots(interval, -len(negative.upper), p, q, negative.lower_beyond, positive.upper_beyond, zero)


def connect_the_dots(
    interval: float, lowest: int, upper: Vector, lower: Vector, extra: float, infinity: float, zero: float = 0.0
) -> Masses:
    """Return the masses with each cell's mass moved to the two ends of the cell.

    Cell i, losses (e_i, e_i + interval], has mass upper[i] under P and lower[i] under Q. P's mass stays and Q's is
    matched: the share b of the upper end solves (upper - b) e^-e_i + b e^-e_(i+1) = lower. `extra` is at the lowest
    point, `zero` at 0, `infinity` at +inf.
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
    """Return Phi(high) - Phi(low), low <= high, to relative accuracy on both sides of 0."""
    positive = low > 0
    a = np.where(positive, -high, low)
    b = np.where(positive, -low, high)
    return np.asarray(ndtr(b) - ndtr(a))


def reach(q: float, shift: float) -> float:
    """Return x beyond which (1-q) N(0,1) + q N(shift,1) has at most twice the mass that the grid may leave out."""
    return max(_TAIL_QUANTILE, shift - float(ndtri(min(_TAIL / q, 0.5))))
