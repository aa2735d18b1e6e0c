"""Gaussian noise on a sum over a uniformly random batch of b distinct records of n; each adds at most B.

Precondition: the answer is (sum over the batch of h_i) / b, ||h_i|| / b <= B; the batch is drawn afresh for every
answer and stays secret.
Pseudo-code: batch ~ b of n without replacement; release round_gamma(sum / b) + gamma round(N / gamma),
N ~ N(0, (z B)^2 I).
Postcondition: with q = b/n and mu = 2/z, in both directions and for every gamma >= 1,
    H_gamma <= q H_(1 + (gamma-1)/q)(N(mu,1), N(0,1)),
that is, no worse than a symmetric pair whose loss is ln r at r > 1, with r = 1 - q + q e^(mu x - mu^2/2), of masses
r phi(x) under P and phi(x) under Q; its mirror image; and 0 otherwise. Under zero_out a record that becomes null moves
the batch by 2/z and null by 1/z at most, 1/z apart: the pair of accounting/divergences/null_batches.py.
Reference: docs/spec T4; proof in docs/proofs/without_replacement.md.

Review: The batch is drawn again for each answer and stays secret.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import ClassVar, Literal

import numpy as np
from scipy.special import erf, ndtr

from accounting.divergences import null_batches
from accounting.divergences.losses import Masses, Side, mass, reach, two_sided
from accounting.divergences.null_batches import NullBatchLoss, null_spread, spread
from accounting.divergences.quadrature import log_sum, panels, rounded_up
from accounting.divergences.roots import brent
from accounting.mechanisms.gaussian import Gaussian
from accounting.mechanisms.mechanism import AbstractFixedAnswers, AbstractGaussianNoise, Curves, Event, Vector
from accounting.noise.draws import is_sparse_draw
from accounting.numbers import whole
from accounting.privacy import REPLACE_ONE, Relation, Unit, sensitivity_factor

MOST_ROWS = 10**10
_REACH = 15.0  # standard deviations past (a + 2) mu, beyond which the integrand falls faster than e^(-t^2/2)
# Beyond this order * mu, or this mu, the curve is replaced by its value at q = 1.
_LARGEST_ORDER_MU, _LARGEST_MU = 400.0, 40.0
_SMALLEST_SHIFT, _LARGEST_SHIFT, _LARGEST_NULL_SHIFT = 1e-9, 26.0, 13.0  # between which the spreads grow and are finite


def _renyi(q: float, mu: float, order: float) -> float:
    """Return ln(1 + E[(r^a + r^(1-a) - 1 - r) 1{r > 1}]) / (a - 1) over N(0,1), by Gauss-Legendre quadrature.

    With l = ln r the bracket is (1 - e^-(a-1)l) (e^(al) - 1), a product of positive factors, so nothing cancels.
    """
    span = (order + 2) * mu + _REACH
    y, log_weights = panels(0.0, span, math.ceil(2 * span))  # y = x - mu/2, positive where r > 1
    # ln(1 + q (e^(mu y) - 1)); beyond e^600 it is ln q + mu y in floats
    is_large = mu * y > 600
    loss = np.where(is_large, math.log(q) + mu * y, np.log1p(q * np.expm1(np.where(is_large, 0.0, mu * y))))
    bracket = np.log(-np.expm1(-(order - 1) * loss)) + order * loss + np.log(-np.expm1(-order * loss))
    terms = bracket + log_weights - (y + mu / 2) ** 2 / 2 - math.log(2 * math.pi) / 2
    total = log_sum(terms)
    return float(np.logaddexp(0.0, total)) / (order - 1) if total > -30 else math.exp(total) / (order - 1)


@lru_cache(maxsize=65536)
def _curve_point(q: float, mu: float, order: float) -> float:
    unsampled = order * mu * mu / 2
    if q == 1 or order * mu > _LARGEST_ORDER_MU or mu > _LARGEST_MU:
        return unsampled
    return rounded_up(_renyi(q, mu, order), unsampled)


def shift_of(target: float, spread_at: Callable[[float], float] = spread, high: float = _LARGEST_SHIFT) -> float:
    """Return the shift at which the spread is `target`, or the end of the range."""
    low = _SMALLEST_SHIFT
    if not spread_at(low) < target < spread_at(high):
        return low if target <= spread_at(low) else high
    return brent(lambda shift: math.log(spread_at(shift) / target), low, high, rtol=1e-12)


def _rdp(q: float, mu: float, orders: Sequence[float]) -> Vector:
    """Return the pair's Renyi divergence, rounded up by a factor 1 + 1e-6; at most that without sampling."""
    return np.array([_curve_point(q, mu, float(a)) for a in orders])


