"""The pair of an answer over a batch without replacement, if a record of the first dataset becomes null in the second.

With q = b/n and c = 1/z, and phi the density of N(0,1), the pair has for every y > 0 one point of positive loss, whose
densities are U1 and L1 in the first and in the second dataset, and one of negative loss, with L2 and U2:

    U1 = q phi(y - c/2) + (1-q) phi(y + 3c/2),    L1 = q phi(y + c/2) + (1-q) phi(y + 3c/2),
    U2 = q phi(y - c/2) + (1-q) phi(y + c/2),     L2 = phi(y + c/2),        U1 - L1 = U2 - L2.

Both losses, ln(U1/L1) and ln(U2/L2), grow with y. The rest of the mass has loss 0. Proof, with the limits of what is
computed here: docs/proofs/without_replacement.md.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.special import erf, ndtr

from accounting.divergences.losses import Masses, Side, Vector, mass, reach, two_sided
from accounting.divergences.quadrature import log_sum, panels, rounded_up

_REACH = 15.0  # standard deviations past 2 (a + 2) c, beyond which the integrand falls faster than e^(-t^2/2)
_LARGEST_ORDER_SHIFT, _LARGEST_SHIFT = 200.0, 20.0  # of order * c and of c; beyond them the value at q = 1 is used
_LARGEST_EXPONENT = 600.0
_SERIES_END = 1e-3  # of |power| * x; below it the series is right to 1e-13, above it the difference to 1e-7


def spread(mu: float) -> float:
    """Return E[(e^(mu x - mu^2/2) - 1)^2 1{x > mu/2}] = e^(mu^2) Phi(3mu/2) + 3 Phi(-mu/2) - 2, about mu^2 / 2."""
    return math.expm1(mu * mu) * _tail(3 * mu) + (_erf(3 * mu) - 3 * _erf(mu)) / 2


def null_spread(c: float) -> float:
    """Return the integral of (U1 - L1)^2 / phi(y + 3c/2) + (U2 - L2)^2 / phi(y + c/2), over q^2: about c^2.

    Times q^2 it bounds the loss's second moment, and is its variance in the limit of many answers.
    """
    square = c * c
    inner = _tail(5 * c) * math.expm1(3 * square) - 2 * _tail(3 * c) * math.expm1(square)
    return math.exp(square) * (inner + (_erf(5 * c) - 2 * _erf(3 * c) + _erf(c)) / 2) + spread(c)


def _tail(twice: float) -> float:
    """Return Phi(twice / 2)."""
    return float(ndtr(twice / 2))


def _erf(twice: float) -> float:
    """Return 2 Phi(twice / 2) - 1."""
    return float(erf(twice / math.sqrt(8)))


def renyi(q: float, c: float, orders: Sequence[float]) -> Vector:
    """Return the larger Renyi divergence of the two orders of neighbors, rounded up by a factor 1 + 1e-6."""
    return np.array([_curve_point(q, c, float(a)) for a in orders])


@lru_cache(maxsize=65536)
def _curve_point(q: float, c: float, order: float) -> float:
    unsampled = order * c * c / 2
    if order * c > _LARGEST_ORDER_SHIFT or c > _LARGEST_SHIFT:
        return unsampled
    return rounded_up(_renyi(q, c, order), unsampled)


def _renyi(q: float, c: float, order: float) -> float:
    """Return the divergence of the first dataset from the second one by Gauss-Legendre quadrature over y.

    With x_i = U_i / L_i - 1 and g_s(x) = (1 + x)^s - 1 - s x, which is not negative, e^((a-1) D_a) - 1 is the integral
    of L1 g_a(x_1) + L2 g_(1-a)(x_2). The other order of neighbors never has more.
    """
    span = 2 * (order + 2) * c + _REACH
    y, log_weights = panels(0.0, span, math.ceil(2 * span))
    base = log_weights - (y + c / 2) ** 2 / 2 - math.log(2 * math.pi) / 2  # ln L2, with the weight
    relative = q + (1 - q) * np.exp(-c * y - c * c)  # L1 / L2
    is_large = c * y > _LARGEST_EXPONENT
    gain = q * np.expm1(np.where(is_large, 0.0, c * y))  # (U2 - L2) / L2
    first, second = (
        np.where(is_large, math.log(q) + c * y - np.log(under), np.log1p(gain / under)) for under in (relative, 1.0)
    )
    terms = np.stack([_log_excess(order, first) + np.log(relative), _log_excess(1 - order, second)]) + base
    return float(np.logaddexp(0.0, log_sum(terms))) / (order - 1)


def _log_excess(power: float, loss: Vector) -> Vector:
    """Return ln g_s(x), or a little more, at x = e^loss - 1 > 0, for s > 1 or s < 0."""
    exponent = power * loss
    is_large = np.maximum(loss, exponent) > _LARGEST_EXPONENT
    x = np.expm1(np.where(is_large, 1.0, loss))
    is_small = max(abs(power), 1.0) * x < _SERIES_END
    small = np.where(is_small, x, _SERIES_END)
    tail = 1 + (power - 2) * small / 3 * (1 + (power - 3) * small / 4 * (1 + (power - 4) * small / 5))
    difference = np.where(is_large, 1.0, np.expm1(np.where(is_large, 1.0, exponent)) - power * x)
    value = np.log(np.where(is_small, power * (power - 1) / 2 * small * small * tail, difference))
    log_ratio = (
        np.log1p(-power * np.exp(np.where(is_large, loss - exponent, -np.inf))) if power > 1 else math.log(-power)
    )
    return np.asarray(np.where(is_large, np.maximum(exponent, loss) + log_ratio, value))


@dataclass(frozen=True, slots=True)
class NullBatchLoss:
    """The pair's loss, from the dataset with the record to that with null, or back if `mirrored`; q < 1.

    Parameters
    ----------
    q, c : as above
    mirrored : whether null is in the first dataset
    """

    q: float
    c: float
    mirrored: bool = False

    @property
    def shift(self) -> float:
        return 2 * self.c

    @property
    def spread(self) -> float:
        """A bound on the loss's second moment, in both orders."""
        return self.q**2 * null_spread(self.c)

    @property
    def deviation(self) -> float:
        return math.sqrt(self.spread)

    @property
    def widest(self) -> float:
        return sum(_largest(self.q, self.c))

    def moments(self, count: int) -> tuple[float, float]:
        """Return bounds on mean and variance: by the chi-square, which the spread bounds, and by known batches."""
        q, c = self.q, self.c
        return count * min(self.spread, q * c * c / 2), count * min(self.spread, q * c * (1 + c) ** 3)

    def masses(self, interval: float) -> Masses:
        q, c = self.q, self.c
        losses = [np.arange(0, math.ceil(largest / interval) + 1) * interval for largest in _largest(q, c)]
        # w = e^(c y) solves q (w - 1) = (e^l - 1)(q + (1-q) e^(-c^2) / w), so w = e^l (1 + sqrt(1 + u)) / 2
        u = 4 * (1 - q) / q * math.exp(-c * c) * np.exp(-losses[0]) * -np.expm1(-losses[0])
        first = (losses[0] + np.log1p(u / (2 * (1 + np.sqrt(1 + u))))) / c
        second = np.log1p(np.expm1(losses[1]) / q) / c
        sides = (
            _side(first, (-c / 2, q), (c / 2, q), (1.5 * c, 1 - q)),
            _side(second, (-c / 2, q), (c / 2, q), (c / 2, 1 - q)),
        )
        return two_sided(interval, *(sides[::-1] if self.mirrored else sides), (1 - q) * (_erf(c) + _erf(3 * c)) / 2)


def _largest(q: float, c: float) -> tuple[float, float]:
    """Return the largest losses of both kinds on the grid, where the laws of the batch have their `reach`."""
    first = reach(q, 2 * c) - 1.5 * c
    second = reach(q, c) - 0.5 * c
    under = q + (1 - q) * math.exp(-c * first - c * c)
    return math.log1p(q * math.expm1(c * first) / under), math.log1p(q * math.expm1(c * second))


def _side(y: Vector, upper: tuple[float, float], lower: tuple[float, float], both: tuple[float, float]) -> Side:
    """Return the cells between the points y: `upper` and `both` together against `lower` and `both` together.

    Each of the three is the shift d and the factor f of a density f phi(y + d).
    """
    cells, beyond = zip(
        *((f * mass(y[:-1] + d, y[1:] + d), f * float(ndtr(-y[-1] - d))) for d, f in (upper, lower, both)), strict=True
    )
    return Side(cells[0] + cells[2], cells[1] + cells[2], beyond[0] + beyond[2], beyond[1] + beyond[2])
