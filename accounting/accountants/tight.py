"""Tight accounting: the exact Gaussian profile, and privacy-loss distributions built from interval masses."""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from accounting import guard
from accounting.accountants.gaussian import gauss_epsilon
from accounting.mechanisms import Gaussian, PoissonGaussian
from accounting.plan import Plan

_TAIL = 1e-18  # mass left beyond the grid, all of it counted as infinite loss
_X = float(-ndtri(_TAIL))
# Absolute error in delta granted to the float FFT that composes the masses: raising a transform to the power `count`
# multiplies its rounding by it (3.1e-16 a use was measured against 80-bit arithmetic).
_FFT_FLOOR, _FFT_USE = 1e-11, 1e-15
_FLOORS = 50  # delta must be so many times that error
_MOST_ANSWERS = 200_000
_COARSENESS = (1.0, 2.0, 4.0, 8.0)
_MOST_CELLS = 1 << 18
_MOST_COMPOSED = 1 << 21
_LARGEST_SHIFT = 20.0  # 1/z; with less noise than that no plan of interest is private, and exponentials overflow


@dataclass(frozen=True, slots=True)
class GaussianAccountant:
    """epsilon(delta) of N(0,1) against N(mu,1), mu^2 = sum over the plan's answers of (2 / z)^2.

    Exact for Gaussian answers. For sampled ones it is what they would cost unsampled: an upper bound, since a pair's
    divergence grows with the rate.
    Reference: Balle and Wang 2018; Dong, Roth and Su 2022; PRIVACY-SPEC 0.5, T1.
    """

    name: ClassVar[str] = "exact_gaussian"
    version: ClassVar[str] = "1"

    def supports(self, plan: Plan, delta: float) -> bool:
        """Whether delta is positive and there is an answer."""
        return delta > 0 and len(plan.queries) > 0

    def epsilon(self, plan: Plan, delta: float) -> float:
        """The epsilon this accountant certifies for the plan at delta."""
        squares = (q.count * Gaussian().gdp(q.noise_multiplier) ** 2 for q in plan.queries)
        return gauss_epsilon(math.sqrt(sum(squares)), delta)


@dataclass(frozen=True, slots=True)
class PldAccountant:
    """epsilon(delta) of the composed pessimistic privacy-loss distribution of the plan's dominating pairs.

    The masses of the loss in each grid cell are exact differences of Gaussian tails; "connect the dots" moves them to
    the grid's points so that the privacy profile only grows. Both directions of each pair are one: x -> -x swaps them.
    The composition is a float FFT; its error, which grows with the number of answers, is taken off delta.

    Reference: Doroshenko et al. 2022 (connect the dots); PRIVACY-SPEC T3, section 12.5.

    Parameters
    ----------
    coarseness : grid interval as a multiple of the one a receipt is checked with; the search of noise uses 4
    """

    coarseness: float = 1.0
    name: ClassVar[str] = "pld"
    version: ClassVar[str] = "1"

    def supports(self, plan: Plan, delta: float) -> bool:
        """Whether delta is far above the FFT's error, and some grid is fine enough and of a bearable size."""
        answers = sum(q.count for q in plan.queries)
        if not plan.queries or answers > _MOST_ANSWERS or delta < _FLOORS * _fft_error(plan):
            return False
        return self._interval(plan) is not None

    def epsilon(self, plan: Plan, delta: float) -> float:
        """The epsilon this accountant certifies for the plan at delta; infinite where it does not support the plan."""
        interval = self._interval(plan) if self.supports(plan, delta) else None
        if interval is None:
            return math.inf
        sampled = [(_sampled_pmf(s.q, s.c, interval), s.count) for s in _sampled(plan)]
        mu = _gaussian_mu(plan)
        plain = [(_gaussian_pmf(mu, interval), 1)] if mu > 0 else []
        return guard.epsilon(guard.compose(sampled + plain), delta - _fft_error(plan))

    def _interval(self, plan: Plan) -> float | None:
        """Cells a twelfth of the typical loss of one answer, costing about 0.03 % of epsilon; coarser if need be."""
        mu, sampled = _gaussian_mu(plan), _sampled(plan)
        if mu > _LARGEST_SHIFT or any(s.c > _LARGEST_SHIFT for s in sampled):
            return None
        steps = [mu] if mu > 0 else []
        steps += [math.sqrt(s.spread) for s in sampled]
        widest, total = _widest_loss(plan), _typical_total(plan)
        for coarseness in _COARSENESS:
            interval = self.coarseness * coarseness * min(1e-2, min(steps) / 12)
            if widest / interval <= _MOST_CELLS and (widest + total) / interval <= _MOST_COMPOSED:
                return interval
        return None


@dataclass(frozen=True, slots=True)
class _Sampled:
    """`count` answers over Poisson batches of rate q < 1 at c = 1 / noise multiplier."""

    q: float
    c: float
    count: int

    @property
    def spread(self) -> float:
        """The integral of (P - Q)^2 / N(0,1) = 4 q^2 sinh(c^2): the loss's variance in the many-answer limit."""
        return 4 * self.q**2 * math.sinh(self.c**2)


def _fft_error(plan: Plan) -> float:
    return _FFT_FLOOR + _FFT_USE * sum(q.count for q in plan.queries)