@dataclass(frozen=True, slots=True)
class WithoutReplacementLoss:
    """The symmetric pair over ln r, r = 1 - q + q e^(mu x - mu^2/2) at x > mu/2, x ~ N(0,1); q < 1."""

    q: float
    mu: float

    @property
    def shift(self) -> float:
        return self.mu

    @property
    def spread(self) -> float:
        """2 q^2 E[(r_0 - 1)^2] over x > mu/2, with r_0 = r at q = 1: a bound on the loss's second moment."""
        return 2 * self.q**2 * spread(self.mu)

    @property
    def deviation(self) -> float:
        return math.sqrt(self.spread)

    @property
    def widest(self) -> float:
        return 2 * _largest(self.q, self.mu)

    def moments(self, count: int) -> tuple[float, float]:
        """Return bounds on mean and variance: by the chi-square, which the spread bounds, and by known batches."""
        q, mu = self.q, self.mu
        return count * min(self.spread, q * mu * mu / 2), count * min(self.spread, q * mu * (1 + mu) ** 3)

    def masses(self, interval: float) -> Masses:
        """Return the masses: (1-q) N(0,1) + q N(mu,1) under P and N(0,1) under Q at ln r, exchanged at -ln r."""
        q, mu = self.q, self.mu
        e = np.arange(0, math.ceil(_largest(q, mu) / interval) + 1) * interval
        x = np.log1p(np.expm1(e) / q) / mu + mu / 2
        lower = mass(x[:-1], x[1:])
        shifted = mass(x[:-1] - mu, x[1:] - mu)
        beyond_q = float(ndtr(-x[-1]))
        beyond_p = (1 - q) * beyond_q + q * float(ndtr(mu - x[-1]))
        zero = (1 - q) * float(erf(mu / math.sqrt(8)))
        side = Side((1 - q) * lower + q * shifted, lower, beyond_p, beyond_q)
        return two_sided(interval, side, side, zero)


def _largest(q: float, mu: float) -> float:
    """Return the largest loss on the grid, at `reach`."""
    return math.log1p(q * math.expm1(mu * (reach(q, mu) - mu / 2)))


@dataclass(frozen=True, slots=True)
class WithoutReplacement(AbstractFixedAnswers, AbstractGaussianNoise):
    """One answer over a fresh batch of exactly `batch` of `rows` records.

    Parameters
    ----------
    batch : b, in [1, rows]
    rows : n, public, in [1, 10^10]
    """

    batch: int
    rows: int
    name: Literal["without_replacement"] = "without_replacement"
    answers: ClassVar[int] = 1
    source: ClassVar[None] = None

    def __post_init__(self) -> None:
        whole(self.rows, "rows", 1, MOST_ROWS)
        whole(self.batch, "batch", 1, self.rows)

    @property
    def rate(self) -> float:
        """q = b/n, rounded up."""
        return 1.0 if self.batch == self.rows else math.nextafter(self.batch / self.rows, 1.0)

    def fits(self, n: int, unit: Unit) -> bool:  # noqa: ARG002
        """Return whether a batch is drawn from no more records than there are."""
        return self.rows <= n

    def needs_all_rows(self, n: int) -> str | None:
        """Return None for small batches, otherwise the reason, which is that all records are listed."""
        if is_sparse_draw(n, self.batch):
            return None
        return "its batches are drawn from a list of all rows: use batches of less than an eighth of the rows"

    def curves(self, noise_multiplier: float, relation: Relation = REPLACE_ONE) -> Curves:
        """Return the pair's Renyi divergence and loss; at b = n the Gaussian mechanism's."""
        q, c, mu = self.rate, 1.0 / noise_multiplier, sensitivity_factor(relation) / noise_multiplier
        if self.batch == self.rows:
            return Curves.gaussian(mu)
        if relation == "zero_out":
            forward = NullBatchLoss(q, c)
            mirrored = NullBatchLoss(q, c, mirrored=True)
            return Curves(partial(null_batches.renyi, q, c), gdp_bound=mu, losses=(forward,), mirrored=(mirrored,))
        return Curves(partial(_rdp, q, mu), gdp_bound=mu, losses=(WithoutReplacementLoss(q, mu),))

    def multiplier(self, mu_squared: float, relation: Relation = REPLACE_ONE) -> float:
        """Return the z at which one answer spends about mu^2.

        For many answers 2 q^2 spread(2/z) = mu^2, or, under zero_out, q^2 null_spread(1/z) = mu^2.
        """
        if self.batch == self.rows:
            return sensitivity_factor(relation) / math.sqrt(mu_squared)
        if relation == "zero_out":
            return 1.0 / shift_of(mu_squared / self.rate**2, null_spread, _LARGEST_NULL_SHIFT)
        return 2.0 / shift_of(mu_squared / (2 * self.rate**2))

    def event(self, noise_multiplier: float) -> Event:
        """Return a Gaussian event on a uniformly random batch of b distinct records of n."""
        return {
            "type": "SampledWithoutReplacementDpEvent",
            "source_dataset_size": self.rows,
            "sample_size": self.batch,
            "event": Gaussian().event(noise_multiplier),
        }
