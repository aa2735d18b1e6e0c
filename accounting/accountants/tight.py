"""Tight accounting: the exact Gaussian profile, and composed privacy-loss distributions."""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
from scipy import fft

from accounting.accountants import guard
from accounting.divergences.gaussian import gauss_epsilon
from accounting.divergences.losses import GaussianLoss, Loss, Masses, Search
from accounting.plan import AbstractComposition, Plan

Losses = tuple[tuple[Loss, int], ...]
"""Privacy losses, and how many of each."""

# Absolute error in delta granted to the float FFT that composes the masses: raising a transform to the power `count`
# multiplies its rounding by it (3.1e-16 a use was measured against 80-bit arithmetic).
_FFT_FLOOR, _FFT_USE = 1e-11, 1e-15
# A verifier grants this share of the error: 4e-16 a use, still more than the rounding of its own FFT. What it does not
# grant, 6e-12 + 6e-16 a use, exceeds the difference between the roundings of two processors, at most 2 * 3.1e-16 a use.
VERIFIED = 0.4
_FLOORS = 50  # delta must be so many times that error
_MOST_LOSSES = 200_000
_LARGEST_SHIFT = 20.0  # in noise stds; beyond it no plan of interest is private, and exponentials overflow
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

    Each mechanism owns its losses, and they their masses on the grid. The composition is a float FFT; its error, which
    grows with the number of losses, is taken off delta.

    Parameters
    ----------
    coarseness : grid interval as a multiple of the one a receipt is checked with
    granted : share of that error taken off delta; 1 to state an epsilon, `VERIFIED` to verify what another
        processor stated
    """

    coarseness: float = 1.0
    granted: float = 1.0
    name: ClassVar[str] = "pld"
    version: ClassVar[str] = "1"

    def supports(self, plan: Plan, delta: float) -> bool:
        """Whether each answer has a loss, delta is far above the FFT's error, and some grid is fine and small."""
        return bool(_grids(losses_of(plan), delta, self.coarseness))

    def epsilon(self, plan: Plan, delta: float) -> float:
        """The epsilon this accountant certifies for the plan at delta; infinite where it does not support the plan."""
        grids = _grids(losses_of(plan), delta, self.coarseness)
        granted = self.granted
        return max((guard.epsilon(_composed(grid), delta - granted * grid.error) for grid in grids), default=math.inf)


@dataclass(frozen=True, slots=True)
class RoughPld:
    """About the epsilon that `PldAccountant` certifies, for less work: where noise is searched. No bound.

    Parameters
    ----------
    coarseness : as there; above 1 for the beginning of a search
    """

    coarseness: float

    def epsilon(self, plan: Plan, delta: float) -> float:
        """The epsilon at delta, about."""
        grids = _grids(losses_of(plan, search="nearly" if self.coarseness <= 1 else "about"), delta, self.coarseness)
        return max((_about(grid, delta - grid.error) for grid in grids), default=math.inf)


def _about(grid: "_Grid", delta: float) -> float:
    """The least epsilon of the composed losses, by one transform on a circle wide enough for all but rare sums."""
    reach = _typical_total(grid.losses) + max(loss.widest for loss, _ in grid.losses)
    size = fft.next_fast_len(2 * math.ceil(reach / grid.interval), real=True)
    spectrum, kept = np.ones(size // 2 + 1, dtype=complex), 0.0
    for loss, count in grid.losses:
        _, lowest, masses, infinity = loss.masses(grid.interval)
        around = np.bincount((lowest + np.arange(len(masses))) % size, weights=masses, minlength=size)
        spectrum *= fft.rfft(around) ** count
        kept += count * math.log1p(-min(infinity, 0.5))  # beyond which no delta is met
    chance = np.maximum(fft.irfft(spectrum, size)[: size // 2], 0.0)  # of losses from 0 on
    losses = grid.interval * np.arange(len(chance))
    beyond = -math.expm1(kept) + np.cumsum(chance[::-1])[::-1]  # P(loss >= this one)
    weighed = np.cumsum((chance * np.exp(-losses))[::-1])[::-1]
    within = beyond - np.exp(np.minimum(losses, 700.0)) * weighed <= delta  # the profile at each loss
    first = int(np.argmax(within))
    return math.log(max((beyond[first] - delta) / weighed[first], 1.0)) if within[first] else math.inf


def _grids(orders: tuple[Losses, ...], delta: float, coarseness: float) -> tuple["_Grid", ...]:
    """One for each order of neighbors; none where one of them cannot be had."""
    grids = tuple(_grid(losses, coarseness) for losses in orders)
    return tuple(g for g in grids if g) if all(g and delta >= _FLOORS * g.error for g in grids) else ()


def losses_of(plan: AbstractComposition, *, search: Search | None = None, over: bool = False) -> tuple[Losses, ...]:
    """The losses whose sum is that of the plan: once, or, where the order of the neighbors matters, for each order.

    None where some query has none. `search`: those for a search of noise; `over`: with pairs over Renyi curves, for
    filters.
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
    """The pessimistic loss of all these together, and the FFT's error: of any part of its masses, added up.

    On the grid of the fine accountant, whose last compositions are kept: what was just certified costs nothing here.
    """
    grid = _grid(losses, 1.0)
    return None if grid is None else (guard.masses(_composed(grid)), grid.error)


@dataclass(frozen=True, slots=True)
class _Grid:
    """Losses to compose, their grid's interval and the FFT's error in delta."""

    losses: Losses
    interval: float
    error: float


@lru_cache(maxsize=2)
def _composed(grid: _Grid) -> Any:
    """The pmf of the sum of all losses."""
    return guard.compose([(guard.pessimistic_pmf(*loss.masses(grid.interval)), count) for loss, count in grid.losses])


def _grid(losses: Losses, coarseness: float) -> _Grid | None:
    total = sum(count for _, count in losses)
    if not 0 < total <= _MOST_LOSSES:
        return None
    merged = _merged(losses)
    interval = _interval(merged, coarseness)
    return None if interval is None else _Grid(merged, interval, _FFT_FLOOR + _FFT_USE * total)


def _interval(losses: Losses, least: float) -> float | None:
    """Cells a twelfth of the typical loss of one answer, costing about 0.03 % of epsilon; coarser if need be."""
    if any(loss.shift > _LARGEST_SHIFT for loss, _ in losses):
        return None
    step = min(loss.deviation for loss, _ in losses)
    widest, total = max(loss.widest for loss, _ in losses), _typical_total(losses)
    for coarseness in _COARSENESS:
        interval = least * coarseness * min(1e-2, step / 12)
        if widest / interval <= _MOST_CELLS and (widest + total) / interval <= _MOST_COMPOSED:
            return interval
    return None


def _merged(losses: Losses) -> Losses:
    """All Gaussian losses as one, mu^2 = their sum."""
    squared = sum(count * loss.mu * loss.mu for loss, count in losses if isinstance(loss, GaussianLoss))
    others = tuple((loss, count) for loss, count in losses if not isinstance(loss, GaussianLoss))
    return (*others, (GaussianLoss(math.sqrt(squared)), 1)) if squared > 0 else others


def _typical_total(losses: Losses) -> float:
    """The mean of all losses together and twelve standard deviations: where most of the composition lies."""
    moments = [loss.moments(count) for loss, count in losses]
    return sum(mean for mean, _ in moments) + 12 * math.sqrt(sum(variance for _, variance in moments))
