"""A date as a number: days or seconds since 1970-01-01, or a part of it, by the declared format alone.

Text matches the format whole, in ASCII digits, and names a day that there is; the calendar is the Gregorian one,
without zones and leap seconds. Of a time with a zone, its time in UTC.
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


def numbers(values: Sequence[object] | NDArray[Any], form: str, wanted: DatePart) -> NDArray[np.float64]:
    """The number that is asked of each value: a date, a time, or text in this format; NaN of what is none."""
    read = re.compile(pattern(form)).fullmatch
    found = [read(value.strip(SPACE)) if isinstance(value, str) else None for value in values]
    fields = {name: np.array([_digits(match, name) for match in found], np.int64) for name in FIELDS}
    said = moments(fields, np.array([match is not None for match in found], np.bool_), form)
    typed = np.array([_moment(value) for value in values], "datetime64[s]")
    return part(np.where(np.isnat(said), typed, said), wanted)


def _digits(match: re.Match[str] | None, name: str) -> int:
    """What a format says of a field, 0 where it says nothing; of a second its whole part."""
    digits = match.groupdict().get(name) if match else None
    return int(re.split("[.,]", digits)[0]) if digits else 0


def _moment(value: object) -> np.datetime64:
    """Of a date or a time; NaT of what is none, pandas's NaT too, and of a time that in UTC is beyond the calendar."""
    match value:
        case date() if value == value:  # NaT is a date, and equals nothing
            try:
                return np.datetime64(_plain(value), "s")
            except OverflowError:
                return np.datetime64("NaT")
        case np.datetime64():
            return value.astype(_SECONDS)
        case _:
            return np.datetime64("NaT")


def _plain(value: date) -> datetime:
    """Without a zone, at its time in UTC; of a day its beginning."""
    if not isinstance(value, datetime):
        return datetime(value.year, value.month, value.day)
    return value.astimezone(UTC).replace(tzinfo=None) if value.tzinfo else value


def said(value: date, form: str) -> str:
    """The date or the time in this format; as 2020-12-31T23:59:59 if it is no midnight and the format has no hour, so
    that nobody takes it for one; nothing if in UTC it is beyond the calendar. Years have four digits, whatever the
    platform's strftime says.
    """
    try:
        at = _plain(value)
    except OverflowError:
        return ""
    if "%H" not in form and at.time() != time():
        form = "%Y-%m-%dT%H:%M:%S"
    return at.strftime(form.replace("%Y", f"{at.year:04d}"))


def moments(fields: dict[str, NDArray[np.int64]], good: NDArray[np.bool_], form: str) -> Moments:
    """The moment that fields say, in seconds; NaT where that is no day, or `good` says no."""
    month = fields["m"] if "%m" in form else np.ones_like(fields["m"])
    day = fields["d"] if "%d" in form else np.ones_like(fields["d"])
    months = (12 * (fields["Y"] - 1970) + month - 1).astype("datetime64[M]")
    last = ((months + 1).astype("datetime64[D]") - months.astype("datetime64[D]")).astype(np.int64)
    is_real = good & (month >= 1) & (month <= 12) & (day >= 1) & (day <= last)
    is_real &= (fields["H"] < 24) & (fields["M"] < 60) & (fields["S"] < 60)
    time = 60 * (60 * fields["H"] + fields["M"]) + fields["S"]
    found: Moments = months.astype("datetime64[D]").astype("datetime64[s]") + (86400 * (day - 1) + time)
    found[~is_real] = np.datetime64("NaT")
    return found


def part(moments: Moments, wanted: DatePart) -> NDArray[np.float64]:
    """The number that is asked of each moment; NaN of none."""
    days = moments.astype("datetime64[D]")
    match wanted:
        case "days":
            found = days.astype(np.int64)
        case "seconds":
            found = moments.astype("datetime64[s]").astype(np.int64)
        case "year":
            found = moments.astype("datetime64[Y]").astype(np.int64) + 1970
        case "month":
            found = moments.astype("datetime64[M]").astype(np.int64) % 12 + 1
        case "day":
            found = (days - moments.astype("datetime64[M]").astype("datetime64[D]")).astype(np.int64) + 1
        case "weekday":
            found = (days.astype(np.int64) + 3) % 7 + 1  # Monday is 1
        case "hour":
            found = moments.astype("datetime64[h]").astype(np.int64) % 24
        case "minute":
            found = moments.astype("datetime64[m]").astype(np.int64) % 60
    return np.where(np.isnat(moments), np.nan, found.astype(np.float64))


@lru_cache
def pattern(form: str) -> str:
    """The format as a regular expression, RE2's and Python's; one digit will do for two where something stands between
    any two fields.
    """
    width = "2" if re.search(r"%[YmdHMS]([0-9]|%)|[0-9]%", form) else "1,2"
    parts = re.split("%(.)", form)
    made = [
        f"(?P<{piece}>{_FIELD.get(piece, '[0-9]{%s}').replace('%s', width)})" if place % 2 else re.escape(piece)
        for place, piece in enumerate(parts)
    ]
    return "^" + "".join(made) + "$"
