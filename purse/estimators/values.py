"""What is handed in, column by column, each value as it stands: none is read otherwise for what stands beside it.

NumPy gives an array one type: a text among numbers makes text of all, and a flag that is missing makes objects of a
whole frame's integers. So a list is taken value by value and a frame column by column, and as a category, or a label,
equal numbers are the same whatever type holds them.
"""

import math
from collections.abc import Iterator, Sequence
from datetime import date
from typing import Any

import numpy as np
from numpy.typing import NDArray

from purse.frames import held, is_frame, raw
from purse.wire.columns import Column, NumberColumn
from solvers.data_access.inputs import entered

_WHOLE = 2**63  # from there on a number counts as the float that it is, if it is one


def untyped(values: Any) -> Any:
    """What has a type already, as it is; anything else as an array of objects, so that no value gives all its type."""
    if hasattr(values, "tocsr"):
        return entered(values)
    if values is None or hasattr(values, "__array__"):
        return values
    return np.array(values, dtype=object)


def columns(X: Any, features: Sequence[Column]) -> Iterator[Sequence[Any] | NDArray[Any]]:
    """The values of each column, (n,); of SciPy's sparse rows unfolded one by one."""
    for j, feature in enumerate(features):
        if is_frame(X):
            found = raw(X, j)
            values = _numbers(found) if isinstance(feature, NumberColumn) else None
            yield held(X, found) if values is None else values
        else:
            yield X[:, [j]].toarray().ravel() if hasattr(X, "toarray") else X[:, j]


def _numbers(column: Any) -> NDArray[Any] | None:
    """The column as NumPy has it, if that is of numbers."""
    try:
        found = np.asarray(column)
    except Exception:  # of a type that NumPy lacks, as Polars' integers of 128 bits
        return None
    return found if found.dtype.kind in "fiub" else None


def plain(value: Any) -> Any:
    """A number as the same object whatever type held it, None for what is none; anything else as it is."""
    match value:
        case bool() | np.bool_():
            return bool(value)
        case np.timedelta64():
            return value
        case int() | np.integer():
            return _plain(int(value))
        case float() | np.floating():
            return _plain(float(value)) if math.isfinite(value) else None
        case date():  # pandas' NaT is one, and is not equal to itself
            return value if value == value else None
        case _:
            return value


def _plain(value: int | float) -> Any:
    """The integer that it is; else the shortest float."""
    if value == (whole := int(value)) and abs(whole) < _WHOLE:
        return whole
    try:
        found = float(value)
    except OverflowError:
        return value
    if found != value:
        return value
    return short if abs(found) < 1e38 and (short := np.float32(found)) == found else found
