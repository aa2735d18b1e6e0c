"""The result of `table1`: groups of rows, counted and described, with a column for each group."""

from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from purse.tables import NO_DATES, Cell, Dates, Table, as_estimate, estimate_of
from purse.wire.base import Name, Wire
from purse.wire.columns import OTHER_LEVEL, CategoryColumn
from purse.wire.evaluations import Measured
from purse.wire.profiles import Interval, QuantileEstimate
from purse.wire.results import StatisticResult

MAX_VALUES = 1000
_MEDIAN = 0.5  # its share

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

    @property
    def name(self) -> str:
        """The group's categories."""
        return ", ".join(OTHER_LEVEL if level is None else level for level in self.levels)


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
    releases: ClassVar = "groups of rows side by side, with their differences (Table 1)"
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

    @property
    def title(self) -> str:
        """The columns that group, and the conditions."""
        where = [f"{each.column} {each.op} {_text(each.value)}" for each in self.where]
        by = f"{self.heading} {' and '.join(column.name for column in self.by)}"
        return f"{by}, where {' and '.join(where)}" if where else by

    def lay_out(self, dates: Dates = NO_DATES) -> Iterator[Table]:
        """Yield the groups described, their differences from the first group, and each number's means as bars."""
        names = [group.name for group in self.groups]
        note = (
            f"A group is described if its released count is at least {self.least_rows:.3g}. Intervals of means and "
            "shares cover noise and sampling, all others noise alone. Each category has its share of the group; "
            "(other) holds values that are not declared."
        )
        counts = (as_estimate(each.count, self.within) for each in self.groups)
        described = self._rows(self.groups, lambda each: _number(each, dates), lambda each: each.shares)
        yield Table(("", *names), [("rows", *counts), *described], self.title, note)
        if len(names) > 1:
            compared = self.groups[1:]
            rows = self._rows(compared, lambda each: {"": estimate_of(each.difference)}, lambda each: each.differences)
            caption = f"Differences from {names[0]}"
            yield Table(("", *names[1:]), rows, caption, "Intervals cover noise and sampling.")
        if later := [each for each in self.comparisons if each.groups[0] > 0]:
            pairs = [
                (_compared(each), *(names[index] for index in each.groups), estimate_of(each.difference))
                for each in later
            ]
            note = (
                "The second group minus the first. Intervals cover noise and sampling, without a correction for "
                "several tests."
            )
            yield Table(("", "first group", "second group", "difference"), pairs, "Differences of other groups", note)
        for index, number in enumerate(self.groups[0].numbers):
            means = zip(names, (group.numbers[index].mean for group in self.groups), strict=True)
            bars = [(group, estimate_of(mean, dates.get(number.column))) for group, mean in means if mean is not None]
            if bars:
                yield Table(("group", "mean"), bars, f"Mean of {number.column}", look="bars")

    def _rows(
        self,
        groups: list[Group],
        of_number: Callable[[GroupNumber], Mapping[str, Cell]],
        of_category: Callable[[GroupCategories], list[Measured] | None],
    ) -> list[tuple[Cell, ...]]:
        """Return the rows of all described columns, with a cell for each group."""
        rows: list[tuple[Cell, ...]] = []
        for numbers in zip(*(group.numbers for group in groups), strict=True):
            facts = [of_number(each) for each in numbers]
            for fact in dict.fromkeys(fact for own in facts for fact in own):
                label = f"{numbers[0].column}, {fact}" if fact else numbers[0].column
                rows.append((label, *(own.get(fact) for own in facts)))
        for categories in zip(*(group.categories for group in groups), strict=True):
            shares = [of_category(each) for each in categories]
            [declared] = [column for column in self.categories if column.name == categories[0].column]
            for index, level in enumerate(declared.levels):
                cells = (None if own is None else estimate_of(own[index]) for own in shares)
                rows.append((f"{categories[0].column} = {level}", *cells))
        return rows


def _compared(each: Comparison) -> str:
    return each.column if each.category is None else f"{each.column} = {each.category}"


def _number(number: GroupNumber, dates: Dates) -> dict[str, Cell]:
    date = dates.get(number.column)
    facts: dict[str, Cell] = {"mean": estimate_of(number.mean, date), "std": estimate_of(number.std)}
    for point in number.quantiles or ():
        name = "median" if point.share == _MEDIAN else f"quantile {point.share:g}"
        facts[name] = estimate_of(point.at, date)
    return facts if date else facts | {"sum": estimate_of(number.sum)}


def _text(value: float | str | list[float | str]) -> str:
    if isinstance(value, list):
        return ", ".join(map(_text, value))
    return value if isinstance(value, str) else f"{value:.15g}"
