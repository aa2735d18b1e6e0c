"""Codes of numbers: the form in which a column's values are stored and multiplied by coefficients."""

import numpy as np
from numpy.typing import NDArray

from purse.wire.columns import NumberColumn

_MIN_CODE = 2.0**-300


def default_code(column: NumberColumn) -> float:
    """Return the code of a missing number."""
    if column.default is None and column.coding is None:
        return 0.0
    default = column.lower / 2 + column.upper / 2 if column.default is None else column.default
    return float(codes_of(column, np.array([default]))[0])


def codes_of(column: NumberColumn, x: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return ((x - lower) - (upper - x)) / (upper - lower) of clamped numbers, or (x - origin) / scale, clamped."""
    inside = np.clip(x, column.lower, column.upper)
    if column.coding is None:
        return np.asarray(((inside - column.lower) - (column.upper - inside)) / (column.upper - column.lower))
    origin, scale = column.coding
    return nearest(np.clip((inside - origin) / scale, -1.0, 1.0))


def nearest(codes: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return codes with 0 in place of those below 2^-300 in absolute value.

    Products of such codes are subnormal, and a subnormal product takes about twenty times as long as a normal one. The
    time of a run would then reveal the record.
    """
    return np.where(np.abs(codes) < _MIN_CODE, 0.0 * codes, codes)
