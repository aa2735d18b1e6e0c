"""Gaussian noise on a sum over a Poisson batch: each record is in with probability q, and adds at most b.

Precondition: the answer is (sum over the batch of h_i) / normalizer, ||h_i|| / normalizer <= b, the normalizer fixed;
the batch is drawn afresh for every answer and stays secret.
Pseudo-code: batch ~ Poisson(q); release round_gamma(sum / normalizer) + gamma round(N / gamma), N ~ N(0, (z b)^2 I).
Postcondition: dominated, in both directions and for all orders, with c = 1/z, by
    P = (1-q) N(0,1) + q N(c,1)   against   Q = (1-q) N(0,1) + q N(-c,1).
Reference: docs/spec T3; proof in docs/proofs/poisson_gaussian.md.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from accounting import numbers
from accounting.mechanisms import events
from accounting.noise import Noise
from accounting.noise.lattice import Lattice

_QUADRATURE = 1 + 1e-6  # covers the error of the quadrature below (docs/spec 14)
_PIECES, _NODES = 40, 64
_TAIL = 14.0  # standard deviations past the farthest peak of the integrand
_WIDEST = 200.0  # beyond this order * c the integral gives way to its value at q = 1, which is never smaller
_LEAST = 1e-9  # below this q c, cancellation would eat the safety factor; the curve is monotone, so it is raised


@lru_cache(maxsize=1)
def _legendre() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
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


@dataclass(frozen=True, slots=True)
class PoissonGaussian:
    """One answer over a fresh Poisson batch.

    Parameters
    ----------
    rate : q in [1e-9, 1], each record's probability of being in the batch
    """

    rate: float
    name: Literal["poisson_gaussian"] = "poisson_gaussian"

    def __post_init__(self) -> None:
        numbers.rate(self.rate, "sampling rate")

    @property
    def answers(self) -> int:
        """One use is one answer."""
        return 1

    def rdp(self, noise_multiplier: float, orders: Sequence[float]) -> NDArray[np.float64]:
        """rho(a) = D_a(P || Q) of one answer, rounded up by a factor 1 + 1e-6, at each order a > 1."""
        return np.array([_curve_point(self.rate, 1.0 / noise_multiplier, float(a)) for a in orders])

    def gdp(self, noise_multiplier: float) -> float | None:
        """None unless q = 1 (where it is the Gaussian mechanism): sampling is not Gaussian-DP."""
        return 2.0 / noise_multiplier if self.rate == 1 else None

    def gdp_bound(self, noise_multiplier: float) -> float | None:
        """mu of a Gaussian pair that dominates one answer: what it would cost if every record were always in."""
        return 2.0 / noise_multiplier

    def pure(self, noise_multiplier: float) -> float | None:  # noqa: ARG002
        """None: Gaussian noise has no epsilon at delta = 0."""
        return None

    def multiplier(self, mu_squared: float) -> float:
        """The z at which one answer spends about mu^2: in the many-answer limit, 4 q^2 sinh(1/z^2) = mu^2."""
        return 1.0 / math.sqrt(math.asinh(mu_squared / (4 * self.rate**2)))

    def event(self, noise_multiplier: float) -> events.Event:
        """One answer as an event."""
        return events.poisson_sampled(self.rate, events.gaussian(noise_multiplier))

    def std(self, noise_multiplier: float, bound: float, dimension: int) -> float:
        """The noise std, in the answer's unit, that `perturb` will use."""
        return Lattice.fit(noise_multiplier, bound, dimension).std

    def perturb(
        self, value: NDArray[np.float64], noise_multiplier: float, bound: float, noise: Noise
    ) -> NDArray[np.float64]:
        """The private answer, shape (d,)."""
        return Lattice.fit(noise_multiplier, bound, len(value)).perturb(value, noise)
