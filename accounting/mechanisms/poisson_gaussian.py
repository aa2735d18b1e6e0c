"""Gaussian noise on a sum over a Poisson batch: each record is in with probability q, and adds at most b.

Precondition: the answer is (sum over the batch of h_i) / normalizer, ||h_i|| / normalizer <= b, the normalizer fixed;
the batch is drawn afresh for every answer and stays secret.
Pseudo-code: batch ~ Poisson(q); release round_gamma(sum / normalizer) + gamma round(N / gamma), N ~ N(0, (z b)^2 I).
Postcondition: dominated, in both directions and for all orders, with c = 1/z, by
    P = (1-q) N(0,1) + q N(c,1)   against   Q = (1-q) N(0,1) + q N(-c,1),
under zero_out by P against N(0,1) where the record is in the first dataset, by N(0,1) against P where it is not.
Reference: docs/spec T3; proof in docs/proofs/poisson_gaussian.md.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import ClassVar, Literal

import numpy as np
from scipy.special import ndtr

from accounting import numbers
from accounting.divergences import sampled_gaussian
from accounting.divergences.losses import Masses, mass, reach, symmetric
from accounting.mechanisms.gaussian import Gaussian
from accounting.mechanisms.mechanism import AbstractGaussianNoise, Curves, Event, Vector
from accounting.privacy import REPLACE_ONE, Relation, apart

_QUADRATURE = 1 + 1e-6  # covers the error of the quadrature below (docs/spec 14)
_PIECES, _NODES = 40, 64
_TAIL = 14.0  # standard deviations past the farthest peak of the integrand
_WIDEST = 200.0  # beyond this order * c the integral gives way to its value at q = 1, which is never smaller
_LEAST = 1e-9  # below this q c, cancellation would eat the safety factor; the curve is monotone, so it is raised


@lru_cache(maxsize=1)
def _legendre() -> tuple[Vector, Vector]:
    return np.polynomial.legendre.leggauss(_NODES)


def _renyi(q: float, c: float, order: float) -> float:
    """D_a(P || Q) by Gauss-Legendre quadrature; E_phi[p^a q^(1-a)] - 1 with its mean-zero linear part taken out."""
    nodes, weights = _legendre()
    edges = np.linspace(-2 * order * c - _TAIL, 2 * order * c + _TAIL, _pieces(order, c) + 1)
    half = (edges[1] - edges[0]) / 2
    x = ((edges[:-1] + edges[1:]) / 2)[:, None] + half * nodes
    log_base, log_q = (math.log1p(-q) if q < 1 else -math.inf), math.log(q)
    log_p = np.logaddexp(log_base, log_q + c * x - c * c / 2)
    log_n = np.logaddexp(log_base, log_q - c * x - c * c / 2)
    exponent = order * log_p + (1 - order) * log_n
    log_weight = np.log(half * weights) - x * x / 2 - math.log(2 * math.pi) / 2
    large = np.maximum(np.maximum(log_p, log_n), exponent) > 600
    t, u, v = (np.where(large, 0.0, values) for values in (exponent, log_p, log_n))
    excess = np.expm1(t) - order * np.expm1(u) - (1 - order) * np.expm1(v)
    moment = math.log1p(max(float(np.sum(excess * np.exp(log_weight))), 0.0))
    if large.any():  # p^a q^(1-a) - a p + (a-1) q, less its negative term
        terms = np.logaddexp(exponent, math.log(order - 1) + log_n)[large] + log_weight[large]
        peak = float(terms.max())
        moment = float(np.logaddexp(moment, peak + math.log(float(np.sum(np.exp(terms - peak))))))
    return moment / (order - 1)


def _pieces(order: float, c: float) -> int:
    """Pieces no wider than about one standard deviation, so that the rule stays exact to rounding."""
    return max(_PIECES, math.ceil(4 * order * c + 2 * _TAIL))


@lru_cache(maxsize=65536)
def _curve_point(q: float, c: float, order: float) -> float:
    raised, whole = max(c, _LEAST / q), 2 * order * c * c
    if order * raised > _WIDEST:
        return whole
    value = _renyi(q, raised, order) * _QUADRATURE
    return value if value <= whole else whole  # also if it is no number


def _rdp(q: float, c: float, orders: Sequence[float]) -> Vector:
    """rho(a) = D_a(P || Q) of one answer, rounded up by a factor 1 + 1e-6, at each order a > 1."""
    return np.array([_curve_point(q, c, float(a)) for a in orders])


@dataclass(frozen=True, slots=True)
class PoissonLoss:
    """(1-q) N(0,1) + q N(c,1) against its mirror image, q < 1."""

    q: float
    c: float

    @property
    def shift(self) -> float:
        return self.c

    @property
    def spread(self) -> float:
        """The integral of (P - Q)^2 / N(0,1) = 4 q^2 sinh(c^2): the loss's variance in the many-answer limit."""
        return 4 * self.q**2 * math.sinh(self.c**2)

    @property
    def deviation(self) -> float:
        return math.sqrt(self.spread)

    @property
    def widest(self) -> float:
        return 2 * _largest(self.q, self.c)

    def moments(self, count: int) -> tuple[float, float]:
        """The mean of one loss is at most 2 q c^2 (joint convexity) and at most its chi-square (Q >= (1-q) N(0,1))."""
        chi = self.spread / (1 - self.q)
        return count * min(chi, 2 * self.q * self.c**2), count * min(chi, 4 * self.q * self.c**2 * (1 + self.c**2))

    def masses(self, interval: float) -> Masses:
        return _masses(self.q, self.c, interval)


