"""Arrays of dates, read as numbers (`purse.dates`) and written. Dates with a type need no format."""

import re
from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from purse.dates import FIELDS, Moments, formatted, moments, part, pattern
from purse.wire.files import DatePart

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
    """Return whether values of a type are dates or times."""
    return bool(pa.types.is_date(kind) or pa.types.is_timestamp(kind))


def parsed(text: pa.Array, form: str) -> Moments:
    """Return the moment of each trimmed text in this format, in seconds; NaT for other text."""
    matches = pc.extract_regex(text, pattern(form))
    is_date = matches.is_valid().to_numpy(zero_copy_only=False)
    fields = {name: np.zeros(len(text), np.int64) for name in FIELDS}
    for name in _DIRECTIVES.findall(form):
        digits = pc.utf8_slice_codeunits(matches.filter(matches.is_valid()).field(name), 0, 4 if name == "Y" else 2)
        fields[name][is_date] = pc.cast(pc.utf8_rtrim(digits, ".,"), pa.int64()).to_numpy()
    return moments(fields, is_date, form)


def read(texts: Sequence[str], form: str, requested: DatePart) -> NDArray[np.float64]:
    """Return the requested part of each text's date as a number."""
    return part(parsed(pa.array(texts, pa.string()), form), requested)


def written(parts: Mapping[DatePart, NDArray[np.float64]], form: str, rows: int) -> list[str]:
    """Write dates with these parts in a format, as far as a calendar allows, in the years 1 to 9999.

    Seconds determine the whole date, days everything except the time. A missing part is that of 2000-01-01. A weekday
    moves the date if the day is missing.
    """
    values_of = {"year": np.full(rows, 2000.0)} | {str(name): values for name, values in parts.items()}
    at = {name: values_of.get(name, np.full(rows, first)) for name, (first, _) in _ENDS.items()}
    year, month, day, hour, minute = (np.clip(at[name], *_ENDS[name]).astype(np.int64) for name in _ENDS)
    months = (12 * (year - 1970) + month - 1).astype("datetime64[M]")
    month_start = months.astype("datetime64[D]").astype(np.int64)
    length = (months + 1).astype("datetime64[D]").astype(np.int64) - month_start
    days = month_start + np.minimum(day, length) - 1
    if "weekday" in values_of and "day" not in values_of:
        days += (values_of["weekday"].astype(np.int64) - 1 - (days + 3)) % 7
    seconds = 86400 * days + 3600 * hour + 60 * minute
    if "days" in values_of:
        seconds += 86400 * (np.clip(values_of["days"], *_DAYS).astype(np.int64) - days)
    if "seconds" in values_of:
        seconds = np.clip(values_of["seconds"], 86400 * _DAYS[0], 86400 * _DAYS[1]).astype(np.int64)
    if "%H" not in form:
        seconds -= seconds % 86400  # as in the file: without a time
    return [formatted(moment, form) for moment in seconds.astype("datetime64[s]").astype(object).tolist()]
