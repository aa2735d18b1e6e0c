"""The published result of a statistic, computed from its answers, and the widths of its intervals beforehand.

The result is post-processing. The widths are functions of public facts.
"""

import math
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from app.results import table1
from app.results.intervals import (
    NO_PROFILE,
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
from purse.wire.columns import CategoryColumn, Column, NumberColumn
from purse.wire.jobs import IntervalWidth
from purse.wire.profiles import ColumnProfile, Interval
from purse.wire.statistics import (
    Axis,
    CategoryShares,
    ColumnQuantiles,
    CountsResult,
    CovarianceResult,
    MeansResult,
    NumberMean,
    QuantilesResult,
    Result,
)
from solvers import count_bounds
from solvers.packing import unpacked
from solvers.preparation.moments import columns_of
from solvers.statistics import AnyStatistic, Counts, Covariance, Means, Profile, Quantiles, Table1

_WIDE_FOR_THREE = 2.393980  # half-width in stds such that three intervals hold together in 95 of 100 cases
Answers = NDArray[np.float64]


def result(spec: JobSpec, answers: Answers) -> Result:
    """Return the result of a statistic from the flat answers of its run. Raise `ValueError` for a profile."""
    method, table = spec.method, spec.design
    assert isinstance(method, AnyStatistic)
    assert isinstance(table, StatisticDesign)
    rows = _rows(spec, answers)
    match method:
        case Counts():
            return _counts(spec, method, table, answers)
        case Means():
            return _means(spec, table, answers, rows)
        case Quantiles():
            return _quantiles(spec, method, table, answers, rows)
        case Covariance():
            return _covariance(spec, table, answers, rows)
        case Table1():
            return table1.result(spec, answers)
        case Profile():
            raise ValueError("a profile has its own document")


def widths(spec: JobSpec, profiles: Mapping[str, ColumnProfile] = NO_PROFILE) -> Widths:
    """Return the widths of the result's intervals from public facts. Raise `ValueError` for a profile.

    If records are persons, each is assumed to have as many rows as it may.

    Parameters
    ----------
    profiles : released profiles by the column's name
    """
    method, table = spec.method, spec.design
    assert isinstance(method, AnyStatistic)
    assert isinstance(table, StatisticDesign)
    rows = _rows(spec, np.ones(1))
    match method:
        case Counts():
            std = spec.problem.unit.slots * stds_of(method, spec.problem, spec.release_plan.plan)["cells"]
            return [IntervalWidth.of("count", None, 2 * WIDE * std, "exact")]
        case Means():
            return mean_widths(table.features, _mean_std(spec, rows), rows)
        case Quantiles():
            std = stds_of(method, spec.problem, spec.release_plan.plan)["histograms"]
            return quantile_widths(table.features, method.shares, method.bins, std, rows, profiles)
        case Covariance():
            return _covariance_widths(spec, table, rows)
        case Table1():
            return table1.widths(spec, profiles)
        case Profile():
            raise ValueError("a profile has widths of its own")


def _rows(spec: JobSpec, answers: Answers) -> Rows:
    """Return n if records are rows; for persons, the last answer of the means, which is the noisy number of rows."""
    problem, method = spec.problem, spec.method
    stds = stds_of(method, problem, spec.release_plan.plan)
    if not problem.unit.is_person or "means" not in stds:
        return Rows(problem.n, 0.0)
    return Rows(problem.n * float(answers[-1]), problem.n * stds["means"])


def _counts(spec: JobSpec, method: Counts, table: StatisticDesign, answers: Answers) -> CountsResult:
    slots = spec.problem.unit.slots  # a person's rows count 1/k each in the answer, and 1 each in the result
    std = slots * stds_of(method, spec.problem, spec.release_plan.plan)["cells"]
    return CountsResult(
        name="counts",
        axes=[_axis(column, method.bins) for column in table.features],
        counts=(slots * answers).tolist(),
        noise_std=std,
        within=WIDE * std,
    )


def _axis(column: Column, bins: int) -> Axis:
    return Axis(column=column, edges=None if isinstance(column, CategoryColumn) else edges_of(column, bins).tolist())


def _mean_std(spec: JobSpec, rows: Rows) -> float:
    """Return the std of a mean's noise, where the sum's noise is divided by the number of rows."""
    assert isinstance(spec.method, AnyStatistic)
    return spec.problem.n * stds_of(spec.method, spec.problem, spec.release_plan.plan)["means"] / rows.n


def _means(spec: JobSpec, table: StatisticDesign, answers: Answers, rows: Rows) -> MeansResult:
    std = _mean_std(spec, rows)
    numbers, categories, layout = [], [], columns_of(spec.problem)
    for column, start, width in zip(table.features, layout.starts.tolist(), layout.widths, strict=True):
        around = [rows.around(float(m), std) for m in answers[start : start + width]]
        if isinstance(column, CategoryColumn):
            shares = [interval(np.clip(ends, 0.0, 1.0)) for ends in around]
            categories.append(CategoryShares(column=column, shares=shares))
        else:
            numbers.append(NumberMean(column=column.name, mean=mean_of(column, around[0])))
    return MeansResult(name="means", numbers=numbers, categories=categories)


def _quantiles(
    spec: JobSpec, method: Quantiles, table: StatisticDesign, answers: Answers, rows: Rows
) -> QuantilesResult:
    std = stds_of(method, spec.problem, spec.release_plan.plan)["histograms"]
    histograms = answers[: method.bins * len(table.features)].reshape(-1, method.bins)
    columns = []
    for column, counts in zip(table.features, histograms, strict=True):
        assert isinstance(column, NumberColumn)
        edges = edges_of(column, method.bins)
        quantiles = [quantile(share, counts, edges, std, rows) for share in method.shares]
        columns.append(ColumnQuantiles(column=column.name, quantiles=quantiles))
    return QuantilesResult(name="quantiles", columns=columns)


def _covariance(spec: JobSpec, table: StatisticDesign, answers: Answers, rows: Rows) -> CovarianceResult:
    """Return the mean of the products, corrected for the noise of the center, whose variance is on the diagonal."""
    p = len(table.features)
    center, of_center = answers[:p], _mean_std(spec, rows)
    spread = unpacked(answers[p : p + p * (p + 1) // 2], p)
    wide = _covariance_stds(spec, center, spread, rows)
    spread -= of_center**2 * np.eye(p)
    numbers = [column for column in table.features if isinstance(column, NumberColumn)]
    units = np.array([column.middle_and_half[1] for column in numbers])
    means = [mean_of(column, rows.around(float(m), of_center)) for column, m in zip(numbers, center, strict=True)]
    return CovarianceResult(
        name="covariance",
        columns=[column.name for column in numbers],
        means=means,
        covariance=(spread * np.outer(units, units)).tolist(),
        noise_std=(wide * np.outer(units, units)).tolist(),
        correlation=correlations(spread, _WIDE_FOR_THREE * wide),
    )


def _covariance_stds(spec: JobSpec, center: Answers, spread: Answers, rows: Rows) -> Answers:
    """Return the std of each covariance of codes: noise of the products, of the center and of the number of rows."""
    p = len(center)
    problem = spec.problem
    query = spec.release_plan.plan.query("products")
    moved = count_bounds.products(columns_of(problem), center, problem.relation) / rows.n
    std = query.mechanism.std(query.noise_multiplier, moved, p * (p + 1) // 2)
    wide = np.full((p, p), std / math.sqrt(2))
    np.fill_diagonal(wide, std)
    wide = np.hypot(wide, np.abs(spread) * rows.noise / rows.n)
    return np.asarray(np.hypot(wide, math.sqrt(2) * _mean_std(spec, rows) ** 2))


def _covariance_widths(spec: JobSpec, table: StatisticDesign, rows: Rows) -> Widths:
    """Return the widths for means and variances, if means lie in the middle of their ranges.

    The width for a covariance of two columns is the geometric mean of theirs, divided by sqrt(2). That for a
    correlation depends on the variances, which no declaration states.
    """
    layout = columns_of(spec.problem)
    spread = np.diag((layout.high - layout.low) ** 2 / 12)  # of values that are spread evenly
    wide = _covariance_stds(spec, (layout.low + layout.high) / 2, spread, rows)
    widths = mean_widths(table.features, _mean_std(spec, rows), rows)
    for column, std in zip(table.features, np.diagonal(wide).tolist(), strict=True):
        assert isinstance(column, NumberColumn)
        unit = column.middle_and_half[1] ** 2
        widths.append(IntervalWidth.of("variance", column.name, 2 * WIDE * std * unit, "typical"))
    return widths


def correlations(spread: Answers, wide: Answers) -> list[list[Interval]]:
    """Return S_ij / sqrt(S_ii S_jj) for all i and j, and its range if all three numbers lie in their intervals.

    Each matrix is computed once, in O(p^2), because a covariance may have hundreds of columns.
    """
    low, high = spread - wide, spread + wide
    low_roots, roots, high_roots = (_roots(matrix) for matrix in (low, spread, high))
    values = _ratios(spread, roots)
    values[roots <= 0] = 0.0
    lows = _ratios(low, np.where(low > 0, high_roots, low_roots))
    highs = _ratios(high, np.where(high > 0, low_roots, high_roots))
    for matrix in (values, lows, highs):
        np.fill_diagonal(matrix, 1.0)
    rows = zip(values.tolist(), lows.tolist(), highs.tolist(), strict=True)
    return [[Interval(value=v, low=a, high=b) for v, a, b in zip(*row, strict=True)] for row in rows]


def _roots(matrix: Answers) -> Answers:
    """Return sqrt(M_ii M_jj), of M_ii from 0 on."""
    roots = np.sqrt(np.maximum(np.diagonal(matrix), 0.0))
    return np.outer(roots, roots)


def _ratios(covariances: Answers, roots: Answers) -> Answers:
    """Return the quotients in [-1, 1]: at an end of it where the root is 0 and the covariance is not."""
    quotients = np.divide(covariances, roots, out=np.sign(covariances), where=roots > 0)
    return np.clip(quotients, -1.0, 1.0)
