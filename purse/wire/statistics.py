"""A released statistic: noisy numbers about declared columns, with intervals."""

from collections.abc import Iterator, Mapping
from itertools import product
from types import MappingProxyType
from typing import Annotated, ClassVar, Literal, get_args

from pydantic import Field

from purse.tables import (
    INTERVAL_STDS,
    NO_DATES,
    Cell,
    Dates,
    Table,
    Tabular,
    as_estimate,
    estimate_of,
    spans,
    written,
)
from purse.text import loss
from purse.wire.base import Identifier, Name, Wire
from purse.wire.columns import CategoryColumn, Column
from purse.wire.models import PrivacyStatement
from purse.wire.profiles import Interval, QuantileEstimate
from purse.wire.results import StatisticResult
from purse.wire.table1 import Table1Result


class Axis(Wire):
    """A column of a table of counts."""

    column: Column
    """The declaration. The parts of a category column are its categories, then other."""
    edges: list[float] | None = None
    """Ends of a number's bins, one more than bins, in its unit."""

    @property
    def labels(self) -> list[Cell]:
        """The names of its parts."""
        column = self.column
        return [*column.levels] if isinstance(column, CategoryColumn) else spans(self.edges or (), column.date)


class CountsResult(StatisticResult):
    """Noisy number of rows in each cell. A count may be negative, and counts need not add up to the rows."""

    heading: ClassVar = "Counts of"
    releases: ClassVar = "rows in each cell of a histogram or a cross table"
    is_of_numbers: ClassVar = False

    name: Literal["counts"]
    """Kind of the statistic."""
    axes: list[Axis]
    """The columns. In `counts`, the parts of the last column vary fastest."""
    counts: list[float]
    """Counts of the cells. They count rows, also if persons are protected."""
    noise_std: float
    """Standard deviation of the noise of each count."""
    within: float
    """Each count is within this distance of the exact one in 95 % of releases."""

    def lay_out(self, dates: Dates = NO_DATES) -> Iterator[Table]:  # noqa: ARG002
        """Yield a cross table of two columns, or a row for each cell."""
        labels = [axis.labels for axis in self.axes]
        names = [axis.column.name for axis in self.axes]
        caption = f"{self.heading} {' and '.join(names)}"
        within = max(round(self.within), 1)
        note = f"Each count is within {within:,} of the exact one in 95 of 100 releases."
        counts = [round(count) for count in self.counts]
        if len(labels) == 2:
            first, second = labels
            cells = [counts[start : start + len(second)] for start in range(0, len(counts), len(second))]
            yield Table.grid(caption, first, list(map(written, second)), cells, note, self.within)
        elif len(labels) == 1 and self.axes[0].edges is not None:
            yield Table((*names, "rows"), list(zip(labels[0], counts, strict=True)), caption, note, "histogram")
        else:
            rows = [(*cell, count) for cell, count in zip(product(*labels), counts, strict=True)]
            yield Table((*names, "rows"), rows, caption, note, "bars", self.within)


class NumberMean(Wire):
    """The mean of a number column in its unit. Values are clamped to the declared range."""

    column: Annotated[Name, Field(description="Name of the column.")]
    mean: Interval
    """The mean, in the column's unit."""


class CategoryShares(Wire):
    """The share of each category."""

    column: CategoryColumn
    """The declaration."""
    shares: list[Interval]
    """Shares of the rows, from 0 to 1. The last one is the share of other."""


class MeansResult(StatisticResult):
    """Means of number columns and shares of categories."""

    heading: ClassVar = "Means of"
    releases: ClassVar = "means of numbers and shares of categories"
    is_of_numbers: ClassVar = False

    name: Literal["means"]
    """Kind of the statistic."""
    numbers: list[NumberMean]
    """Means of the number columns."""
    categories: list[CategoryShares]
    """Shares of the category columns."""

    def lay_out(self, dates: Dates = NO_DATES) -> Iterator[Table]:
        """Yield the means of all numbers, and the shares of each category column."""
        if self.numbers:
            numbers = [(each.column, estimate_of(each.mean, dates.get(each.column))) for each in self.numbers]
            yield Table(("column", "mean"), numbers, "Means")
        for each in self.categories:
            shares = zip(each.column.levels, map(estimate_of, each.shares), strict=True)
            yield Table(("category", "share"), list(shares), each.column.name, look="bars")


