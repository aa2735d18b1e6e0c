"""Likely remedies for values that were not stored as they are, derived from examples, for the sender of the file."""

import re
from collections.abc import Sequence

from purse.wire.columns import CategoryColumn, Column
from purse.wire.files import Dialect, OutcomeKind

_DECIMAL = {",": re.compile(r"[+-]?[0-9]+,[0-9]+"), ".": re.compile(r"[+-]?[0-9]+\.[0-9]+")}
_GROUPED = re.compile(r"[+-]?[0-9]{1,3}(?:([., '_\u00a0\u202f])[0-9]{3})(?:\1[0-9]{3})*(?:[.,][0-9]+)?")
NULLS = {"na", "n/a", "nan", "null", "none", "nil", "-", "--", ".", "?", "#n/a", "missing", "unknown", "k.a.", "-99"}
_DATE = re.compile(r"[0-9]{1,4}([-./])[0-9]{1,2}\1[0-9]{1,4}([ T][0-9:.,]+)?")


def cure(column: Column, dialect: Dialect, kind: OutcomeKind, examples: Sequence[str]) -> str | None:
    """Return what to declare or to write, or None if nothing is wrong, or no remedy is known."""
    finding = f"The file contains {_listed(examples)}."
    if kind == "clamped":
        return f"{finding} If such values are possible, declare wider bounds, but take them from prior knowledge."
    if any(example.casefold() in NULLS for example in examples):
        return f"{finding} Add texts that mean a missing value to the dialect's `nulls`."
    if kind == "not_a_date":
        return f"{finding} Change the dialect's `date_format`, which is {dialect.date_format!r}."
    if isinstance(column, CategoryColumn):
        return _of_category(column, finding, examples)
    if any(_DATE.fullmatch(example) for example in examples):
        return f"{finding} Declare with `date` which number is computed from a date."
    mark = "," if dialect.decimal == "." else "."
    if any(_DECIMAL[mark].fullmatch(example) for example in examples):
        return f"{finding} Declare {mark!r} as the dialect's `decimal`, or as `thousands` if it separates thousands."
    grouped = next(filter(None, map(_GROUPED.fullmatch, examples)), None)
    if grouped is not None:
        and_decimal = f", and {mark!r} as its `decimal`" if grouped[1] == dialect.decimal else ""
        return f"{finding} Declare {grouped[1]!r} as the dialect's `thousands`{and_decimal}."
    return f"{finding} Write plain numbers, or declare a category column."


def cure_of_missing(column: Column) -> str | None:
    """Return what to declare if many values are missing, or None if the column declares what replaces them."""
    if isinstance(column, CategoryColumn) or column.default is not None or column.date is not None:
        return None
    middle = (column.lower + column.upper) / 2
    return (
        f"They count as {middle:g}, the middle of the range. If another number is typical, declare it as the column's "
        "`default`, but take it from prior knowledge. If most are missing, leave the column out."
    )


def _of_category(column: CategoryColumn, finding: str, examples: Sequence[str]) -> str:
    alike = [category for category in column.categories if any(_alike(category, example) for example in examples)]
    if alike:
        return f"{finding} Declare these categories, or write {_listed(alike)} instead."
    default = column.default or "other"
    return f"{finding} Declare these categories. Otherwise they count as {default}, up to the share in `max_unparsed`."


def _alike(category: str, example: str) -> bool:
    """Return whether the two are the same number, or differ only in case and white space."""
    try:
        return float(category) == float(example)
    except ValueError:
        return "".join(category.split()).casefold() == "".join(example.split()).casefold()


def _listed(words: Sequence[str]) -> str:
    printable = [word if word.isprintable() and word == word.strip() and word else repr(word) for word in words]
    return printable[0] if len(printable) == 1 else f"{', '.join(printable[:-1])} and {printable[-1]}"
