"""Estimators' inputs, column by column: `solvers.data_access.containers` reads each value alone.

NumPy gives an array one type: one text among numbers makes texts of all, and one missing flag makes objects of a whole
frame's integers. So lists are read value by value and frames column by column. As a category or a label, equal numbers
are the same value whatever type holds them.
"""

import math
import sys
from collections.abc import Iterator
from datetime import date
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import column_or_1d

from purse.frames import is_frame
from purse.values import as_number
from solvers.data_access import containers
from solvers.data_access.inputs import entered

_WHOLE = 2**63  # from there on a number counts as the float that it is, if it is one


def matrix(X: Any) -> Any:
    """Return a frame with `shape` and columns' names, SciPy's sparse rows, or an array in which no value types others.

    Raises
    ------
    ValueError
        if the shape is not (n, p) or the numbers are complex.
    """
    if hasattr(X, "tocsr"):
        return entered(X)
    if X is not None and not is_frame(X):
        found = _real(containers.array(X))
        if found.ndim < 2:  # scikit-learn's own error would print the data
            raise ValueError(
                f"Expected 2D array, got {found.ndim}D array instead. Reshape your data: (n, p) for p columns."
            )
        return found
    is_batch = type(X).__name__ == "RecordBatch"  # of which scikit-learn reads no names
    return sys.modules["pyarrow"].Table.from_batches([X]) if is_batch else X


def columns(X: Any, count: int) -> Iterator[Any]:
    """Yield each column of what `matrix` returned; of sparse rows unfolded one by one."""
    for place in range(count):
        if is_frame(X):
            yield _column(X, place)
        else:
            yield X[:, [place]].toarray().ravel() if hasattr(X, "toarray") else X[:, place]


def column(values: Any) -> Any:
    """Return a target, or the names of persons, as one column.

    Raises
    ------
    ValueError
        if the shape is not (n,) or (n, 1), or the numbers are complex.
    """
    if is_frame(values):
        frame: Any = values
        if frame.shape[1] != 1:
            raise ValueError(f"y should be a 1d array, got an array of shape {frame.shape} instead.")
        return _column(frame, 0)
    found = containers.column(values)
    return column_or_1d(_real(found), warn=True) if isinstance(found, np.ndarray) else found


def numbers(values: Any) -> NDArray[np.float64]:
    """Return each value of a column as a number, text as an uploaded file has it; NaN for what is not a number."""
    return containers.numbers(values, as_number)


def plain_values(values: Any) -> list[Any]:
    """Return each value of a column as `plain` has it."""
    return list(map(plain, containers.objects(values)))


def plain(value: Any) -> Any:
    """Return a number as the same object whatever type held it, None for a missing value, and else a date or text.

    A value whose own class raises when it is read counts as missing.
    """
    try:
        match value:
            case None | str() | date():
                return value
            case bool() | np.bool_():
                return bool(value)
            case np.timedelta64():  # one of NumPy's integers
                return str(value)
            case int() | np.integer():
                return _shortest(int(value))
            case float() | np.floating():
                return _shortest(float(value)) if math.isfinite(value) else None
            case _:
                return str(value)
    except Exception:
        return None


def _real(found: NDArray[Any]) -> NDArray[Any]:
    """Return the array; a ValueError if its type is complex, before scikit-learn raises one that prints the data."""
    if found.dtype.kind == "c":
        raise ValueError(f"Complex data not supported: hand in real numbers, not {found.dtype}.")
    return found


def _column(frame: Any, place: int) -> Any:
    """Return a column of a frame as its library has it."""
    match containers.library(frame):
        case "pandas":
            return frame.iloc[:, place]
        case "polars":
            return frame.to_series(place)
        case _:
            return frame.column(place)


def _shortest(value: int | float) -> Any:
    """Return the integer that the number is, or the shortest float; raise OverflowError for a number too large."""
    if value == (whole := int(value)) and abs(whole) < _WHOLE:
        return whole
    found = float(value)
    if found != value:
        return value
    return short if abs(found) < 1e38 and (short := np.float32(found)) == found else found
