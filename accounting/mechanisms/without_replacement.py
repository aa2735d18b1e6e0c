"""Gaussian noise on a sum over a batch of b distinct records of n, every such batch as likely; each adds at most B.

Precondition: the answer is (sum over the batch of h_i) / b, ||h_i|| / b <= B; the batch is drawn afresh for every
answer and stays secret.
Pseudo-code: batch ~ b of n without replacement; release round_gamma(sum / b) + gamma round(N / gamma),
N ~ N(0, (z B)^2 I).
Postcondition: with q = b/n and mu = 2/z, in both directions and for every gamma >= 1,
    H_gamma <= q H_(1 + (gamma-1)/q)(N(mu,1), N(0,1)),
that is, no worse than a symmetric pair whose loss is ln r at r > 1, with r = 1 - q + q e^(mu x - mu^2/2), of masses
r phi(x) under P and phi(x) under Q; its mirror image; and 0 for the rest.
Reference: docs/spec T4; proof in docs/proofs/without_replacement.md.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import erf, ndtr

from accounting.errors import OutOfRange
from accounting.mechanisms import events
from accounting.noise import Noise
from accounting.noise.lattice import Lattice

MOST_ROWS = 10**10
_QUADRATURE = 1 + 1e-6  # covers the error of the quadrature below
_NODES = 64
_REACH = 15.0  # standard deviations past (a + 2) mu, from where on the integrand falls faster than e^(-t^2/2)
_WIDEST, _LARGEST = 400.0, 40.0  # beyond this order * mu, or this mu, the curve gives way to its value at q = 1
_MU_RANGE = (1e-9, 26.0)  # where `spread` is a number and grows


@lru_cache(maxsize=1)
def _legendre() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    return np.polynomial.legendre.leggauss(_NODES)


def _renyi(q: float, mu: float, order: float) -> float:
    """ln(1 + E[(r^a + r^(1-a) - 1 - r) 1{r > 1}]) / (a - 1) over N(0,1), by Gauss-Legendre quadrature.

    With l = ln r the bracket is (1 - e^-(a-1)l) (e^(al) - 1), a product of what is positive: nothing cancels.
    """
    nodes, weights = _legendre()
    span = (order + 2) * mu + _REACH
    edges = np.linspace(0.0, span, math.ceil(2 * span) + 1)
    half = (edges[1] - edges[0]) / 2
    y = ((edges[:-1] + edges[1:]) / 2)[:, None] + half * nodes  # x - mu/2: r > 1 where it is positive
    # ln(1 + q (e^(mu y) - 1)); beyond e^600 the q in front is all that is left of the first part
    far = mu * y > 600
    loss = np.where(far, math.log(q) + mu * y, np.log1p(q * np.expm1(np.where(far, 0.0, mu * y))))
    bracket = np.log(-np.expm1(-(order - 1) * loss)) + order * loss + np.log(-np.expm1(-order * loss))
    terms = bracket + np.log(half * weights) - (y + mu / 2) ** 2 / 2 - math.log(2 * math.pi) / 2
    peak = float(terms.max())
    total = peak + math.log(float(np.sum(np.exp(terms - peak))))
    return float(np.logaddexp(0.0, total)) / (order - 1) if total > -30 else math.exp(total) / (order - 1)


@lru_cache(maxsize=65536)
def _curve_point(q: float, mu: float, order: float) -> float:
    whole = order * mu * mu / 2
    if q == 1 or order * mu > _WIDEST or mu > _LARGEST:
        return whole
    value = _renyi(q, mu, order) * _QUADRATURE
    return value if value <= whole else whole  # also if it is no number


def spread(mu: float) -> float:
    """E[(e^(mu x - mu^2/2) - 1)^2 1{x > mu/2}] = e^(mu^2) Phi(3mu/2) + 3 Phi(-mu/2) - 2; about mu^2 / 2.

    2 q^2 of it is the variance of one loss in the limit of many answers: what one answer then adds to mu^2.
    """
    bulk = math.expm1(mu * mu) * float(ndtr(1.5 * mu))
    return bulk + (float(erf(1.5 * mu / math.sqrt(2))) - 3 * float(erf(0.5 * mu / math.sqrt(2)))) / 2


def shift_of(spread_: float) -> float:
    """The mu of that spread, or the end of its range."""
    low, high = _MU_RANGE
    if not spread(low) < spread_ < spread(high):
        return low if spread_ <= spread(low) else high
    return float(brentq(lambda mu: math.log(spread(mu) / spread_), low, high, rtol=1e-12))


@dataclass(frozen=True, slots=True)
class WithoutReplacement:
    """One answer over a fresh batch of exactly `batch` of `rows` records.

    Parameters
    ----------
    batch : b, in [1, rows]
    rows : n, public, in [1, 10^10]
    """

    batch: int
    rows: int
    name: Literal["without_replacement"] = "without_replacement"

    def __post_init__(self) -> None:
        if type(self.rows) is not int or not 1 <= self.rows <= MOST_ROWS:
            raise OutOfRange(f"rows must be an integer in [1, {MOST_ROWS}]")
        if type(self.batch) is not int or not 1 <= self.batch <= self.rows:
            raise OutOfRange("a batch holds from 1 to all of the rows")

    @property
    def rate(self) -> float:
        """q = b/n, rounded up."""
        return 1.0 if self.batch == self.rows else math.nextafter(self.batch / self.rows, 1.0)

    @property
    def answers(self) -> int:
        """One use is one answer."""
        return 1

    def rdp(self, noise_multiplier: float, orders: Sequence[float]) -> NDArray[np.float64]:
        """The pair's Renyi divergence, rounded up by a factor 1 + 1e-6, at each order a > 1."""
        return np.array([_curve_point(self.rate, 2.0 / noise_multiplier, float(a)) for a in orders])

    def gdp(self, noise_multiplier: float) -> float | None:
        """None unless b = n (where it is the Gaussian mechanism): sampling is not Gaussian-DP."""
        return 2.0 / noise_multiplier if self.batch == self.rows else None

    def gdp_bound(self, noise_multiplier: float) -> float | None:
        """mu of a Gaussian pair that dominates one answer: what it would cost if every record were always in."""
        return 2.0 / noise_multiplier

    def pure(self, noise_multiplier: float) -> float | None:  # noqa: ARG002
        """None: Gaussian noise has no epsilon at delta = 0."""
        return None

    def multiplier(self, mu_squared: float) -> float:
        """The z at which one answer spends about mu^2: in the many-answer limit, 2 q^2 spread(2/z) = mu^2."""
        if self.batch == self.rows:
            return 2.0 / math.sqrt(mu_squared)
        return 2.0 / shift_of(mu_squared / (2 * self.rate**2))

    def event(self, noise_multiplier: float) -> events.Event:
        """One answer as an event."""
        return events.sampled_without_replacement(self.rows, self.batch, events.gaussian(noise_multiplier))

    def std(self, noise_multiplier: float, bound: float, dimension: int) -> float:
        """The noise std, in the answer's unit, that `perturb` will use."""
        return Lattice.fit(noise_multiplier, bound, dimension).std

    def perturb(
        self, value: NDArray[np.float64], noise_multiplier: float, bound: float, noise: Noise
    ) -> NDArray[np.float64]:
        """The private answer, shape (d,)."""
        return Lattice.fit(noise_multiplier, bound, len(value)).perturb(value, noise)
