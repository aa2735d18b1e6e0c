"""Descriptions of groups from noisy counts and moments, and the widths of their intervals before a run.

The result is post-processing. The widths are functions of public facts. Formulas: docs/proofs/statistics.md.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product

import numpy as np
from numpy.typing import NDArray

from app.results.intervals import (
    NO_PROFILE,
    WIDE,
    Rows,
    Widths,
    edges_of,
    interval,
    quantile,
    quantile_widths,
    stds_of,
)
from app.sources.design import StatisticDesign
from app.sources.spec import JobSpec
from purse.wire.columns import CategoryColumn, Column, NumberColumn
from purse.wire.evaluations import Measured
from purse.wire.jobs import IntervalWidth
from purse.wire.profiles import ColumnProfile, Interval
from purse.wire.table1 import Comparison, Group, GroupCategories, GroupNumber, Table1Result
from solvers.statistics import Table1

SHARES = (0.25, 0.5, 0.75)
_LEAST_ROWS = 10.0  # smallest released count of a resolved group
_LEAST_STDS = 5.0  # the same in standard deviations of the count's noise
MOST_COMPARED_GROUPS = 12  # of which every two are compared
MOST_COMPARISONS = 2**14  # differences in all
Answers = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Precision:
    """The noise of a Table 1, in units of rows.

    Parameters
    ----------
    count, moment, part : noise std of a group's count, of a moment, and of a part's count
    cap : largest number of rows of a person; 1 if records are rows
    """

    count: float
    moment: float
    part: float
    cap: int

    @staticmethod
    def of(spec: JobSpec) -> "Precision":
        """Return the noise of a job's plan."""
        assert isinstance(spec.method, Table1)
        cap, stds = spec.problem.unit.slots, stds_of(spec.method, spec.problem, spec.release_plan.plan)
        return Precision(cap * stds["groups"], cap * stds.get("moments", 0.0), cap * stds["parts"], cap)

    @property
    def least_rows(self) -> float:
        """The smallest released count at which a group is resolved."""
        return max(_LEAST_ROWS, _LEAST_STDS * self.count)

    def mean(self, total: float, squares: float, rows: float, std: float) -> "SampledEstimate":
        """Return the estimate of a mean over a group.

        Rows of one person may be alike. So the sampling variance is that of independent rows times the cap, which is
        its largest possible value.

        Parameters
        ----------
        total, squares : noisy sums of the values and of their squares, with values in [-1, 1]
        std : of the noise of the total
        """
        value = float(np.clip(total / rows, -1.0, 1.0))
        variance = float(np.clip(squares / rows - value**2, 0.0, 1.0 - value**2))
        noise = math.hypot(std, value * self.count) / rows
        return SampledEstimate(value, noise, math.sqrt(self.cap * variance / rows))


@dataclass(frozen=True, slots=True)
class SampledEstimate:
    """An estimate with the stds of its noise and of its sampling error, which are independent."""

    value: float
    noise: float
    sampling: float

    def __sub__(self, other: "SampledEstimate") -> "SampledEstimate":
        noise = math.hypot(self.noise, other.noise)
        sampling = math.hypot(self.sampling, other.sampling)
        return SampledEstimate(self.value - other.value, noise, sampling)

    def measured(self, low: float, high: float, origin: float = 0.0, unit: float = 1.0) -> Measured:
        """Return origin + unit * value with its intervals, clipped to [low, high]."""
        both, noise = WIDE * math.hypot(self.noise, self.sampling), WIDE * self.noise
        offsets = np.array([0.0, -both, both, -noise, noise])
        ends = np.clip(origin + unit * (self.value + offsets), low, high).tolist()
        return Measured(**dict(zip(("value", "low", "high", "noise_low", "noise_high"), ends, strict=True)))


@dataclass(frozen=True, slots=True)
class GroupAnswers:
    """The released answers about one group, in units of rows."""

    count: float
    sums: Answers
    squares: Answers
    parts: list[Answers]


def result(spec: JobSpec, answers: Answers) -> Table1Result:
    """Return the result from the flat answers of a run."""
    method, table, precision = spec.method, spec.design, Precision.of(spec)
    assert isinstance(method, Table1)
    assert isinstance(table, StatisticDesign)
    by, described = _columns(method, table)
    counts, sums, squares, parts = method.unpack(spec.problem, precision.cap * answers)
    released = [
        GroupAnswers(float(count), sums[:, g], squares[:, g], [part[g] for part in parts])
        for g, count in enumerate(counts)
    ]
    levels = product(*([*column.categories, None] for column in by))
    return Table1Result(
        name="table1",
        by=by,
        where=list(table.where),
        categories=[column for column in described if isinstance(column, CategoryColumn)],
        noise_std=precision.count,
        within=WIDE * precision.count,
        least_rows=precision.least_rows,
        groups=[
            _group(list(own), group, released[0], described, precision)
            for own, group in zip(levels, released, strict=True)
        ],
        comparisons=list(_comparisons(released, described, precision)) if _are_few(released, described) else [],
    )


