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
from accounting.mechanisms import PoissonGaussian
from accounting.plan import Plan

_TAIL = 1e-18  # mass left beyond the grid, all of it counted as infinite loss
_X = float(-ndtri(_TAIL))
_FFT_FLOOR = 1e-11  # absolute error granted to the float FFT that composes the masses
_LEAST_DELTA = 1e-9
_MOST_CELLS = 1 << 18
_MOST_COMPOSED = 1 << 21
_LARGEST_SHIFT = 20.0  # 1/z; with less noise than that no plan of interest is private, and exponentials overflow


@dataclass(frozen=True, slots=True)
class GaussianAccountant:
    """epsilon(delta) of N(0,1) against N(mu,1), mu^2 the sum over the plan's answers: exact for Gaussian answers.

    Reference: Balle and Wang 2018; Dong, Roth and Su 2022; PRIVACY-SPEC 0.5, T1.
    """

    name: ClassVar[str] = "exact_gaussian"
    version: ClassVar[str] = "1"

    def supports(self, plan: Plan, delta: float) -> bool:
        """Whether every query of the plan is Gaussian-DP, and delta positive."""
        return delta > 0 and plan.gdp() is not None

    def epsilon(self, plan: Plan, delta: float) -> float:
        """The epsilon this accountant certifies for the plan at delta."""
        mu = plan.gdp()
        return math.inf if mu is None else gauss_epsilon(mu, delta)


@dataclass(frozen=True, slots=True)
class PldAccountant:
    """epsilon(delta) of the composed pessimistic privacy-loss distribution of the plan's dominating pairs.

    The masses of the loss in each grid cell are exact differences of Gaussian tails; "connect the dots" moves them to
    the grid's points so that the privacy profile only grows. Both directions of each pair are one: x -> -x swaps them.
    The composition is a float FFT, so `_FFT_FLOOR` is taken off delta, and delta below 1e-9 is left to others.

    Reference: Doroshenko et al. 2022 (connect the dots); PRIVACY-SPEC T3, section 12.5.

    Parameters
    ----------
    coarseness : grid interval as a multiple of the one a receipt is checked with; the search of noise uses 4
    """

    coarseness: float = 1.0
    name: ClassVar[str] = "pld"
    version: ClassVar[str] = "1"

    def supports(self, plan: Plan, delta: float) -> bool:
        """Whether delta is at least 1e-9 and the grids that the plan needs are of a bearable size."""
        if delta < _LEAST_DELTA or any(s.c > _LARGEST_SHIFT for s in _sampled(plan)):
            return False
        interval, widest = self._interval(plan), _widest_loss(plan)
        return widest / interval <= _MOST_CELLS and (widest + _typical_total(plan)) / interval <= _MOST_COMPOSED

    def epsilon(self, plan: Plan, delta: float) -> float:
        """The epsilon this accountant certifies for the plan at delta; infinite where it does not support the plan."""
        if not self.supports(plan, delta):
            return math.inf
        interval = self._interval(plan)
        sampled = [(_sampled_pmf(s.q, s.c, interval), s.count) for s in _sampled(plan)]
        mu = _gaussian_mu(plan)
        plain = [(_gaussian_pmf(mu, interval), 1)] if mu > 0 else []
        return guard.epsilon(guard.compose(sampled + plain), delta - _FFT_FLOOR)

    def _interval(self, plan: Plan) -> float:
        """Cells a twelfth of the typical loss of one answer: the rounding then costs about 0.03 % of epsilon."""
        steps = [_gaussian_mu(plan)] if _gaussian_mu(plan) > 0 else []
        steps += [2 * s.q * math.sqrt(math.expm1(min(s.c * s.c, 50.0))) for s in _sampled(plan)]
        return self.coarseness * min(1e-2, min(steps) / 12)


@dataclass(frozen=True, slots=True)
class _Sampled:
    """`count` answers over Poisson batches of rate q < 1 at c = 1 / noise multiplier."""

    q: float
    c: float
    count: int


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
    """The mean of all losses together and twelve of their standard deviations: about as far as the composition reaches.

    The mean of one sampled loss is at most 2 q c^2 (joint convexity) and at most its chi-square, 4 q^2 (e^(c^2) - 1).
    """
    mean, variance = _gaussian_mu(plan) ** 2 / 2, _gaussian_mu(plan) ** 2
    for s in _sampled(plan):
        chi = 4 * s.q**2 * math.expm1(min(s.c * s.c, 500.0))
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


@lru_cache(maxsize=64)
def _gaussian_pmf(mu: float, interval: float) -> Any:
    """Loss mu x + mu^2/2 at x ~ N(0,1), i.e. N(mu^2/2, mu^2)."""
    lowest = math.floor((mu * mu / 2 - _X * mu) / interval)
    highest = math.ceil((mu * mu / 2 + _X * mu) / interval)
    x = np.divide(np.arange(lowest, highest + 1) * interval - mu * mu / 2, mu)
    upper, lower = _mass(x[:-1], x[1:]), _mass(np.add(x[:-1], mu), np.add(x[1:], mu))
    return _connect_the_dots(interval, lowest, upper, lower, float(ndtr(x[0])), float(ndtr(-x[-1])))


@lru_cache(maxsize=64)
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
