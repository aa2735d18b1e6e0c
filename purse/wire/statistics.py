"""A released statistic: noisy numbers about declared columns, with intervals."""

from typing import Annotated, Literal

from pydantic import Field

from purse.text import loss
from purse.wire.base import Identifier, Name, Wire
from purse.wire.columns import CategoryColumn, Column
from purse.wire.models import PrivacyStatement
from purse.wire.profiles import Interval, QuantileEstimate


class Axis(Wire):
    """A column of a table of counts."""

    column: Column
    """The declaration. The parts of a category column are its categories, then other."""
    edges: list[float] | None = None
    """Ends of a number's bins, one more than bins, in its unit."""


class CountsResult(Wire):
    """Noisy number of rows in each cell. A count may be negative, and counts need not add up to the rows."""

    name: Literal["counts"]
    """By its name."""
    axes: list[Axis]
    """The columns. In `counts`, the parts of the last column vary fastest."""
    counts: list[float]
    """Counts of the cells. They count rows, also if persons are protected."""
    noise_std: float
    """Of each of them."""
    within: float
    """Each count is within this distance of the exact one in 95 % of releases."""


class NumberMean(Wire):
    """The mean of a number column in its unit. Values are clamped to the declared range."""

    column: Annotated[Name, Field(description="Its name.")]
    mean: Interval
    """In the column's unit."""


class CategoryShares(Wire):
    """The share of each category."""

    column: CategoryColumn
    """The declaration."""
    shares: list[Interval]
    """Shares of the rows, from 0 to 1. The last is of other."""


class MeansResult(Wire):
    """Means of number columns and shares of categories."""

    name: Literal["means"]
    """By its name."""
    numbers: list[NumberMean]
    """Means of the number columns."""
    categories: list[CategoryShares]
    """Shares of the category columns."""


class ColumnQuantiles(Wire):
    """Quantiles of one column."""

    column: Annotated[Name, Field(description="Its name.")]
    quantiles: list[QuantileEstimate]
    """In the order of the shares asked for."""


class QuantilesResult(Wire):
    """Quantiles, to the resolution of the bins that rows were counted in."""

    name: Literal["quantiles"]
    """By its name."""
    columns: list[ColumnQuantiles]
    """In the order asked for."""


class CovarianceResult(Wire):
    """Covariance and correlation of numbers, in their units. Noise may leave it not positive semidefinite."""

    name: Literal["covariance"]
    """By its name."""
    columns: list[Name]
    """The rows and columns of both matrices."""
    means: list[Interval]
    """Means of the columns, in their units."""
    covariance: list[list[float]]
    """In the columns' units."""
    noise_std: list[list[float]]
    """Noise std of each entry of the covariance."""
    correlation: list[list[Interval]]
    """Each interval covers the exact value in at least 95 % of releases. If noise hides the value, the interval is [-1,
    1]."""


Result = Annotated[CountsResult | MeansResult | QuantilesResult | CovarianceResult, Field(discriminator="name")]


class ReleasedStatistic(Wire):
    """A released statistic. Its intervals cover noise alone, and not that rows are a sample."""

    kind: Literal["statistic"]
    """What it is."""
    dataset: Identifier
    result: Result
    """The numbers."""
    job: Annotated[Name, Field(description="The job that released it. Its receipt is at /v1/jobs/{id}/receipt.")]
    privacy: PrivacyStatement
    """The guarantee."""

    def __repr__(self) -> str:
        return f"<{self.result.name} of {self.job}: {loss(self.privacy.epsilon, self.privacy.delta)}; see .result>"