def _are_few(released: Sequence[GroupAnswers], described: Sequence[Column]) -> bool:
    """Return whether every two groups are compared. This depends on the declaration alone."""
    values = sum(column.code_count for column in described)
    return len(released) <= MOST_COMPARED_GROUPS and math.comb(len(released), 2) * values <= MOST_COMPARISONS


def _comparisons(
    released: Sequence[GroupAnswers], described: Sequence[Column], precision: Precision
) -> Iterator[Comparison]:
    """Yield the differences of every two resolved groups."""
    numbers = [position for position, column in enumerate(described) if isinstance(column, NumberColumn)]
    for (a, first), (b, second) in combinations(enumerate(released), 2):
        if min(first.count, second.count) < precision.least_rows:
            continue
        for position, column in enumerate(described):
            name, groups = column.name, (a, b)
            if isinstance(column, CategoryColumn):
                pairs = zip(*(_shares(each, position, precision) or () for each in (first, second)), strict=True)
                for category, (first_share, second_share) in zip(column.levels, pairs, strict=True):
                    difference = (second_share - first_share).measured(-1.0, 1.0)
                    yield Comparison(groups=groups, column=name, category=category, difference=difference)
                continue
            means = [_mean(each, numbers.index(position), precision) for each in (first, second)]
            (low, high), (_, half) = column.ends, _middle_and_half(column)
            if means[0] is not None and means[1] is not None:
                difference = (means[1] - means[0]).measured(low - high, high - low, 0.0, half)
                yield Comparison(groups=groups, column=name, category=None, difference=difference)


def _columns(method: Table1, table: StatisticDesign) -> tuple[list[CategoryColumn], list[Column]]:
    """Return the columns that group, and those that are described."""
    by, described = method.groups.by, method.groups.described
    assert described is not None
    grouping = [column for column in table.features[:by] if isinstance(column, CategoryColumn)]
    return grouping, list(table.features[by : by + described])


def _group(
    levels: list[str | None], group: GroupAnswers, first: GroupAnswers, described: list[Column], precision: Precision
) -> Group:
    is_resolved = group.count >= precision.least_rows
    reason = f"the released count is below {precision.least_rows:.3g}"
    numbers: list[GroupNumber] = []
    categories: list[GroupCategories] = []
    for position, column in enumerate(described):
        if isinstance(column, CategoryColumn):
            categories.append(_categories(column, position, group, first, precision))
        else:
            numbers.append(_number(column, (len(numbers), position), group, first, precision))
    return Group(
        levels=levels,
        count=group.count,
        resolved=is_resolved,
        reason=None if is_resolved else reason,
        numbers=numbers,
        categories=categories,
    )


def _categories(
    column: CategoryColumn, position: int, group: GroupAnswers, first: GroupAnswers, precision: Precision
) -> GroupCategories:
    shares, references = (_shares(each, position, precision) for each in (group, first))
    differences = None
    if shares is not None and references is not None and group is not first:
        pairs = zip(shares, references, strict=True)
        differences = [(own - reference).measured(-1.0, 1.0) for own, reference in pairs]
    return GroupCategories(
        column=column.name,
        counts=group.parts[position].tolist(),
        noise_std=precision.part,
        shares=None if shares is None else [share.measured(0.0, 1.0) for share in shares],
        differences=differences,
    )


def _shares(group: GroupAnswers, position: int, precision: Precision) -> list[SampledEstimate] | None:
    """Return the share of each category, or None if the group is not resolved."""
    if group.count < precision.least_rows:
        return None
    counts = np.maximum(group.parts[position], 0.0).tolist()
    return [precision.mean(count, count, group.count, precision.part) for count in counts]


def _number(
    column: NumberColumn, at: tuple[int, int], group: GroupAnswers, first: GroupAnswers, precision: Precision
) -> GroupNumber:
    """Return the description of a number.

    Parameters
    ----------
    at : index of the column among the described numbers, and among the described columns
    """
    number, position = at
    (low, high), (middle, half) = column.ends, _middle_and_half(column)
    own, reference = (_mean(each, number, precision) for each in (group, first))
    total = middle * group.count + half * float(group.sums[number])
    around_total = WIDE * math.hypot(middle * precision.count, half * precision.moment)
    std, quantiles, difference = None, None, None
    if own is not None:
        std, counts = _std(group, number, precision, half), group.parts[position]
        rows = Rows(group.count, precision.count)
        edges = edges_of(column, len(counts))
        quantiles = [quantile(share, counts, edges, precision.part, rows) for share in SHARES]
    if own is not None and reference is not None and group is not first:
        difference = (own - reference).measured(low - high, high - low, 0.0, half)
    return GroupNumber(
        column=column.name,
        mean=None if own is None else own.measured(low, high, middle, half),
        std=std,
        quantiles=quantiles,
        difference=difference,
        sum=interval(total + np.array([0.0, -around_total, around_total])),
    )


