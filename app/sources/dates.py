"""Dates as numbers: days or seconds since 1970-01-01, or a part, of one value and the declared format alone.

Text matches the format whole, in ASCII digits, and names a day that there is; the calendar is the Gregorian one,
without zones and leap seconds. Typed dates are what they are; of a time with a zone, its time in UTC.
"""

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from purse.wire.files import DatePart

Moments = NDArray[np.datetime64]
_FIELD = {"Y": r"[0-9]{4}", "S": r"[0-9]{%s}(?:[.,][0-9]+)?"}
_DIRECTIVES = re.compile("%(.)")
_ENDS: dict[DatePart, tuple[int, int]] = {
    "year": (1, 9999),
    "month": (1, 12),
    "day": (1, 31),
    "hour": (0, 23),
    "minute": (0, 59),
}
_DAYS = -719_162, 2_932_896  # of the years 1 to 9999


def is_date(kind: pa.DataType) -> bool:
    """Whether values of a type are dates or times."""
    return bool(pa.types.is_date(kind) or pa.types.is_timestamp(kind))


def parsed(text: pa.Array, form: str) -> Moments:
    """The moment of each trimmed text in this format, in seconds; NaT for what is none."""
    found = pc.extract_regex(text, _pattern(form))
    good = found.is_valid().to_numpy(zero_copy_only=False)
    fields = {name: np.zeros(len(text), np.int64) for name in "YmdHMS"}
    for name in _DIRECTIVES.findall(form):
        digits = pc.utf8_slice_codeunits(found.filter(found.is_valid()).field(name), 0, 4 if name == "Y" else 2)
        fields[name][good] = pc.cast(pc.utf8_rtrim(digits, ".,"), pa.int64()).to_numpy()
    return _moments(fields, good, form)


def _moments(fields: dict[str, NDArray[np.int64]], good: NDArray[np.bool_], form: str) -> Moments:
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


def typed(values: pa.Array) -> Moments:
    """The moment of each value of a date's or a time's type; NaT for null."""
    found: Moments = values.to_numpy(zero_copy_only=False)
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


def read(texts: Sequence[str], form: str, wanted: DatePart) -> NDArray[np.float64]:
    """The number that is asked of each text's date."""
    return part(parsed(pa.array(texts, pa.string()), form), wanted)


def written(parts: Mapping[DatePart, NDArray[np.float64]], form: str, rows: int) -> list[str]:
    """Dates of which these parts are as asked for, as far as a calendar allows, in this format: years 1 to 9999.

    Seconds say all, days all but the time. A part that nobody asks for is that of 2000-01-01; a weekday moves a date
    whose day nobody asks for.
    """
    asked = {"year": np.full(rows, 2000.0)} | {str(name): values for name, values in parts.items()}
    at = {name: asked.get(name, np.full(rows, least)) for name, (least, _) in _ENDS.items()}
    year, month, day, hour, minute = (np.clip(at[name], *_ENDS[name]).astype(np.int64) for name in _ENDS)
    months = (12 * (year - 1970) + month - 1).astype("datetime64[M]")
    first = months.astype("datetime64[D]").astype(np.int64)
    length = (months + 1).astype("datetime64[D]").astype(np.int64) - first
    days = first + np.minimum(day, length) - 1
    if "weekday" in asked and "day" not in asked:
        days += (asked["weekday"].astype(np.int64) - 1 - (days + 3)) % 7
    seconds = 86400 * days + 3600 * hour + 60 * minute
    if "days" in asked:
        seconds += 86400 * (np.clip(asked["days"], *_DAYS).astype(np.int64) - days)
    if "seconds" in asked:
        seconds = np.clip(asked["seconds"], 86400 * _DAYS[0], 86400 * _DAYS[1]).astype(np.int64)
    return [_said(moment, form) for moment in seconds.astype("datetime64[s]").astype(object).tolist()]


def _said(moment: datetime, form: str) -> str:
    """Years have four digits, whatever the platform's strftime says."""
    return moment.strftime(form.replace("%Y", f"{moment.year:04d}"))


@lru_cache
def _pattern(form: str) -> str:
    """The format as RE2 has it; one digit will do for two where something stands between any two fields."""
    width = "2" if re.search(r"%[YmdHMS]([0-9]|%)|[0-9]%", form) else "1,2"
    parts = re.split("%(.)", form)
    made = [
        f"(?P<{piece}>{_FIELD.get(piece, '[0-9]{%s}').replace('%s', width)})" if place % 2 else re.escape(piece)
        for place, piece in enumerate(parts)
    ]
    return "^" + "".join(made) + "$"
