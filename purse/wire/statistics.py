"""A released statistic: noisy numbers about declared columns, with intervals."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, ClassVar, Literal, get_args

from pydantic import Field

from purse.text import loss
from purse.wire.base import Identifier, Name, Wire
from purse.wire.columns import CategoryColumn, Column
from purse.wire.evaluations import Measured
from purse.wire.models import PrivacyStatement
from purse.wire.profiles import Interval, QuantileEstimate


class StatisticResult(Wire):
    """The numbers of a statistic."""

    heading: ClassVar[str]  # the words before the columns in the title of its job
    is_of_numbers: ClassVar[bool]  # whether it describes number columns only


class Axis(Wire):
    """A column of a table of counts."""

    column: Column
    """The declaration. The parts of a category column are its categories, then other."""
    edges: list[float] | None = None
    """Ends of a number's bins, one more than bins, in its unit."""


class CountsResult(StatisticResult):
    """Noisy number of rows in each cell. A count may be negative, and counts need not add up to the rows."""

    heading: ClassVar = "Counts of"
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
    is_of_numbers: ClassVar = False

    name: Literal["means"]
    """Kind of the statistic."""
    numbers: list[NumberMean]
    """Means of the number columns."""
    categories: list[CategoryShares]
    """Shares of the category columns."""


class ColumnQuantiles(Wire):
    """Quantiles of one column."""

    column: Annotated[Name, Field(description="Name of the column.")]
    quantiles: list[QuantileEstimate]
    """The quantiles, in the order of the requested shares."""


class QuantilesResult(StatisticResult):
    """Quantiles, to the resolution of the bins that rows were counted in."""

    heading: ClassVar = "Quantiles of"
    is_of_numbers: ClassVar = True

    name: Literal["quantiles"]
    """Kind of the statistic."""
    columns: list[ColumnQuantiles]
    """The quantiles of each column, in the requested order."""


class CovarianceResult(StatisticResult):
    """Covariance and correlation of numbers, in their units. Noise may leave it not positive semidefinite."""

    heading: ClassVar = "Covariances of"
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


MAX_VALUES = 1000

Text = Annotated[str, Field(max_length=500)]


class Condition(Wire):
    """A condition on a declared column, such as age >= 65. It is evaluated on each row's stored value alone."""

    column: Annotated[Name, Field(description="A declared column.")]
    op: Literal["==", "!=", "<", "<=", ">", ">=", "in"]
    """Comparison of the column with the value. A category can only be equal, not equal, or `in` a list."""
    value: float | Text | Annotated[list[float | Text], Field(min_length=1, max_length=MAX_VALUES)]
    """A number in the declared range, an ISO date, or a category. With `in`, a list of them."""


class GroupNumber(Wire):
    """A number column in one group, in its unit. Values are clamped to the declared range."""

    column: Annotated[Name, Field(description="Name of the column.")]
    mean: Measured | None
    """Mean of the group's rows. Null if the group is not resolved, like the next three."""
    std: Interval | None
    """Standard deviation of the group's rows. Its interval covers noise alone."""
    quantiles: list[QuantileEstimate] | None
    """Quartiles of the group's rows, to the resolution of bins. Their intervals cover noise alone."""
    difference: Measured | None
    """This mean minus that of the first group. Null for the first group, and if one of the two is not resolved."""
    sum: Interval
    """Sum over the group's rows. Its interval covers noise alone."""


class GroupCategories(Wire):
    """A category column in one group."""

    column: Annotated[Name, Field(description="Name of the column.")]
    counts: list[float]
    """Rows in each declared category, then in other. They may be negative and need not add up to the group's count."""
    noise_std: float
    """Noise standard deviation of each of these counts."""
    shares: list[Measured] | None
    """Share of the group's rows in each category, then in other. Null if the group is not resolved."""
    differences: list[Measured] | None
    """These shares minus those of the first group. Null for the first group, and if one of the two is not resolved."""


class Group(Wire):
    """The rows with one combination of categories of the columns `by`, counted and described."""

    levels: list[str | None]
    """A category of each column of `by`. Null means other."""
    count: float
    """Noisy number of rows."""
    resolved: bool
    """Whether the released count is large enough for means, quantiles and shares."""
    reason: str | None
    """Why the group is not resolved. Null if it is."""
    numbers: list[GroupNumber]
    """The described number columns."""
    categories: list[GroupCategories]
    """The described category columns."""


class Comparison(Wire):
    """The difference of two groups in one mean or one share."""

    groups: tuple[int, int]
    """Indices of the groups in `groups`."""
    column: Name
    """The described column."""
    category: str | None
    """The category whose share is compared, "(other)" for values that are not declared. Null for a number."""
    difference: Measured
    """The value of the second group minus that of the first."""


class Table1Result(StatisticResult):
    """Groups of rows, counted and described. Intervals of means, shares and differences cover noise and sampling, and
    noise alone."""

    heading: ClassVar = "Groups by"
    is_of_numbers: ClassVar = False

    name: Literal["table1"]
    """Kind of the statistic."""
    by: list[CategoryColumn]
    """The columns that make the groups. In `groups`, the categories of the last column vary fastest."""
    where: list[Condition]
    """Conditions that every described row satisfies."""
    categories: list[CategoryColumn]
    """Declarations of the described category columns."""
    noise_std: float
    """Noise standard deviation of each group's count."""
    within: float
    """Each group's count is within this distance of the exact one in 95 % of releases."""
    least_rows: float
    """The smallest released count at which a group is resolved."""
    groups: list[Group]
    """All groups, also those without rows."""
    comparisons: Annotated[list[Comparison], Field(exclude_if=lambda comparisons: not comparisons)] = []
    """The differences of each two resolved groups, without a correction for several tests. Empty if there are more than
    12 groups, or if all groups together would have more than 16,384 differences."""


Result = Annotated[
    CountsResult | MeansResult | QuantilesResult | CovarianceResult | Table1Result, Field(discriminator="name")
]

RESULTS: Mapping[str, type[StatisticResult]] = MappingProxyType(
    {get_args(kind.model_fields["name"].annotation)[0]: kind for kind in get_args(get_args(Result)[0])}
)
"""Classes of results by the name of the statistic."""


class ReleasedStatistic(Wire):
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
