"""Tight accounting: the exact Gaussian profile, and composed privacy-loss distributions."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
from scipy import fft

from accounting.accountants import guard
from accounting.divergences.gaussian import gauss_epsilon
from accounting.divergences.losses import GaussianLoss, Loss, Masses, Search
from accounting.divergences.pure_loss import PureLoss
from accounting.plan import AbstractComposition, Plan
from accounting.privacy import REPLACE_ONE

Losses = tuple[tuple[Loss, int], ...]
"""Privacy losses, and the number of each."""

# Absolute error in delta allowed for the float FFT that composes the masses: raising a transform to the power `count`
# multiplies its rounding by it (3.1e-16 a use was measured against 80-bit arithmetic).
_FFT_ERROR, _FFT_ERROR_PER_USE = 1e-11, 1e-15
# A verifier allows this share of the error: 4e-16 a use, still more than the rounding of its own FFT. The rest, 6e-12 +
# 6e-16 a use, exceeds the difference between the roundings of two processors, at most 2 * 3.1e-16 a use.
VERIFIED_ERROR_SHARE = 0.4
_SMALLEST_DELTA_RATIO = 50  # of delta over that error
_MOST_LOSSES = 200_000
_LARGEST_SHIFT = 20.0  # in noise stds; beyond it no plan of interest is private, and exponentials overflow
_GRID_FACTORS = (1.0, 2.0, 4.0, 8.0)
_MOST_CELLS = 1 << 18
_MOST_COMPOSED_CELLS = 1 << 21


@dataclass(frozen=True, slots=True)
class GaussianAccountant:
    """epsilon(delta) of N(0,1) against N(mu,1), mu^2 = the sum over the plan's queries of their `gdp_bound` squared.

    It is exact for Gaussian answers. For sampled answers it is the cost without sampling, an upper bound, since a
    pair's divergence grows with the rate.
    Reference: Balle and Wang 2018; Dong, Roth and Su 2022; docs/spec 0.5, T1.
    """

    name: ClassVar[str] = "exact_gaussian"
    version: ClassVar[str] = "1"

    def epsilon(self, plan: AbstractComposition, delta: float) -> float:
        """Return the epsilon certified for the plan at delta; infinite if delta is 0 or an answer has no such bound."""
        mu = plan.gdp_bound()
        return math.inf if mu is None else gauss_epsilon(mu, delta)


@dataclass(frozen=True, slots=True)
class PldAccountant:
    """epsilon(delta) of the composed pessimistic privacy-loss distribution of the plan's dominating pairs.

    Each mechanism defines its losses, and these their masses on the grid. The composition is a float FFT. Its error,
    which grows with the number of losses, is subtracted from delta.

    Parameters
    ----------
    coarseness : grid interval as a multiple of the one a receipt is checked with
    error_share : share of that error subtracted from delta; 1 to state an epsilon, `VERIFIED_ERROR_SHARE` to verify an
        epsilon that another processor stated
    earlier : whether pure answers have the Gaussian pairs that earlier versions used, to verify what those stated
    """

    coarseness: float = 1.0
    error_share: float = 1.0
    earlier: bool = False
    name: ClassVar[str] = "pld"
    version: ClassVar[str] = "1"

    def epsilon(self, plan: Plan, delta: float) -> float:
        """Return the epsilon certified for the plan at delta.

        It is infinite if an answer has no loss, if delta is not far above the FFT's error, or if the only grids that
        are fine enough are too large.
        """
        share, grids = self.error_share, _grids(plan, delta, self.coarseness, earlier=self.earlier)
        return max((guard.epsilon(_composed(grid), delta - share * grid.error) for grid in grids), default=math.inf)


@dataclass(frozen=True, slots=True)
class RoughPld:
    """An approximation of the epsilon that `PldAccountant` certifies, for searches of noise. It is not a bound.

    Parameters
    ----------
    coarseness : as for `PldAccountant`; above 1 for the beginning of a search
    """

    coarseness: float

    def epsilon(self, plan: Plan, delta: float) -> float:
        """Return the approximate epsilon at delta."""
        grids = _grids(plan, delta, self.coarseness, "nearly" if self.coarseness <= 1 else "about")
        return max((_approximate_epsilon(grid, delta - grid.error) for grid in grids), default=math.inf)


def losses_of(plan: AbstractComposition, *, search: Search | None = None, over: bool = False) -> tuple[Losses, ...]:
    """Return the losses whose sum is the plan's loss, once or for each order of the neighbors.

    The result has two entries if the order of the neighbors matters, and none if some query has no loss.

    Parameters
    ----------
    search : accept approximate losses, for a search of noise
    over : accept the pairs over Renyi curves for mechanisms without losses, as filters do
    """
    parts = plan.parts()
    if not all(curves.losses or (over and curves.over) for _, curves in parts):
        return ()
    orders = (False, True) if any(curves.mirrored for _, curves in parts) else (False,)
    return tuple(
        tuple(
            (loss, count)
            for count, curves in parts
            for loss in (mirrored and curves.mirrored)
            or (search and curves.rough and curves.rough(search))
            or curves.losses
            or curves.over
        )
        for mirrored in orders
    )


def composed_loss(losses: Losses) -> tuple[Masses, float] | None:
    """Return the pessimistic loss of the composition, and the largest error of the FFT on any sum of its masses.

    The grid is that of the fine accountant, whose last compositions are cached: after a certificate this is free.
    """
    grid = _grid(losses, 1.0)
    return None if grid is None else (guard.masses(_composed(grid)), grid.error)


@dataclass(frozen=True, slots=True)
class _Grid:
    """Losses to compose, their grid's interval and the FFT's error in delta."""

    losses: Losses
    interval: float
    error: float


def _grids(
    plan: Plan, delta: float, coarseness: float, search: Search | None = None, *, earlier: bool = False
) -> tuple["_Grid", ...]:
    """Return a grid for each order of the neighbors; empty if an order has no grid or delta is too small.

    If the losses under zero_out have no grid, those under replace_one may have one, and bound the plan, too.
    """
    for relation in dict.fromkeys((plan.relation, REPLACE_ONE)):
        orders = losses_of(replace(plan, relation=relation), search=search)
        grids = tuple(_grid(_gaussian_bounds(losses) if earlier else losses, coarseness) for losses in orders)
        if grids and all(grid and delta >= _SMALLEST_DELTA_RATIO * grid.error for grid in grids):
            return tuple(grid for grid in grids if grid)
    return ()


def _grid(losses: Losses, coarseness: float) -> _Grid | None:
    """Return a grid whose interval suits the smallest typical loss of one answer, or else all answers on average.

    If pure answers with small losses need too fine a grid, Gaussian pairs that dominate them take their place.
    """
    total = sum(count for _, count in losses)
    if not 0 < total <= _MOST_LOSSES:
        return None
    error = _FFT_ERROR + _FFT_ERROR_PER_USE * total
    exact = _merged(losses)
    bounded = _merged(_gaussian_bounds(losses))
    for merged, typical_loss in ((exact, _smallest_loss), (bounded, _smallest_loss), (bounded, _mean_loss)):
        interval = _interval(merged, coarseness, typical_loss)
        if interval is not None:
            return _Grid(merged, interval, error)
    return None


def _interval(losses: Losses, coarseness: float, typical_loss: Callable[[Losses], float]) -> float | None:
    """Return a twelfth of the typical loss of one answer, which costs about 0.03 % of epsilon, or more if needed."""
    if any(loss.shift > _LARGEST_SHIFT for loss, _ in losses):
        return None
    widest = max(loss.widest for loss, _ in losses)
    total = _typical_total(losses)
    for factor in _GRID_FACTORS:
        interval = coarseness * factor * min(1e-2, typical_loss(losses) / 12)
        if widest / interval <= _MOST_CELLS and (widest + total) / interval <= _MOST_COMPOSED_CELLS:
            return interval
    return None


def _smallest_loss(losses: Losses) -> float:
    """Return the smallest typical loss of an answer."""
    return min(loss.deviation for loss, _ in losses)


def _mean_loss(losses: Losses) -> float:
    """Return the mean typical loss of all answers, weighted by the typical losses themselves.

    With a grid of this interval, the added variance is a fixed share of the variance of the sum.
    """
    deviations = [(loss.deviation, count) for loss, count in losses]
    return sum(count * d * d for d, count in deviations) / sum(count * d for d, count in deviations)


def _gaussian_bounds(losses: Losses) -> Losses:
    """Return the losses with each pure one replaced by a Gaussian loss that dominates it."""
    return tuple((loss.gaussian_bound if isinstance(loss, PureLoss) else loss, count) for loss, count in losses)


def _merged(losses: Losses) -> Losses:
    """Return the losses with all Gaussian ones merged into one, whose mu^2 is the sum of theirs."""
    squared = sum(count * loss.mu * loss.mu for loss, count in losses if isinstance(loss, GaussianLoss))
    sampled = tuple((loss, count) for loss, count in losses if not isinstance(loss, GaussianLoss))
    return (*sampled, (GaussianLoss(math.sqrt(squared)), 1)) if squared > 0 else sampled


def _typical_total(losses: Losses) -> float:
    """Return the mean of all losses together and twelve standard deviations, within which most of the sum lies."""
    moments = [loss.moments(count) for loss, count in losses]
    return sum(mean for mean, _ in moments) + 12 * math.sqrt(sum(variance for _, variance in moments))


@lru_cache(maxsize=32)
def _masses(loss: Loss, interval: float) -> Masses:
    """Return the loss's masses, which the last stage of a search and its certificate share."""
    return loss.masses(interval)


