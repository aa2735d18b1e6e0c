"""Tight accounting: the exact Gaussian profile, and composed privacy-loss distributions."""

import math
from dataclasses import dataclass
from typing import ClassVar

from accounting.accountants import guard
from accounting.accountants.loss import LARGEST_SHIFT, Loss, answers, losses
from accounting.divergences.gaussian import gauss_epsilon
from accounting.plan import Plan

# Absolute error in delta granted to the float FFT that composes the masses: raising a transform to the power `count`
# multiplies its rounding by it (3.1e-16 a use was measured against 80-bit arithmetic).
_FFT_FLOOR, _FFT_USE = 1e-11, 1e-15
_FLOORS = 50  # delta must be so many times that error
_MOST_ANSWERS = 200_000
_COARSENESS = (1.0, 2.0, 4.0, 8.0)
_MOST_CELLS = 1 << 18
_MOST_COMPOSED = 1 << 21


@dataclass(frozen=True, slots=True)
class GaussianAccountant:
    """epsilon(delta) of N(0,1) against N(mu,1), mu^2 = the sum over the plan's queries of their `gdp_bound` squared.

    Exact for Gaussian answers. For sampled ones it is what they would cost unsampled: an upper bound, since a pair's
    divergence grows with the rate.
    Reference: Balle and Wang 2018; Dong, Roth and Su 2022; docs/spec 0.5, T1.
    """

    name: ClassVar[str] = "exact_gaussian"
    version: ClassVar[str] = "1"

    def supports(self, plan: Plan, delta: float) -> bool:
        """Whether delta is positive, there is an answer and every query has such a bound."""
        return delta > 0 and len(plan.queries) > 0 and plan.gdp_bound() is not None

    def epsilon(self, plan: Plan, delta: float) -> float:
        """The epsilon this accountant certifies for the plan at delta; infinite where it does not support the plan."""
        mu = plan.gdp_bound()
        return math.inf if mu is None else gauss_epsilon(mu, delta)


@dataclass(frozen=True, slots=True)
class PldAccountant:
    """epsilon(delta) of the composed pessimistic privacy-loss distribution of the plan's dominating pairs.

    The masses on the grid come from `accounting.accountants.loss`. The composition is a float FFT; its error, which
    grows with the number of answers, is taken off delta.

    Parameters
    ----------
    coarseness : grid interval as a multiple of the one a receipt is checked with; the search of noise uses 4
    """

    coarseness: float = 1.0
    name: ClassVar[str] = "pld"
    version: ClassVar[str] = "1"

    def supports(self, plan: Plan, delta: float) -> bool:
        """Whether each answer has a loss, delta is far above the FFT's error, and some grid is fine and small."""
        if not plan.queries or answers(plan) > _MOST_ANSWERS or delta < _FLOORS * _fft_error(plan):
            return False
        found = losses(plan, coarse=self.coarseness > 1)
        return bool(found) and self._interval(found or []) is not None

    def epsilon(self, plan: Plan, delta: float) -> float:
        """The epsilon this accountant certifies for the plan at delta; infinite where it does not support the plan."""
        found = losses(plan, coarse=self.coarseness > 1) if self.supports(plan, delta) else None
        interval = self._interval(found) if found else None
        if not found or interval is None:
            return math.inf
        pmfs = [(loss.pmf(interval), count) for loss, count in found]
        return guard.epsilon(guard.compose(pmfs), delta - _fft_error(plan))

    def _interval(self, found: list[tuple[Loss, int]]) -> float | None:
        """Cells a twelfth of the typical loss of one answer, costing about 0.03 % of epsilon; coarser if need be."""
        if any(loss.shift > LARGEST_SHIFT for loss, _ in found):
            return None
        step = min(loss.deviation for loss, _ in found)
        widest, total = max(loss.widest for loss, _ in found), _typical_total(found)
        for coarseness in _COARSENESS:
            interval = self.coarseness * coarseness * min(1e-2, step / 12)
            if widest / interval <= _MOST_CELLS and (widest + total) / interval <= _MOST_COMPOSED:
                return interval
        return None


def _fft_error(plan: Plan) -> float:
    return _FFT_FLOOR + _FFT_USE * answers(plan)


def _typical_total(found: list[tuple[Loss, int]]) -> float:
    """The mean of all losses together and twelve standard deviations: where most of the composition lies."""
    moments = [loss.moments(count) for loss, count in found]
    return sum(mean for mean, _ in moments) + 12 * math.sqrt(sum(variance for _, variance in moments))
