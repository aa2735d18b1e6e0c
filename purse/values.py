"""A value as an uploaded file has it: text, and text read as a number."""

import math
import re
from decimal import Decimal
from typing import Any, Final

import numpy as np

SPACE: Final = " \t\n\v\f\r"
_NUMBER: Final = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")


def as_number(value: object) -> float:
    """The value as a number; NaN if it is none. Text is read as in an uploaded file: no nan, inf or 1_000."""
    match value:
        case str():
            text = value.strip(SPACE)
            return float(text) if _NUMBER.fullmatch(text) else math.nan
        case int() | float() | Decimal() | np.number() | np.bool_():
            try:
                return float(value)
            except (OverflowError, ValueError):  # a signaling NaN
                return math.nan
        case _:
            return math.nan


def as_text(value: object) -> str:
    """The value as an uploaded file would have it: true and false, 1 for 1.0, nothing for what is missing."""
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
    if not math.isfinite(value):
        return ""
    if value == 0 or 1e-6 <= abs(value) < 1e10:
        return np.format_float_positional(value, trim="-")
    return np.format_float_scientific(value, trim="-", exp_digits=1)