@lru_cache(maxsize=2)
def _composed(grid: _Grid) -> Any:
    """Return the pmf of the sum of all losses."""
    return guard.compose([(guard.pessimistic_pmf(*_masses(loss, grid.interval)), count) for loss, count in grid.losses])


def _approximate_epsilon(grid: _Grid, delta: float) -> float:
    """Return the smallest epsilon of the composed losses, by one transform on a circle that holds all but rare sums."""
    reach = _typical_total(grid.losses) + max(loss.widest for loss, _ in grid.losses)
    size = fft.next_fast_len(2 * math.ceil(reach / grid.interval), real=True)
    spectrum, log_finite = np.ones(size // 2 + 1, dtype=complex), 0.0
    for loss, count in grid.losses:
        _, lowest, masses, infinity = _masses(loss, grid.interval)
        wrapped = np.bincount((lowest + np.arange(len(masses))) % size, weights=masses, minlength=size)
        spectrum *= fft.rfft(wrapped) ** count
        log_finite += count * math.log1p(-min(infinity, 0.5))  # beyond 0.5 no delta is met
    chance = np.maximum(fft.irfft(spectrum, size)[: size // 2], 0.0)  # of losses from 0 on
    return guard.smallest_epsilon(chance, grid.interval, -math.expm1(log_finite), delta)