class ColumnQuantiles(Wire):
    """Quantiles of one column."""

    column: Annotated[Name, Field(description="Name of the column.")]
    quantiles: list[QuantileEstimate]
    """The quantiles, in the order of the requested shares."""


class QuantilesResult(StatisticResult):
    """Quantiles, to the resolution of the bins that rows were counted in."""

    heading: ClassVar = "Quantiles of"
    releases: ClassVar = "medians and other quantiles of numbers"
    is_of_numbers: ClassVar = True

    name: Literal["quantiles"]
    """Kind of the statistic."""
    columns: list[ColumnQuantiles]
    """The quantiles of each column, in the requested order."""

    def lay_out(self, dates: Dates = NO_DATES) -> Iterator[Table]:
        """Yield the quantiles of all columns."""
        rows = [
            (each.column, point.share, estimate_of(point.at, dates.get(each.column)))
            for each in self.columns
            for point in each.quantiles
        ]
        yield Table(("column", "share", "at"), rows, "Quantiles")


class CovarianceResult(StatisticResult):
    """Covariance and correlation of numbers, in their units. Noise may leave it not positive semidefinite."""

    heading: ClassVar = "Covariances of"
    releases: ClassVar = "covariances and correlations of numbers"
    is_of_numbers: ClassVar = True

    name: Literal["covariance"]
    """Kind of the statistic."""
    columns: list[Name]
    """The rows and columns of both matrices."""
    means: list[Interval]
    """Means of the columns, in their units."""
    covariance: list[list[float]]
    """Covariances, in the columns' units."""
    noise_std: list[list[float]]
    """Noise std of each entry of the covariance."""
    correlation: list[list[Interval]]
    """Correlations. Each interval covers the exact value in at least 95 % of releases. If noise hides the value, the
    interval is [-1, 1]."""

    def lay_out(self, dates: Dates = NO_DATES) -> Iterator[Table]:  # noqa: ARG002
        """Yield the correlations, and the covariances."""
        correlations = [[estimate_of(cell) for cell in row] for row in self.correlation]
        yield Table.grid("Correlation", self.columns, self.columns, correlations)
        pairs = (zip(*rows, strict=True) for rows in zip(self.covariance, self.noise_std, strict=True))
        covariances = [[as_estimate(value, INTERVAL_STDS * std) for value, std in row] for row in pairs]
        yield Table.grid("Covariance", self.columns, self.columns, covariances)


Result = Annotated[
    CountsResult | MeansResult | QuantilesResult | CovarianceResult | Table1Result, Field(discriminator="name")
]

RESULTS: Mapping[str, type[StatisticResult]] = MappingProxyType(
    {get_args(kind.model_fields["name"].annotation)[0]: kind for kind in get_args(get_args(Result)[0])}
)
"""Classes of results by the name of the statistic."""


class ReleasedStatistic(Tabular, Wire):
    """A released statistic. Unless stated otherwise, intervals cover noise alone, and not the sampling of the rows."""

    kind: Literal["statistic"]
    """Kind of the release."""
    dataset: Identifier
    result: Result
    """The numbers."""
    job: Annotated[Name, Field(description="The job that released it. Its receipt is at /v1/jobs/{id}/receipt.")]
    privacy: PrivacyStatement
    """The guarantee."""

    def __repr__(self) -> str:
        return f"<{self.result.name} of {self.job}: {loss(self.privacy.epsilon, self.privacy.delta)}; see .result>"

    def lay_out(self, dates: Dates = NO_DATES) -> Iterator[Table]:
        """Return the tables of the result.

        Parameters
        ----------
        dates : unit (days or seconds) of the columns that hold dates, by name
        """
        return self.result.lay_out(dates)
