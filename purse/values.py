"""Values as an uploaded file holds them: text, and text read as a number."""

import math
from decimal import Decimal
from typing import Any

import numpy as np

from purse.wire.files import PLAIN, Dialect


def as_number(value: object, dialect: Dialect = PLAIN) -> float:
    """Return the value as a number, or NaN. Text is read as in an uploaded file: no nan, inf or 1_000."""
    try:
        match value:
            case str():
                return dialect.number(value)
            case np.timedelta64() | np.complexfloating():  # NumPy would convert both, the second one with a warning
                return math.nan
            case int() | float() | Decimal() | np.number() | np.bool_():
                return float(value)
    except Exception:  # too large, a signaling NaN, or an error of the caller's own class
        return math.nan
    return math.nan


def as_text(value: object) -> str:
    """Return the value as text: true and false, 1 for 1.0, an empty string for a missing value."""
    match value:
        case None:
            return ""
        case bool() | np.bool_():
            return "true" if value else "false"
        case float() | np.floating():
            return _shortest(value)
        case _:
            return str(value)


def _shortest(value: Any) -> str:
    """Return the shortest text that reads back as the same float; an empty string if it is not finite."""
    if not math.isfinite(value):
        return ""
    if value == 0 or 1e-6 <= abs(value) < 1e10:
        return np.format_float_positional(value, trim="-")
    return np.format_float_scientific(value, trim="-", exp_digits=1)
