"""Inputs of estimators, read column by column; `solvers.data_access.containers` reads each value alone.

A NumPy array has one type: one text among numbers turns all into text, and one missing flag turns a frame's integers
into objects. Lists are therefore read value by value and frames column by column. As categories and labels, equal
numbers of different types are the same value.
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

_MAX_INTEGER = 2**63  # larger numbers count as floats, if they are floats


def matrix(X: Any) -> Any:
    """Return X as a frame with `shape` and column names, as SciPy's sparse rows, or as an array.

    The array keeps the type of each value, also if the others have another type.

    Raises
    ------
    ValueError
        if the shape is not (n, p) or the numbers are complex.
    """
    if hasattr(X, "tocsr"):
        return entered(X)
    if X is not None and not is_frame(X):
        array = _real(containers.array(X))
        if array.ndim < 2:  # scikit-learn's own error would print the data
            raise ValueError(
                f"Expected 2D array, got {array.ndim}D array instead. Reshape your data: (n, p) for p columns."
            )
        return array
    is_batch = type(X).__name__ == "RecordBatch"  # scikit-learn does not read its names
    return sys.modules["pyarrow"].Table.from_batches([X]) if is_batch else X


def columns(X: Any, count: int) -> Iterator[Any]:
    """Yield each column of a result of `matrix`; sparse columns become dense one at a time."""
    for index in range(count):
        if is_frame(X):
            yield _column(X, index)
        else:
            yield X[:, [index]].toarray().ravel() if hasattr(X, "toarray") else X[:, index]


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
    single = containers.column(values)
    return column_or_1d(_real(single), warn=True) if isinstance(single, np.ndarray) else single


def numbers(values: Any) -> NDArray[np.float64]:
    """Return each value of a column as a number, reading text as in an uploaded file; NaN if it is not a number."""
    return containers.numbers(values, as_number)


def plain_values(values: Any) -> list[Any]:
    """Return the result of `plain` for each value of a column."""
    return list(map(plain, containers.objects(values)))


def plain(value: Any) -> Any:
    """Return a number as the same object for every type, None for a missing value, otherwise a date or text.

    A value whose own class raises an error when it is read counts as missing.
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


def _real(array: NDArray[Any]) -> NDArray[Any]:
    """Return the array; a ValueError if its type is complex, because scikit-learn's own error prints the data."""
    if array.dtype.kind == "c":
        raise ValueError(f"Complex data not supported. Pass real numbers, not {array.dtype}.")
    return array


def _column(frame: Any, index: int) -> Any:
    """Return a column of a frame in the type of its library."""
    match containers.library(frame):
        case "pandas":
            return frame.iloc[:, index]
        case "polars":
            return frame.to_series(index)
        case _:
            return frame.column(index)


def _shortest(value: int | float) -> Any:
    """Return the number as an integer or as the shortest float. Raise OverflowError if it is too large."""
    if value == (whole := int(value)) and abs(whole) < _MAX_INTEGER:
        return whole
    number = float(value)
    if number != value:
        return value
    return short if abs(number) < 1e38 and (short := np.float32(number)) == number else number
