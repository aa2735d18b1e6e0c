"""Dates as numbers: days or seconds since 1970-01-01, or a part of the date, by the declared format alone.

Text must match the whole format in ASCII digits and name a day that exists. The calendar is the Gregorian one, without
time zones and leap seconds. A time with a time zone counts as its time in UTC.
"""

import re
from collections.abc import Sequence
from datetime import UTC, date, datetime, time
from functools import lru_cache
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from purse.wire.files import SPACE, DatePart

Moments = NDArray[np.datetime64]
FIELDS: Final = "YmdHMS"
_SECONDS: Final = np.dtype("datetime64[s]")
_FIELD: Final = {"Y": r"[0-9]{4}", "S": r"[0-9]{%s}(?:[.,][0-9]+)?"}


def numbers(values: Sequence[object] | NDArray[Any], form: str, date_part: DatePart) -> NDArray[np.float64]:
    """Return the number of a date part for each date, time, or text in this format; NaN for any other value."""
    read = re.compile(pattern(form)).fullmatch
    matches = [read(value.strip(SPACE)) if isinstance(value, str) else None for value in values]
    fields = {name: np.array([_digits(match, name) for match in matches], np.int64) for name in FIELDS}
    from_text = moments(fields, np.array([match is not None for match in matches], np.bool_), form)
    from_objects = np.array([_moment(value) for value in values], "datetime64[s]")
    return part(np.where(np.isnat(from_text), from_objects, from_text), date_part)


def _digits(match: re.Match[str] | None, name: str) -> int:
    """Return the number in a field of the format; 0 if the format lacks the field. Fractions of a second are cut."""
    digits = match.groupdict().get(name) if match else None
    return int(re.split("[.,]", digits)[0]) if digits else 0


def _moment(value: object) -> np.datetime64:
    """Return a date or a time as a moment; NaT for other values and for times outside the calendar in UTC."""
    match value:
        case date() if value == value:  # pandas's NaT is a date that does not equal itself
            try:
                return np.datetime64(_utc(value), "s")
            except OverflowError:
                return np.datetime64("NaT")
        case np.datetime64():
            return value.astype(_SECONDS)
        case _:
            return np.datetime64("NaT")


def _utc(value: date) -> datetime:
    """Return a time in UTC without its time zone; for a day, its beginning."""
    if not isinstance(value, datetime):
        return datetime(value.year, value.month, value.day)
    return value.astimezone(UTC).replace(tzinfo=None) if value.tzinfo else value


def formatted(value: date, form: str) -> str:
    """Return a date or a time in this format; an empty string if it is outside the calendar in UTC.

    A time other than midnight is written as 2020-12-31T23:59:59 if the format has no hour, so that it is not taken for
    a date. Years have four digits on every platform.
    """
    try:
        moment = _utc(value)
    except OverflowError:
        return ""
    if "%H" not in form and moment.time() != time():
        form = "%Y-%m-%dT%H:%M:%S"
    return moment.strftime(form.replace("%Y", f"{moment.year:04d}"))


def moments(fields: dict[str, NDArray[np.int64]], is_read: NDArray[np.bool_], form: str) -> Moments:
    """Return the moments, in seconds, that fields describe; NaT if `is_read` is false or the day does not exist."""
    month = fields["m"] if "%m" in form else np.ones_like(fields["m"])
    day = fields["d"] if "%d" in form else np.ones_like(fields["d"])
    months = (12 * (fields["Y"] - 1970) + month - 1).astype("datetime64[M]")
    last_day = ((months + 1).astype("datetime64[D]") - months.astype("datetime64[D]")).astype(np.int64)
    is_real = is_read & (month >= 1) & (month <= 12) & (day >= 1) & (day <= last_day)
    is_real &= (fields["H"] < 24) & (fields["M"] < 60) & (fields["S"] < 60)
    seconds = 60 * (60 * fields["H"] + fields["M"]) + fields["S"]
    result: Moments = months.astype("datetime64[D]").astype("datetime64[s]") + (86400 * (day - 1) + seconds)
    result[~is_real] = np.datetime64("NaT")
    return result


def part(moments: Moments, date_part: DatePart) -> NDArray[np.float64]:
    """Return the number of a date part for each moment; NaN for NaT."""
    days = moments.astype("datetime64[D]")
    match date_part:
        case "days":
            result = days.astype(np.int64)
        case "seconds":
            result = moments.astype("datetime64[s]").astype(np.int64)
        case "year":
            result = moments.astype("datetime64[Y]").astype(np.int64) + 1970
        case "month":
            result = moments.astype("datetime64[M]").astype(np.int64) % 12 + 1
        case "day":
            result = (days - moments.astype("datetime64[M]").astype("datetime64[D]")).astype(np.int64) + 1
        case "weekday":
            result = (days.astype(np.int64) + 3) % 7 + 1  # Monday is 1
        case "hour":
            result = moments.astype("datetime64[h]").astype(np.int64) % 24
        case "minute":
            result = moments.astype("datetime64[m]").astype(np.int64) % 60
    return np.where(np.isnat(moments), np.nan, result.astype(np.float64))


@lru_cache
def pattern(form: str) -> str:
    """Return the format as a regular expression for RE2 and Python.

    A field may have one digit instead of two if a character separates every two fields.
    """
    width = "2" if re.search(r"%[YmdHMS]([0-9]|%)|[0-9]%", form) else "1,2"
    pieces = re.split("%(.)", form)
    fields = [
        f"(?P<{piece}>{_FIELD.get(piece, '[0-9]{%s}').replace('%s', width)})" if index % 2 else re.escape(piece)
        for index, piece in enumerate(pieces)
    ]
    return "^" + "".join(fields) + "$"
