"""From a profile's answers to what is published of them: post-processing, with intervals from the known noise."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from app.sources.design import Table
from app.sources.spec import JobSpec
from purse.wire.datasets import CategoryColumn, NumberColumn
from purse.wire.models import Moments
from purse.wire.profiles import ColumnProfile, Interval, QuantileEstimate
from solvers.statistics import Profile

_WIDE = 1.959964  # stds of noise on either side: 95 %
_SHARES = (0.05, 0.25, 0.5, 0.75, 0.95)


def columns(spec: JobSpec, answers: NDArray[np.float64]) -> list[ColumnProfile]:
    """Every declared column, from the flat answers of `Profile.run`."""
    method, table, problem = spec.method, spec.design, spec.problem
    assert isinstance(method, Profile)
    assert isinstance(table, Table)
    moments, counts, share = method.parted(problem, answers)
    plan, bounds = spec.release_plan.plan, method.bounds(problem)
    stds = {q.name: q.mechanism.std(q.noise_multiplier, *bounds[q.name]) for q in plan.queries}
    rows = _Rows(problem.n * share, problem.n * stds["means"] if problem.unit.is_person else 0.0)
    found, numbers, layout = [], iter(counts), problem.columns
    assert layout is not None
    for column, start, width in zip(table.features, layout.starts.tolist(), layout.widths, strict=True):
        own = moments.at(range(start, start + width))
        told = Moments(center=list(own.center), variances=list(own.variances), noise=list(own.noise))
        if isinstance(column, CategoryColumn):
            shares, std = rows.n * np.array(own.center), problem.n * stds["means"]
            found.append(
                ColumnProfile(column=column, counts=shares.tolist(), counts_noise_std=float(std), moments=told)
            )
        else:
            stds["mean"] = problem.n * stds["means"] / rows.n
            found.append(_number(column, told, next(numbers), stds, rows))
    return found


@dataclass(frozen=True, slots=True)
class _Rows:
    """How many rows there are, a person's counting 1/k each; the std of that number's noise, 0 where it is public."""

    n: float
    noise: float


def _number(
    column: NumberColumn, told: Moments, counts: NDArray[np.float64], stds: dict[str, float], rows: _Rows
) -> ColumnProfile:
    origin, unit = column.coding or ((column.lower + column.upper) / 2, (column.upper - column.lower) / 2)
    low, high = column.code_range
    edges = np.clip(origin + unit * np.linspace(low, high, len(counts) + 1), column.lower, column.upper)
    (m,), (v,), (noise,) = told.center, told.variances, told.noise
    # A mean of rows whose number is noisy is a quotient: its numerator's noise, and the denominator's.
    wide, wider = (_WIDE * math.hypot(std, at * rows.noise / rows.n) for std, at in ((stds["mean"], m), (noise, v)))
    means = np.clip([m, m - wide, m + wide], low, high)
    roots = np.sqrt(np.maximum([v, v - wider, v + wider], 0.0))
    return ColumnProfile(
        column=column,
        counts=counts.tolist(),
        counts_noise_std=stds["histograms"],
        edges=edges.tolist(),
        mean=_interval(origin + unit * means),
        std=_interval(unit * roots),
        quantiles=[_quantile(share, counts, edges, stds["histograms"], rows) for share in _SHARES],
        moments=told,
    )


def _quantile(
    share: float, counts: NDArray[np.float64], edges: NDArray[np.float64], std: float, rows: _Rows
) -> QuantileEstimate:
    """Where the number of records up to an end of a bin reaches share n.

    Of bins 1..k the best estimate is cum_k - (k/B) (cum_B - n), of variance std^2 k (B - k) / B, since n is public;
    where n is a number with noise, its distance from share n has (k/B - share)^2 of that variance, too. The quantile's
    bin, up to which share n is reached and before which it is not, is among those for which neither can be excluded:
    one with a chance of 2.5 % is left out on either side.
    """
    bins, n, wanted = len(counts), rows.n, share * rows.n
    k = np.arange(bins + 1)
    upto = np.concatenate(([0.0], np.cumsum(counts)))
    upto, band = (
        upto - k / bins * (upto[-1] - n),
        _WIDE * np.hypot(std * np.sqrt(k * (bins - k) / bins), (k / bins - share) * rows.noise),
    )
    upto[0], upto[-1] = 0.0, n
    first = int(np.flatnonzero(upto >= wanted)[0])
    last = int(np.flatnonzero(upto < wanted)[-1]) + 1
    lowest = int(np.flatnonzero(upto[1:] + band[1:] >= wanted)[0])
    highest = int(np.flatnonzero(upto[:-1] - band[:-1] <= wanted)[-1]) + 1
    return QuantileEstimate(share=share, at=_interval(edges[[math.ceil((first + last) / 2), lowest, highest]]))


def _interval(ends: NDArray[np.float64]) -> Interval:
    value, low, high = ends.tolist()
    return Interval(value=value, low=low, high=high)
