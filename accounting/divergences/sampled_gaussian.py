"""The sampled Gaussian pair P = (1-q) N(0,1) + q N(c,1) against Q = N(0,1), whose likelihood ratio is

    r(x) = dP/dQ = 1 - q + q e^(c x - c^2/2),    growing in x, above 1 - q.

It serves one order of the neighbors; the other has (Q, P). Proof: docs/proofs/poisson_gaussian.md.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from accounting.divergences.losses import Masses, connect_the_dots, mass, reach

Vector = NDArray[np.float64]

_QUADRATURE = 1 + 1e-6  # covers the error of the quadrature below
_NODES, _TAIL = 64, 14.0  # of a piece; standard deviations past the farthest peak of the integrand
_WIDEST = 200.0  # beyond this order * c the integral gives way to its value at q = 1, which is never smaller
_LEAST = 1e-9  # below this q c, cancellation would eat the safety factor; the curve is monotone, so it is raised
_ROUNDING = 4e-15  # of a difference of normal tails, relative to the larger


def renyi(q: float, c: float, orders: Sequence[float]) -> Vector:
    """The larger of D_a(P || Q) and D_a(Q || P), rounded up by a factor 1 + 1e-6, at each order a > 1."""
    return np.array([_curve_point(q, c, float(a)) for a in orders])


@lru_cache(maxsize=65536)
def _curve_point(q: float, c: float, order: float) -> float:
    raised, whole = max(c, _LEAST / q), order * c * c / 2
    if order * raised > _WIDEST:
        return whole
    value = max(_log_moment(q, raised, order), _log_moment(q, raised, 1 - order)) / (order - 1) * _QUADRATURE
    return value if value <= whole else whole  # also if it is no number


def _log_moment(q: float, c: float, power: float) -> float:
    """ln E_Q[r^power], power > 1 or < 0, by Gauss-Legendre quadrature of r^power - 1 - power (r - 1), as E_Q[r] = 1."""
    nodes, weights = np.polynomial.legendre.leggauss(_NODES)
    span = (abs(power) + 1) * c + _TAIL
    edges = np.linspace(-span, span, math.ceil(2 * span) + 1)
    half = (edges[1] - edges[0]) / 2
    x = ((edges[:-1] + edges[1:]) / 2)[:, None] + half * nodes
    log_r = np.log1p(q * np.expm1(np.minimum(c * x - c * c / 2, 600.0))) if q < 1 else c * x - c * c / 2
    log_weight = np.log(half * weights) - x * x / 2 - math.log(2 * math.pi) / 2
    large = np.maximum(power * log_r, log_r) > 600
    near = np.where(large, 0.0, log_r)
    excess = np.expm1(power * near) - power * np.expm1(near)
    moment = math.log1p(max(float(np.sum(excess * np.exp(log_weight))), 0.0))
    if large.any():
        above = np.logaddexp(power * log_r, math.log(abs(power)) + np.maximum(log_r, 0.0))
        terms = above[large] + log_weight[large]
        peak = float(terms.max())
        moment = float(np.logaddexp(moment, peak + math.log(float(np.sum(np.exp(terms - peak))))))
    return moment


def hockey_stick(q: float, c: float, epsilon: float) -> float:
    """The larger of H_gamma(P, Q) and H_gamma(Q, P), rounded up, at gamma = e^epsilon, epsilon >= 0."""
    gamma = math.exp(epsilon)
    above, below = (float(_place(np.asarray(e), q, c)) for e in (epsilon, -epsilon))
    near, base = float(ndtr(c - above)), float(ndtr(-above))
    forward = q * near - (gamma - 1 + q) * base
    backward = (1 - gamma * (1 - q)) * float(ndtr(below)) - gamma * q * float(ndtr(below - c))
    return max(forward, backward, 0.0) + _ROUNDING * (near + float(ndtr(below)))


def _place(loss: NDArray[Any], q: float, c: float) -> Vector:
    """x with ln r(x) = loss; -inf where r is larger everywhere."""
    over = np.expm1(loss) / q
    inside = np.log1p(np.where(over > -1, over, 0.0)) / c + c / 2
    return np.asarray(np.where(over > -1, inside, -np.inf))


@dataclass(frozen=True, slots=True)
class SampledLoss:
    """ln r under P; if `mirrored` -ln r under Q. q < 1."""

    q: float
    c: float
    mirrored: bool = False

    @property
    def shift(self) -> float:
        return self.c

    @property
    def deviation(self) -> float:
        """The root of q^2 (e^(c^2) - 1) = E_Q[(r - 1)^2]: the loss's variance in the many-answer limit."""
        return self.q * math.sqrt(math.expm1(self.c**2))

    @property
    def widest(self) -> float:
        return 2 * max(_largest(self.q, self.c), -math.log1p(-self.q))

    def moments(self, count: int) -> tuple[float, float]:
        """The mean is at most the chi-square, and at most q c^2 / 2 (batches known)."""
        chi, c = self.deviation**2 / (1 - self.q), self.c
        return count * min(chi, self.q * c * c / 2), count * min(chi, self.q * c * c * (1 + c * c))

    def masses(self, interval: float) -> Masses:
        return _masses(self, interval)


def _largest(q: float, c: float) -> float:
    """The largest loss on the grid, that at the reach."""
    return math.log1p(q * math.expm1(min(c * reach(q, c) - c * c / 2, 600.0)))


@lru_cache(maxsize=16)
def _masses(loss: SampledLoss, interval: float) -> Masses:
    """Cells of ln r between those of its infimum and its value at the reach, in rising order of the loss."""
    q, c = loss.q, loss.c
    ends = math.floor(math.log1p(-q) / interval), math.ceil(_largest(q, c) / interval)
    x = _place(np.arange(ends[0], ends[1] + 1) * interval, q, c)
    base, near = mass(x[:-1], x[1:]), mass(x[:-1] - c, x[1:] - c)
    mixed, beyond = (1 - q) * base + q * near, float(ndtr(-x[-1]))
    if loss.mirrored:
        return connect_the_dots(interval, -ends[1], base[::-1], mixed[::-1], beyond, float(ndtr(x[0])))
    below = (1 - q) * float(ndtr(x[0])) + q * float(ndtr(x[0] - c))
    return connect_the_dots(interval, ends[0], mixed, base, below, (1 - q) * beyond + q * float(ndtr(c - x[-1])))
