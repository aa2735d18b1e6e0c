"""How numbers, and places in a form, are written for people."""

import re
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

_WHOLE = 1e15  # beyond, digits would be made up
_SINCE = {"days": timedelta(days=1), "seconds": timedelta(seconds=1)}
_LISTS = re.compile(r"\b(column|candidate)s\.(\d+)(?:\.(?:number|category)(?=\.|$))?")


def number(value: float | None, digits: int = 4) -> str:
    """To so many digits, or where it has more before its point to the next whole one; a dash for what is not there."""
    if value is None:
        return "–"
    return f"{value:,.0f}" if 10**digits <= abs(value) < _WHOLE else f"{value:,.{digits}g}"


def percent(share: float | None) -> str:
    """Of a whole: 12.3 %."""
    return "–" if share is None else f"{100 * share:.3g} %"


def place(where: str) -> str:
    """A field as the form shows it, counted from one: `spec.columns.0.number.lower` is Column 1, lower."""
    path = re.sub(r"^(?:body|spec|query)(?:\.|$)", "", where)
    counted = _LISTS.sub(lambda found: f"{found[1]} {int(found[2]) + 1}", path)
    told = counted.replace(".", ", ").replace("_", " ") or "the form"
    return told[0].upper() + told[1:]


def bounds(column: Mapping[str, Any]) -> str:
    """A declared range, to its last digit; of dates as dates."""
    return " to ".join(_dated(column[end], column.get("date")) or _exact(column[end]) for end in ("lower", "upper"))


def between(low: float, high: float, date: str | None) -> str:
    """A part of a column's range; of dates as dates."""
    return " to ".join(_dated(end, date) or number(end) for end in (low, high))


def dated(value: float, date: str | None) -> str | None:
    """The date that is nearest, to the day where days are counted; None for other numbers."""
    return _dated(round(value), date)


def _dated(value: float, date: str | None) -> str | None:
    """The date that the number of days or seconds is; None for other numbers, and for a year that no calendar has."""
    try:
        at = datetime(1970, 1, 1) + value * _SINCE[date or ""]
    except (KeyError, OverflowError):
        return None
    return f"{at:%Y-%m-%d %H:%M:%S}".removesuffix(" 00:00:00")


def _exact(value: float) -> str:
    return f"{value:,.0f}" if value == round(value) and abs(value) < _WHOLE else f"{value:,}"
