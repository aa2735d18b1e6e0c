"""A released statistic: noisy numbers about declared columns, and how surely."""

from typing import Annotated, Literal

from pydantic import Field

from purse.wire.base import Identifier, Name, Wire
from purse.wire.columns import CategoryColumn, Column
from purse.wire.models import PrivacyStatement
from purse.wire.profiles import Interval, QuantileEstimate


class Axis(Wire):
    """One column of a table of counts."""

    column: Annotated[Column, Field(description="The declaration: a category's parts are its categories, then other.")]
    edges: Annotated[
        list[float] | None, Field(description="Ends of a number's bins, one more than bins, in its unit.")
    ] = None


class CountsResult(Wire):
    """How many rows lie in each cell. Noisy counts may be negative and need not add up to the rows."""

    name: Annotated[Literal["counts"], Field(description="By its name.")]
    axes: Annotated[list[Axis], Field(description="The columns, the last one's parts side by side in `counts`.")]
    counts: Annotated[list[float], Field(description="A number a cell; of rows, where a person is the unit too.")]
    noise_std: Annotated[float, Field(description="Of each of them.")]
    within: Annotated[float, Field(description="Each count is this close to the exact one in 95 of 100 releases.")]


class NumberMean(Wire):
    """A number's mean, in its unit, of values clamped to the declared range."""

    column: Annotated[Name, Field(description="Its name.")]
    mean: Annotated[Interval, Field(description="In the column's unit.")]


class CategoryShares(Wire):
    """How often each category occurs."""

    column: Annotated[CategoryColumn, Field(description="The declaration.")]
    shares: Annotated[list[Interval], Field(description="Of the rows, from 0 to 1; the last is of other.")]


class MeansResult(Wire):
    """Means of numbers and shares of categories."""

    name: Annotated[Literal["means"], Field(description="By its name.")]
    numbers: Annotated[list[NumberMean], Field(description="Of the columns that are numbers.")]
    categories: Annotated[list[CategoryShares], Field(description="Of the others.")]


class ColumnQuantiles(Wire):
    """Where shares of one column's rows lie below."""

    column: Annotated[Name, Field(description="Its name.")]
    quantiles: Annotated[list[QuantileEstimate], Field(description="In the order of the shares asked for.")]


class QuantilesResult(Wire):
    """Quantiles, as fine as the bins that rows were counted in."""

    name: Annotated[Literal["quantiles"], Field(description="By its name.")]
    columns: Annotated[list[ColumnQuantiles], Field(description="In the order asked for.")]


class CovarianceResult(Wire):
    """Covariance and correlation of numbers, in their units; noise may leave it not positive semidefinite."""

    name: Annotated[Literal["covariance"], Field(description="By its name.")]
    columns: Annotated[list[Name], Field(description="The rows and columns of both matrices.")]
    means: Annotated[list[Interval], Field(description="Of the columns, in their units.")]
    covariance: Annotated[list[list[float]], Field(description="In the columns' units.")]
    noise_std: Annotated[list[list[float]], Field(description="Of each entry of the covariance.")]
    correlation: Annotated[
        list[list[Interval]],
        Field(description="Each interval holds the exact one in at least 95 of 100: [-1, 1] where noise hides all."),
    ]


Result = Annotated[CountsResult | MeansResult | QuantilesResult | CovarianceResult, Field(discriminator="name")]


class ReleasedStatistic(Wire):
    """What a job for a statistic released. Intervals hold noise alone, not that rows are a sample."""

    kind: Annotated[Literal["statistic"], Field(description="What it is.")]
    dataset: Identifier
    result: Annotated[Result, Field(description="The numbers.")]
    job: Annotated[Name, Field(description="The job that released it; its receipt is at /v1/jobs/{id}/receipt.")]
    privacy: Annotated[PrivacyStatement, Field(description="The promise.")]

    def __repr__(self) -> str:
        said = self.privacy
        return f"<{self.result.name} of {self.job}: epsilon {said.epsilon:.6g} at delta {said.delta:g}; see .result>"