def _sampled(plan: Plan) -> list[_Sampled]:
    return [
        _Sampled(query.mechanism.rate, 1 / query.noise_multiplier, query.count)
        for query in plan.queries
        if isinstance(query.mechanism, PoissonGaussian) and query.mechanism.gdp(1.0) is None
    ]


def _gaussian_mu(plan: Plan) -> float:
    """mu of all Gaussian-DP answers together."""
    mus = ((query.count, query.mechanism.gdp(query.noise_multiplier)) for query in plan.queries)
    return math.sqrt(sum(count * mu * mu for count, mu in mus if mu is not None))


def _widest_loss(plan: Plan) -> float:
    """The largest loss on any of the grids."""
    mu = _gaussian_mu(plan)
    widths = [2 * mu * _X + mu * mu] if mu > 0 else []
    for s in _sampled(plan):
        widths.append(2 * math.log1p(s.q * math.expm1(min(s.c * (s.c + _X), 600.0))) + s.c * s.c)
    return max(widths)


def _typical_total(plan: Plan) -> float:
    """The mean of all losses together and twelve standard deviations: where most of the composition lies.

    The mean of one sampled loss is at most 2 q c^2 (joint convexity) and at most its chi-square (Q >= (1-q) N(0,1)).
    """
    mean, variance = _gaussian_mu(plan) ** 2 / 2, _gaussian_mu(plan) ** 2
    for s in _sampled(plan):
        chi = s.spread / (1 - s.q)
        mean += s.count * min(chi, 2 * s.q * s.c**2)
        variance += s.count * min(chi, 4 * s.q * s.c**2 * (1 + s.c**2))
    return mean + 12 * math.sqrt(variance)


def _mass(low: NDArray[np.float64], high: NDArray[np.float64]) -> NDArray[np.float64]:
    """Phi(high) - Phi(low), low <= high, to relative accuracy on both sides of 0."""
    positive = low > 0
    a, b = np.where(positive, -high, low), np.where(positive, -low, high)
    return np.asarray(ndtr(b) - ndtr(a))


def _connect_the_dots(
    interval: float, lowest: int, upper: NDArray[np.float64], lower: NDArray[np.float64], extra: float, infinity: float
) -> Any:
    """Cell i, losses (e_i, e_i + interval], has mass upper[i] under P and lower[i] under Q; put it on its two ends so
    that P's mass stays and Q's is matched: the upper end's share b solves (upper - b) e^-e_i + b e^-e_(i+1) = lower.
    `extra` sits at the lowest point, `infinity` at +inf.
    """
    points = (lowest + np.arange(len(upper))) * interval
    to_high = np.clip((upper - np.exp(points) * lower) / -math.expm1(-interval), 0.0, upper)
    masses = np.zeros(len(upper) + 1)
    masses[:-1] += upper - to_high
    masses[1:] += to_high
    masses[0] += extra
    return guard.pessimistic_pmf(interval, lowest, masses, infinity)


@lru_cache(maxsize=16)
def _gaussian_pmf(mu: float, interval: float) -> Any:
    """Loss mu x + mu^2/2 at x ~ N(0,1), i.e. N(mu^2/2, mu^2)."""
    lowest = math.floor((mu * mu / 2 - _X * mu) / interval)
    highest = math.ceil((mu * mu / 2 + _X * mu) / interval)
    x = np.divide(np.arange(lowest, highest + 1) * interval - mu * mu / 2, mu)
    upper, lower = _mass(x[:-1], x[1:]), _mass(np.add(x[:-1], mu), np.add(x[1:], mu))
    return _connect_the_dots(interval, lowest, upper, lower, float(ndtr(x[0])), float(ndtr(-x[-1])))


@lru_cache(maxsize=16)
def _sampled_pmf(q: float, c: float, interval: float) -> Any:
    """Loss ln p/q at x ~ P = (1-q) N(0,1) + q N(c,1), Q its mirror image; the loss is odd and increasing in x."""
    reach = c + _X
    top = math.log1p(q * math.expm1(c * reach - c * c / 2)) - math.log1p(q * math.expm1(-c * reach - c * c / 2))
    # x at which the loss is e: w = e^(c x) solves w - e^e / w = (1-q)(e^e - 1) / (q e^(-c^2/2)) = 2 e^(e/2) sinh(..)
    e = np.arange(0, math.ceil(top / interval) + 1) * interval
    x = (e / 2 + np.arcsinh((1 - q) / q * math.exp(c * c / 2) * np.sinh(e / 2))) / c
    base, near, far = _mass(x[:-1], x[1:]), _mass(x[:-1] - c, x[1:] - c), _mass(x[:-1] + c, x[1:] + c)
    upper, lower = (1 - q) * base + q * near, (1 - q) * base + q * far
    beyond_p = (1 - q) * float(ndtr(-x[-1])) + q * float(ndtr(c - x[-1]))
    beyond_q = (1 - q) * float(ndtr(-x[-1])) + q * float(ndtr(-c - x[-1]))
    return _connect_the_dots(
        interval,
        -len(upper),
        np.concatenate([lower[::-1], upper]),
        np.concatenate([upper[::-1], lower]),
        beyond_q,
        beyond_p,
    )
