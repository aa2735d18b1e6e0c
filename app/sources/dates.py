"""Arrays of dates as numbers (`purse.dates`), read and written. Typed dates are what they are."""

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
    """Whether values of a type are dates or times."""
    return bool(pa.types.is_date(kind) or pa.types.is_timestamp(kind))


def parsed(text: pa.Array, form: str) -> Moments:
    """The moment of each trimmed text in this format, in seconds; NaT for what is none."""
    found = pc.extract_regex(text, pattern(form))
    good = found.is_valid().to_numpy(zero_copy_only=False)
    fields = {name: np.zeros(len(text), np.int64) for name in FIELDS}
    for name in _DIRECTIVES.findall(form):
        digits = pc.utf8_slice_codeunits(found.filter(found.is_valid()).field(name), 0, 4 if name == "Y" else 2)
        fields[name][good] = pc.cast(pc.utf8_rtrim(digits, ".,"), pa.int64()).to_numpy()
    return moments(fields, good, form)


def typed(values: pa.Array) -> Moments:
    """The moment of each value of a date's or a time's type; NaT for null."""
    found: Moments = values.to_numpy(zero_copy_only=False)
    return found


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
    if "%H" not in form:
        seconds -= seconds % 86400  # as its file says it: without a time
    return [formatted(moment, form) for moment in seconds.astype("datetime64[s]").astype(object).tolist()]