def _middle_and_half(column: NumberColumn) -> tuple[float, float]:
    """Return the middle and half the length of the range of a column's codes, in its unit."""
    (origin, unit), (low, high) = column.middle_and_half, column.code_range
    return origin + unit * (low + high) / 2, unit * (high - low) / 2


def _mean(group: GroupAnswers, number: int, precision: Precision) -> SampledEstimate | None:
    """Return the mean of a number in [-1, 1], or None if the group is not resolved."""
    if group.count < precision.least_rows:
        return None
    return precision.mean(float(group.sums[number]), float(group.squares[number]), group.count, precision.moment)


def _std(group: GroupAnswers, number: int, precision: Precision, half: float) -> Interval:
    """Return the standard deviation, the root of q - m^2, with the noise of both and of the count."""
    m, q = group.sums[number] / group.count, group.squares[number] / group.count
    noise = math.hypot(precision.moment * math.sqrt(1 + 4 * m**2), (2 * m**2 - q) * precision.count) / group.count
    return interval(half * np.sqrt(np.clip(q - m**2 + WIDE * noise * np.array([0.0, -1.0, 1.0]), 0.0, 1.0)))


def widths(spec: JobSpec, profiles: Mapping[str, ColumnProfile] = NO_PROFILE) -> Widths:
    """Return the widths of the intervals.

    Those of counts are exact. Means and shares have the largest width of any resolved group, and the width for a group
    with an equal part of the rows. By a released profile, each group of one column has its own, without conditions.
    """
    method, table, precision, problem = spec.method, spec.design, Precision.of(spec), spec.problem
    assert isinstance(method, Table1)
    assert isinstance(table, StatisticDesign)
    by, described = _columns(method, table)
    interval_widths = [IntervalWidth.of("count", None, 2 * WIDE * precision.count, "exact")]
    equal = problem.slots / method.groups.count(table.columns)
    for column in described:
        answer = _answer(column)
        # mean and variance of the groups with the widest intervals
        extremes = [(1.0, 0.25)] if isinstance(column, CategoryColumn) else [(1.0, 0.0), (0.0, 1.0)]
        worst = max(_width(column, precision, precision.least_rows, *extreme) for extreme in extremes)
        interval_widths.append(IntervalWidth.of(answer, column.name, worst, "worst_case"))
        typical = _width(column, precision, equal, *_spread(column, None))
        interval_widths.append(IntervalWidth.of(f"{answer} in groups of equal size", column.name, typical, "typical"))
    if equal >= precision.least_rows:
        rows = Rows(equal, precision.count)
        interval_widths += quantile_widths(described, SHARES, method.bins, precision.part, rows)
    profile = profiles.get(by[0].name)
    if len(by) > 1 or table.where or profile is None or profile.column != by[0]:
        return interval_widths
    for level, count in zip(by[0].levels, profile.counts, strict=True):
        for column in described:
            width = _width(column, precision, count, *_spread(column, profiles.get(column.name)))
            interval_widths.append(IntervalWidth.of(f"{_answer(column)} in {level}", column.name, width, "profile"))
    return interval_widths


def _answer(column: Column) -> str:
    return "share" if isinstance(column, CategoryColumn) else "mean"


def _spread(column: Column, profile: ColumnProfile | None) -> tuple[float, float]:
    """Return mean and variance of a number in [-1, 1], by its profile or spread evenly, or those of a share of 1/2."""
    if isinstance(column, CategoryColumn):
        return 0.5, 0.25
    middle, half = _middle_and_half(column)
    if profile is None or profile.column != column or profile.mean is None or profile.std is None or half == 0:
        return 0.0, 1 / 3
    return (profile.mean.value - middle) / half, (profile.std.value / half) ** 2


def _width(column: Column, precision: Precision, rows: float, mean: float, variance: float) -> float:
    """Return the width for a mean or a share with this mean and variance, in a group with so many rows."""
    if isinstance(column, CategoryColumn):
        low, high, half, std = 0.0, 1.0, 1.0, precision.part
    else:
        low, high = column.ends
        half, std = (high - low) / 2, precision.moment
    if rows < precision.least_rows:
        return high - low
    error = math.sqrt(std**2 + (mean * precision.count) ** 2 + precision.cap * variance * rows)
    return min(high - low, 2 * WIDE * half * error / rows)