def _largest(q: float, c: float) -> float:
    """The largest loss on the grid, that at the reach."""
    x = reach(q, c)
    return math.log1p(q * math.expm1(min(c * x - c * c / 2, 600.0))) - math.log1p(q * math.expm1(-c * x - c * c / 2))


@lru_cache(maxsize=16)
def _masses(q: float, c: float, interval: float) -> Masses:
    """Loss ln p/q at x ~ P = (1-q) N(0,1) + q N(c,1), Q its mirror image; the loss is odd and increasing in x."""
    # x at which the loss is e: w = e^(c x) solves w - e^e / w = (1-q)(e^e - 1) / (q e^(-c^2/2)) = 2 e^(e/2) sinh(..)
    e = np.arange(0, math.ceil(_largest(q, c) / interval) + 1) * interval
    x = (e / 2 + np.arcsinh((1 - q) / q * math.exp(c * c / 2) * np.sinh(e / 2))) / c
    base, near, far = mass(x[:-1], x[1:]), mass(x[:-1] - c, x[1:] - c), mass(x[:-1] + c, x[1:] + c)
    beyond_p = (1 - q) * float(ndtr(-x[-1])) + q * float(ndtr(c - x[-1]))
    beyond_q = (1 - q) * float(ndtr(-x[-1])) + q * float(ndtr(-c - x[-1]))
    return symmetric(interval, (1 - q) * base + q * near, (1 - q) * base + q * far, beyond_p, beyond_q)


@dataclass(frozen=True, slots=True)
class PoissonGaussian(AbstractGaussianNoise):
    """One answer over a fresh Poisson batch.

    Parameters
    ----------
    rate : q in [1e-9, 1], each record's probability of being in the batch
    """

    rate: float
    name: Literal["poisson_gaussian"] = "poisson_gaussian"
    answers: ClassVar[int] = 1

    def __post_init__(self) -> None:
        numbers.rate(self.rate, "sampling rate")

    def curves(self, noise_multiplier: float, relation: Relation = REPLACE_ONE) -> Curves:
        """D_a(P || Q), and the loss of that pair; at q = 1 those of the Gaussian mechanism."""
        q, c, mu = self.rate, 1.0 / noise_multiplier, apart(relation) / noise_multiplier
        if q == 1:
            return Curves.gaussian(mu)
        if relation == "zero_out":
            loss, mirrored = (sampled_gaussian.SampledLoss(q, c, mirrored) for mirrored in (False, True))
            return Curves(partial(sampled_gaussian.renyi, q, c), gdp_bound=mu, losses=(loss,), mirrored=(mirrored,))
        return Curves(partial(_rdp, q, c), gdp_bound=mu, losses=(PoissonLoss(q, c),))

    def multiplier(self, mu_squared: float, relation: Relation = REPLACE_ONE) -> float:
        """The z at which one answer spends about mu^2: in the many-answer limit, 4 q^2 sinh(1/z^2) = mu^2, or, under
        zero_out, q^2 (e^(1/z^2) - 1) = mu^2.
        """
        if relation == "zero_out":
            return 1.0 / math.sqrt(math.log1p(mu_squared / self.rate**2))
        return 1.0 / math.sqrt(math.asinh(mu_squared / (4 * self.rate**2)))

    def event(self, noise_multiplier: float) -> Event:
        """The event within, on a batch that holds each record independently with probability q."""
        within = Gaussian().event(noise_multiplier)
        return {"type": "PoissonSampledDpEvent", "sampling_probability": self.rate, "event": within}
