"""Table 1 as people read it: a column for each group, a row for each described number or category."""

import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from purse.tables import Cell, Dates, Estimate, Table, as_estimate
from purse.wire.columns import OTHER_LEVEL
from purse.wire.evaluations import Measured
from purse.wire.profiles import Interval
from purse.wire.statistics import Comparison, Group, GroupCategories, GroupNumber, Table1Result

_MEDIAN = 0.5  # its share
_CONDITION = re.compile(r"\s*(?P<column>.+?)\s*(?P<op>==|!=|<=|>=|<|>|\bin\b)\s*(?P<value>[^=\s].*?)\s*")


def condition(text: str) -> dict[str, Any]:
    """Return the condition of a text such as `age >= 65`, `ward in a, b` or `code == "1"`.

    A value in double quotes is text also if it is a number.

    Raises
    ------
    ValueError
        if the text has no operator, or nothing on one side of it.
    """
    parts = _CONDITION.fullmatch(text)
    if parts is None:
        raise ValueError(f"{text!r} is not a condition. Write a column, ==, !=, <, <=, >, >= or in, and a value")
    value = parts["value"]
    values = [_value(part.strip()) for part in value.split(",")] if parts["op"] == "in" else _value(value)
    return {"column": parts["column"], "op": parts["op"], "value": values}


def _value(text: str) -> float | str:
    """Return a finite number as a number, and any other text as it is, without double quotes."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return value if isinstance(value, str) or (is_number and abs(value) <= sys.float_info.max) else text


def tables(result: Table1Result, dates: Dates) -> Iterator[Table]:
    """Yield the groups described, their differences from the first group, and each number's means as bars."""
    names = list(map(name, result.groups))
    note = (
        f"A group is described if its released count is at least {result.least_rows:.3g}. Intervals of means and "
        "shares cover noise and sampling, all others noise alone. Each category has its share of the group; (other) "
        "holds values that are not declared."
    )
    counts = (as_estimate(each.count, result.within) for each in result.groups)
    described = _rows(result, result.groups, lambda each: _number(each, dates), lambda each: each.shares)
    yield Table(("", *names), [("rows", *counts), *described], title(result), note)
    if len(names) > 1:
        compared = result.groups[1:]
        rows = _rows(result, compared, lambda each: {"": estimate_of(each.difference)}, lambda each: each.differences)
        caption = f"Differences from {names[0]}"
        yield Table(("", *names[1:]), rows, caption, "Intervals cover noise and sampling.")
    if later := [each for each in result.comparisons if each.groups[0] > 0]:
        pairs = [
            (_compared(each), *(names[index] for index in each.groups), estimate_of(each.difference)) for each in later
        ]
        note = (
            "The second group minus the first. Intervals cover noise and sampling, without a correction for several "
            "tests."
        )
        yield Table(("", "first group", "second group", "difference"), pairs, "Differences of other groups", note)
    for index, number in enumerate(result.groups[0].numbers):
        means = zip(names, (group.numbers[index].mean for group in result.groups), strict=True)
        bars = [(group, estimate_of(mean, dates.get(number.column))) for group, mean in means if mean is not None]
        if bars:
            yield Table(("group", "mean"), bars, f"Mean of {number.column}", look="bars")


def _compared(each: Comparison) -> str:
    return each.column if each.category is None else f"{each.column} = {each.category}"


def title(result: Table1Result) -> str:
    """Return the columns that group, and the conditions."""
    where = [f"{each.column} {each.op} {_text(each.value)}" for each in result.where]
    by = f"Groups by {' and '.join(column.name for column in result.by)}"
    return f"{by}, where {' and '.join(where)}" if where else by


def name(group: Group) -> str:
    """Return the group's categories."""
    return ", ".join(OTHER_LEVEL if level is None else level for level in group.levels)


def _rows(
    result: Table1Result,
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
        [declared] = [column for column in result.categories if column.name == categories[0].column]
        for index, level in enumerate(declared.levels):
            cells = (None if own is None else estimate_of(own[index]) for own in shares)
            rows.append((f"{categories[0].column} = {level}", *cells))
    return rows


def _number(number: GroupNumber, dates: Dates) -> dict[str, Cell]:
    date = dates.get(number.column)
    facts: dict[str, Cell] = {"mean": estimate_of(number.mean, date), "std": estimate_of(number.std)}
    for point in number.quantiles or ():
        name = "median" if point.share == _MEDIAN else f"quantile {point.share:g}"
        facts[name] = estimate_of(point.at, date)
    return facts if date else facts | {"sum": estimate_of(number.sum)}


def estimate_of(interval: Measured | Interval | None, date: str | None = None) -> Estimate | None:
    """Return a released number with its interval as a cell, or None for a number that was not released."""
    return None if interval is None else Estimate(interval.value, interval.low, interval.high, date)


def _text(value: float | str | list[float | str]) -> str:
    if isinstance(value, list):
        return ", ".join(map(_text, value))
    return value if isinstance(value, str) else f"{value:.15g}"
