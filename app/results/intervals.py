"""Intervals for the noiseless number, computed from released answers and the known noise: post-processing."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from accounting.plan import Plan
from purse.wire.columns import CategoryColumn, Column, NumberColumn
from purse.wire.jobs import Basis, IntervalWidth
from purse.wire.profiles import ColumnProfile, Interval, QuantileEstimate
from solvers.methods.run import Run
from solvers.problem import Problem

Widths = list[IntervalWidth]
NO_PROFILE: Mapping[str, ColumnProfile] = MappingProxyType({})
WIDE = 1.959964  # half-width of a 95 % interval, in stds of the noise


@dataclass(frozen=True, slots=True)
class Rows:
    """The number of rows, where a person's rows count 1/k each, and the std of its noise, 0 if it is public."""

    n: float
    noise: float

    def around(self, value: float, std: float) -> tuple[float, float, float]:
        """Return a mean over the rows and the ends of its interval. With a noisy number of rows it is a quotient.

        Parameters
        ----------
        std : of the numerator's noise, divided by the number of rows
        """
        wide = WIDE * math.hypot(std, value * self.noise / self.n)
        return value, value - wide, value + wide


def stds_of(method: Run, problem: Problem, plan: Plan) -> dict[str, float]:
    """Return the noise std of each query's answers, at its largest bound."""
    bounds = method.bounds(problem)
    return {q.name: q.mechanism.std(q.noise_multiplier, *bounds[q.name]) for q in plan.queries}


def edges_of(column: NumberColumn, bins: int) -> NDArray[np.float64]:
    """Return the edges of equal bins, in the column's unit."""
    (origin, unit), (low, high) = column.middle_and_half, column.code_range
    return np.clip(origin + unit * np.linspace(low, high, bins + 1), column.lower, column.upper)


def mean_of(column: NumberColumn, around: Sequence[float]) -> Interval:
    """Return a mean code and the ends of its interval in the column's unit, clipped to its range."""
    origin, unit = column.middle_and_half
    return interval(origin + unit * np.clip(around, *column.code_range))


def quantile(
    share: float, counts: NDArray[np.float64], edges: NDArray[np.float64], std: float, rows: Rows
) -> QuantileEstimate:
    """Estimate the edge of a bin up to which the number of records reaches share * n.

    The best estimate of the count of bins 1..k is cum_k - (k/B) (cum_B - n), of variance std^2 k (B - k) / B, because n
    is public. If n is noisy, its distance from share * n adds (k/B - share)^2 of the variance of n. The interval holds
    every bin for which neither "reached before" nor "not reached yet" can be excluded, at 2.5 % on either side.
    """
    bins, n, target = len(counts), rows.n, share * rows.n
    k = np.arange(bins + 1)
    upto = np.concatenate(([0.0], np.cumsum(counts)))
    upto, band = (
        upto - k / bins * (upto[-1] - n),
        WIDE * np.hypot(std * np.sqrt(k * (bins - k) / bins), (k / bins - share) * rows.noise),
    )
    upto[0], upto[-1] = 0.0, n
    first = int(np.flatnonzero(upto >= target)[0])
    last = int(np.flatnonzero(upto < target)[-1]) + 1
    lowest = int(np.flatnonzero(upto[1:] + band[1:] >= target)[0])
    highest = int(np.flatnonzero(upto[:-1] - band[:-1] <= target)[-1]) + 1
    return QuantileEstimate(share=share, at=interval(edges[[math.ceil((first + last) / 2), lowest, highest]]))


def mean_widths(columns: Sequence[Column], std: float, rows: Rows) -> Widths:
    """Return the width for each number's mean and each category's shares: exact if the number of rows is public.

    Means are assumed in the middle of their range. Elsewhere the interval may reach an end of the range, and is
    narrower.

    Parameters
    ----------
    std : of the noise of a mean code
    """
    basis: Basis = "typical" if rows.noise else "exact"
    widths = []
    for column in columns:
        if isinstance(column, CategoryColumn):
            answer, ends = "share", interval(np.clip(rows.around(0.5, std), 0.0, 1.0))
        else:
            answer, ends = "mean", mean_of(column, rows.around(sum(column.code_range) / 2, std))
        widths.append(IntervalWidth.of(answer, column.name, ends.high - ends.low, basis))
    return widths


def quantile_widths(
    columns: Sequence[Column],
    shares: Sequence[float],
    bins: int,
    std: float,
    rows: Rows,
    profiles: Mapping[str, ColumnProfile] = NO_PROFILE,
) -> Widths:
    """Return the width for each number's quantiles.

    Values are distributed as in the released profile, or spread evenly over the range of a column without one.

    Parameters
    ----------
    std : of the noise of each bin's count
    profiles : released profiles by the column's name
    """
    even = _bin_widths(shares, np.full(bins, rows.n / bins), std, rows)
    interval_widths = []
    for column in columns:
        if isinstance(column, NumberColumn):
            counts = _known_counts(profiles.get(column.name), column, bins, rows)
            low, high = column.ends
            basis: Basis = "typical" if counts is None else "profile"
            widths = even if counts is None else _bin_widths(shares, counts, std, rows)
            for share, width in zip(shares, widths, strict=True):
                answer = f"quantile {share:g}"
                interval_widths.append(IntervalWidth.of(answer, column.name, width * (high - low) / bins, basis))
    return interval_widths


def _bin_widths(shares: Sequence[float], counts: NDArray[np.float64], std: float, rows: Rows) -> list[float]:
    """Return the width of each quantile's interval, in bins."""
    estimates = [quantile(share, counts, np.arange(len(counts) + 1.0), std, rows).at for share in shares]
    return [at.high - at.low for at in estimates]


def _known_counts(
    profile: ColumnProfile | None, column: NumberColumn, bins: int, rows: Rows
) -> NDArray[np.float64] | None:
    """Return the rows in each bin by a released profile of the column as it is declared now; None without one."""
    counts = np.maximum([0.0] if profile is None or profile.column != column else profile.counts, 0.0)
    if counts.sum() <= 0:
        return None
    upto = np.concatenate(([0.0], np.cumsum(counts))) * rows.n / counts.sum()
    return np.asarray(np.diff(np.interp(np.linspace(0, 1, bins + 1), np.linspace(0, 1, len(upto)), upto)))


def interval(ends: NDArray[np.float64]) -> Interval:
    """Return the interval of a value and its lower and upper end."""
    value, low, high = ends.tolist()
    return Interval(value=value, low=low, high=high)
