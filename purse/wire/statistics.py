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

    column: Annotated[
        Column, Field(description="The declaration. The parts of a category column are its categories, then other.")
    ]
    edges: Annotated[
        list[float] | None, Field(description="Ends of a number's bins, one more than bins, in its unit.")
    ] = None


class CountsResult(Wire):
    """Noisy number of rows in each cell. A count may be negative, and counts need not add up to the rows."""

    name: Annotated[Literal["counts"], Field(description="By its name.")]
    axes: Annotated[
        list[Axis], Field(description="The columns. In `counts`, the parts of the last column vary fastest.")
    ]
    counts: Annotated[
        list[float], Field(description="Counts of the cells. They count rows, also if persons are protected.")
    ]
    noise_std: Annotated[float, Field(description="Of each of them.")]
    within: Annotated[
        float, Field(description="Each count is within this distance of the exact one in 95 % of releases.")
    ]


class NumberMean(Wire):
    """The mean of a number column in its unit. Values are clamped to the declared range."""

    column: Annotated[Name, Field(description="Its name.")]
    mean: Annotated[Interval, Field(description="In the column's unit.")]


class CategoryShares(Wire):
    """The share of each category."""

    column: Annotated[CategoryColumn, Field(description="The declaration.")]
    shares: Annotated[list[Interval], Field(description="Shares of the rows, from 0 to 1. The last is of other.")]


class MeansResult(Wire):
    """Means of number columns and shares of categories."""

    name: Annotated[Literal["means"], Field(description="By its name.")]
    numbers: Annotated[list[NumberMean], Field(description="Means of the number columns.")]
    categories: Annotated[list[CategoryShares], Field(description="Shares of the category columns.")]


class ColumnQuantiles(Wire):
    """Quantiles of one column."""

    column: Annotated[Name, Field(description="Its name.")]
    quantiles: Annotated[list[QuantileEstimate], Field(description="In the order of the shares asked for.")]


class QuantilesResult(Wire):
    """Quantiles, to the resolution of the bins that rows were counted in."""

    name: Annotated[Literal["quantiles"], Field(description="By its name.")]
    columns: Annotated[list[ColumnQuantiles], Field(description="In the order asked for.")]


class CovarianceResult(Wire):
    """Covariance and correlation of numbers, in their units. Noise may leave it not positive semidefinite."""

    name: Annotated[Literal["covariance"], Field(description="By its name.")]
    columns: Annotated[list[Name], Field(description="The rows and columns of both matrices.")]
    means: Annotated[list[Interval], Field(description="Means of the columns, in their units.")]
    covariance: Annotated[list[list[float]], Field(description="In the columns' units.")]
    noise_std: Annotated[list[list[float]], Field(description="Noise std of each entry of the covariance.")]
    correlation: Annotated[
        list[list[Interval]],
        Field(
            description="Each interval covers the exact value in at least 95 % of releases. If noise hides the value, "
            "the interval is [-1, 1]."
        ),
    ]


Result = Annotated[CountsResult | MeansResult | QuantilesResult | CovarianceResult, Field(discriminator="name")]


class ReleasedStatistic(Wire):
    """A released statistic. Its intervals cover noise alone, and not that rows are a sample."""

    kind: Annotated[Literal["statistic"], Field(description="What it is.")]
    dataset: Identifier
    result: Annotated[Result, Field(description="The numbers.")]
    job: Annotated[Name, Field(description="The job that released it. Its receipt is at /v1/jobs/{id}/receipt.")]
    privacy: Annotated[PrivacyStatement, Field(description="The guarantee.")]

    def __repr__(self) -> str:
        return f"<{self.result.name} of {self.job}: {loss(self.privacy.epsilon, self.privacy.delta)}; see .result>"
