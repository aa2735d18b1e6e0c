"""The pairs of an answer over a Poisson batch.

P = (1-q) N(0,1) + q N(c,1) is compared with its mirror image P' if a record is replaced, and with Q = N(0,1) if the
record becomes null. The likelihood ratio of P and Q is

    r(x) = dP/dQ = 1 - q + q e^(c x - c^2/2),    growing in x, above 1 - q.

(P, Q) bounds one order of the neighbors, and (Q, P) the other. Proof: docs/proofs/poisson_gaussian.md.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.special import ndtr

from accounting.divergences.losses import Masses, Side, Vector, connect_the_dots, mass, reach, two_sided
from accounting.divergences.quadrature import log_sum, panels, rounded_up

_FEWEST_PANELS = 40
_TAIL_STDS = 14.0  # beyond the farthest peak of the integrand
_LARGEST_ORDER_SHIFT = 200.0  # beyond this order * c the value at q = 1 is used, which is never smaller
_SMALLEST_RATE_SHIFT = 1e-9  # q c is raised to this, as the curve is monotone: below it cancellation is too large
_ROUNDING = 4e-15  # of a difference of normal tails, relative to the larger


def sampled_renyi(q: float, c: float, orders: Sequence[float]) -> Vector:
    """Return the larger of D_a(P || Q) and D_a(Q || P), rounded up by a factor 1 + 1e-6, at each order a > 1."""
    return np.array([_curve_point(q, c, float(a), False) for a in orders])


def opposite_renyi(q: float, c: float, orders: Sequence[float]) -> Vector:
    """Return D_a(P || P') at each order, rounded up by the same factor."""
    return np.array([_curve_point(q, c, float(a), True) for a in orders])


@lru_cache(maxsize=65536)
def _curve_point(q: float, c: float, order: float, opposite: bool) -> float:
    raised, unsampled = max(c, _SMALLEST_RATE_SHIFT / q), (2 if opposite else 0.5) * order * c * c
    if order * raised > _LARGEST_ORDER_SHIFT:
        return unsampled
    return rounded_up(_renyi(q, raised, order, opposite), unsampled)


def _renyi(q: float, c: float, order: float, opposite: bool) -> float:
    """Return the divergence by Gauss-Legendre quadrature; the larger one if both orders differ."""
    reached = 2 * order * c + _TAIL_STDS
    # Panels of at most about one standard deviation, for which the rule is exact to rounding.
    x, log_weights = panels(-reached, reached, max(_FEWEST_PANELS, math.ceil(4 * order * c + 2 * _TAIL_STDS)))
    log_weight = log_weights - x * x / 2 - math.log(2 * math.pi) / 2
    log_p = _log_mixture(q, c, x)
    if opposite:
        return _log_moment(log_p, _log_mixture(q, c, -x), order, log_weight) / (order - 1)
    base = np.zeros_like(x)
    both = _log_moment(log_p, base, order, log_weight), _log_moment(base, log_p, order, log_weight)
    return max(both) / (order - 1)


def _log_mixture(q: float, c: float, x: Vector) -> Vector:
    """Return ln r(x)."""
    return np.asarray(np.logaddexp(math.log1p(-q) if q < 1 else -math.inf, math.log(q) + c * x - c * c / 2))


def _log_moment(log_p: Vector, log_n: Vector, order: float, log_weight: Vector) -> float:
    """Return ln E_phi[p^a n^(1-a)], computed from the excess over 1 without its mean-zero linear part."""
    exponent = order * log_p + (1 - order) * log_n
    is_large = np.maximum(np.maximum(log_p, log_n), exponent) > 600
    t, u, v = (np.where(is_large, 0.0, values) for values in (exponent, log_p, log_n))
    excess = np.expm1(t) - order * np.expm1(u) - (1 - order) * np.expm1(v)
    moment = math.log1p(max(float(np.sum(excess * np.exp(log_weight))), 0.0))
    if is_large.any():  # p^a n^(1-a) - a p + (a-1) n, less its negative term
        terms = np.logaddexp(exponent, math.log(order - 1) + log_n)[is_large] + log_weight[is_large]
        moment = float(np.logaddexp(moment, log_sum(terms)))
    return moment


def hockey_stick(q: float, c: float, epsilon: float) -> float:
    """Return the larger of H_gamma(P, Q) and H_gamma(Q, P), rounded up, at gamma = e^epsilon, epsilon >= 0."""
    gamma = math.exp(epsilon)
    above, below = (float(_quantile(np.asarray(e), q, c)) for e in (epsilon, -epsilon))
    shifted = float(ndtr(c - above))
    base = float(ndtr(-above))
    forward = q * shifted - (gamma - 1 + q) * base
    backward = (1 - gamma * (1 - q)) * float(ndtr(below)) - gamma * q * float(ndtr(below - c))
    return max(forward, backward, 0.0) + _ROUNDING * (shifted + float(ndtr(below)))


def _quantile(loss: np.ndarray, q: float, c: float) -> Vector:
    """Return x with ln r(x) = loss, or -inf if r is larger everywhere."""
    over = np.expm1(loss) / q
    inside = np.log1p(np.where(over > -1, over, 0.0)) / c + c / 2
    return np.asarray(np.where(over > -1, inside, -np.inf))


@dataclass(frozen=True, slots=True)
class SampledLoss:
    """The loss ln r under P, or -ln r under Q if `mirrored`, for q < 1."""

    q: float
    c: float
    mirrored: bool = False

    @property
    def shift(self) -> float:
        return self.c

    @property
    def deviation(self) -> float:
        """The root of q^2 (e^(c^2) - 1) = E_Q[(r - 1)^2], the loss's variance in the many-answer limit."""
        return self.q * math.sqrt(math.expm1(self.c**2))

    @property
    def widest(self) -> float:
        return 2 * max(_largest(self.q, self.c), -math.log1p(-self.q))

    def moments(self, count: int) -> tuple[float, float]:
        """Return bounds on the mean, by the chi-square and by known batches (q c^2 / 2), and on the variance."""
        chi, c = self.deviation**2 / (1 - self.q), self.c
        return count * min(chi, self.q * c * c / 2), count * min(chi, self.q * c * c * (1 + c * c))

    def masses(self, interval: float) -> Masses:
        """Return the masses of the cells of ln r from its infimum to its value at `reach`, in rising order."""
        q, c = self.q, self.c
        ends = math.floor(math.log1p(-q) / interval), math.ceil(_largest(q, c) / interval)
        x = _quantile(np.arange(ends[0], ends[1] + 1) * interval, q, c)
        base = mass(x[:-1], x[1:])
        shifted = mass(x[:-1] - c, x[1:] - c)
        mixed, beyond = (1 - q) * base + q * shifted, float(ndtr(-x[-1]))
        if self.mirrored:
            return connect_the_dots(interval, -ends[1], base[::-1], mixed[::-1], beyond, float(ndtr(x[0])))
        below = (1 - q) * float(ndtr(x[0])) + q * float(ndtr(x[0] - c))
        return connect_the_dots(interval, ends[0], mixed, base, below, (1 - q) * beyond + q * float(ndtr(c - x[-1])))


def _largest(q: float, c: float) -> float:
    """Return the largest loss on the grid, at `reach`."""
    return math.log1p(q * math.expm1(min(c * reach(q, c) - c * c / 2, 600.0)))


@dataclass(frozen=True, slots=True)
class OppositeLoss:
    """The loss of (1-q) N(0,1) + q N(c,1) against its mirror image, for q < 1."""

    q: float
    c: float

    @property
    def shift(self) -> float:
        return self.c

    @property
    def spread(self) -> float:
        """The integral of (P - Q)^2 / N(0,1) = 4 q^2 sinh(c^2), the loss's variance in the many-answer limit."""
        return 4 * self.q**2 * math.sinh(self.c**2)

    @property
    def deviation(self) -> float:
        return math.sqrt(self.spread)

    @property
    def widest(self) -> float:
        return 2 * _opposite_largest(self.q, self.c)

    def moments(self, count: int) -> tuple[float, float]:
        """Return bounds on mean and variance: by joint convexity (2 q c^2) and the chi-square (Q >= (1-q) N(0,1))."""
        chi = self.spread / (1 - self.q)
        return count * min(chi, 2 * self.q * self.c**2), count * min(chi, 4 * self.q * self.c**2 * (1 + self.c**2))

    def masses(self, interval: float) -> Masses:
        """Return the masses of ln P/Q at x ~ P, Q the mirror image of P; it is odd and grows in x."""
        q, c = self.q, self.c
        # At the loss e, w = e^(c x) solves w - e^e / w = (1-q)(e^e - 1) / (q e^(-c^2/2)) = 2 e^(e/2) sinh(..)
        e = np.arange(0, math.ceil(_opposite_largest(q, c) / interval) + 1) * interval
        x = (e / 2 + np.arcsinh((1 - q) / q * math.exp(c * c / 2) * np.sinh(e / 2))) / c
        base = mass(x[:-1], x[1:])
        plus = mass(x[:-1] - c, x[1:] - c)
        minus = mass(x[:-1] + c, x[1:] + c)
        beyond_p = (1 - q) * float(ndtr(-x[-1])) + q * float(ndtr(c - x[-1]))
        beyond_q = (1 - q) * float(ndtr(-x[-1])) + q * float(ndtr(-c - x[-1]))
        side = Side((1 - q) * base + q * plus, (1 - q) * base + q * minus, beyond_p, beyond_q)
        return two_sided(interval, side, side)


def _opposite_largest(q: float, c: float) -> float:
    """Return the largest loss on the grid, at `reach`."""
    x = reach(q, c)
    return math.log1p(q * math.expm1(min(c * x - c * c / 2, 600.0))) - math.log1p(q * math.expm1(-c * x - c * c / 2))
