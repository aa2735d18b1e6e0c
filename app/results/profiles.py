"""The published columns of a profile, computed from its answers, and the widths of its intervals beforehand.

The columns are post-processing. The widths are functions of public facts.
"""

import numpy as np
from numpy.typing import NDArray

from app.results.intervals import (
    WIDE,
    Rows,
    Widths,
    edges_of,
    interval,
    mean_of,
    mean_widths,
    quantile,
    quantile_widths,
    stds_of,
)
from app.sources.design import StatisticDesign
from app.sources.spec import JobSpec
from purse.wire.columns import CategoryColumn, NumberColumn
from purse.wire.jobs import IntervalWidth
from purse.wire.models import ReleasedMoments
from purse.wire.profiles import ColumnProfile, Interval
from solvers.preparation.moments import columns_of, noise_stds, radius_of
from solvers.statistics import Profile

_SHARES = (0.05, 0.25, 0.5, 0.75, 0.95)


def columns(spec: JobSpec, answers: NDArray[np.float64]) -> list[ColumnProfile]:
    """Return the profile of every declared column, from the flat answers of `Profile.run`."""
    method, table, problem = spec.method, spec.design, spec.problem
    assert isinstance(method, Profile)
    assert isinstance(table, StatisticDesign)
    moments, counts, share = method.unpack(problem, answers)
    stds = stds_of(method, problem, spec.release_plan.plan)
    rows = Rows(problem.n * share, problem.n * stds["means"] if problem.unit.is_person else 0.0)
    profiles, numbers, layout = [], iter(counts), problem.columns
    slots = problem.unit.slots  # a person's rows count 1/k each in the answers, and 1 each in the profile
    assert layout is not None
    for column, start, width in zip(table.features, layout.starts.tolist(), layout.widths, strict=True):
        own = moments.at(range(start, start + width))
        released = ReleasedMoments(center=list(own.center), variances=list(own.variances), noise=list(own.noise))
        if isinstance(column, CategoryColumn):
            shares, std = slots * rows.n * np.array(own.center), slots * problem.n * stds["means"]
            profiles.append(
                ColumnProfile(column=column, counts=shares.tolist(), counts_noise_std=float(std), moments=released)
            )
        else:
            stds["mean"] = problem.n * stds["means"] / rows.n
            profiles.append(_number(column, released, next(numbers), stds, rows, slots))
    return profiles


def widths(spec: JobSpec) -> Widths:
    """Return widths for columns whose values are spread evenly over their ranges, from public facts.

    If records are persons, each is assumed to have as many rows as it may.
    """
    method, table, problem = spec.method, spec.design, spec.problem
    assert isinstance(method, Profile)
    assert isinstance(table, StatisticDesign)
    layout, slots, plan = columns_of(problem), problem.unit.slots, spec.release_plan.plan
    stds = stds_of(method, problem, plan)
    rows = Rows(problem.n, problem.n * stds["means"] if problem.unit.is_person else 0.0)
    counts = {True: slots * problem.n * stds["means"], False: slots * stds.get("histograms", 0.0)}
    interval_widths = [
        IntervalWidth.of("count", column.name, 2 * WIDE * counts[isinstance(column, CategoryColumn)], "exact")
        for column in table.features
    ]
    numbers = [column for column in table.features if isinstance(column, NumberColumn)]
    if not numbers:
        return interval_widths
    spread = (layout.high - layout.low) ** 2 / 12
    center = np.zeros(problem.d - 1)
    center[layout.is_number] = (layout.low + layout.high) / 2
    noise = noise_stds(problem, center, radius_of(float(spread.sum())), lambda name: plan.query(name).noise_multiplier)[
        layout.is_number
    ]
    for column, v, std in zip(numbers, spread.tolist(), noise.tolist(), strict=True):
        ends = _std_of(column, v, std, rows)
        interval_widths.append(IntervalWidth.of("std", column.name, ends.high - ends.low, "typical"))
    interval_widths += mean_widths(numbers, stds["means"], rows)
    return interval_widths + quantile_widths(numbers, _SHARES, method.bins, stds["histograms"], rows)


def _std_of(column: NumberColumn, variance: float, noise: float, rows: Rows) -> Interval:
    """Return the standard deviation in the column's unit, from the variance of codes and the std of its noise."""
    return interval(column.middle_and_half[1] * np.sqrt(np.maximum(rows.around(variance, noise), 0.0)))


def _number(
    column: NumberColumn,
    released: ReleasedMoments,
    counts: NDArray[np.float64],
    stds: dict[str, float],
    rows: Rows,
    slots: int,
) -> ColumnProfile:
    edges = edges_of(column, len(counts))
    (m,), (v,), (noise,) = released.center, released.variances, released.noise
    return ColumnProfile(
        column=column,
        counts=(slots * counts).tolist(),
        counts_noise_std=slots * stds["histograms"],
        edges=edges.tolist(),
        mean=mean_of(column, rows.around(m, stds["mean"])),
        std=_std_of(column, v, noise, rows),
        quantiles=[quantile(share, counts, edges, stds["histograms"], rows) for share in _SHARES],
        moments=released,
    )
