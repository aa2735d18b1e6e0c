"""Readers of the containers that callers pass: NumPy arrays, lists, and columns of pandas, Polars and Arrow.

Each value is read by itself and becomes a double or a Python object. Only the shape and the type of a container, which
are public, decide how it is read. So no value changes how another one is read, and no value raises an error or a
warning. pandas, Polars and Arrow are never imported; they are used if a container belongs to them.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from itertools import chain
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]

_LIBRARIES: Final = {"pandas", "polars", "pyarrow"}
_REAL: Final = (int, float, Decimal, Fraction, np.integer, np.floating, np.bool_)
_NUMBERS: Final = "fiub"  # kinds of NumPy's real numbers
_ARROW_NUMBERS: Final = {"bool", "halffloat", "float", "double"} | {
    f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)
}
_MISSING: Final = {"NAType", "NaTType", "MaskedConstant"}  # the types of pandas.NA, pandas.NaT and numpy.ma.masked
_DAYS: Final = -719_000, 2_932_000  # from 1970-01-01, within Python's calendar
_UNITS_A_DAY: Final = {"ms": 86_400_000, "us": 86_400_000_000}


def library(container: object) -> str | None:
    """Return which of pandas, Polars and Arrow a container belongs to, or None."""
    modules = (kind.__module__.partition(".")[0] for kind in type(container).__mro__)
    return next((module for module in modules if module in _LIBRARIES), None)


def column_names(X: Any) -> list[Any] | None:
    """Return the names of a table's columns, or None if X is not a table or a mapping from names to columns."""
    if isinstance(X, Mapping):
        return list(X)
    if isinstance(X, np.ndarray) or not hasattr(X, "columns"):
        return None
    return list(X.column_names if hasattr(X, "column_names") else X.columns)


def array(values: Any) -> NDArray[Any]:
    """Return a matrix or a column as an array: a typed one as it is, a list of values or of rows as objects.

    Raises
    ------
    ValueError
        if rows of a list differ in length.
    """
    if isinstance(values, np.ma.MaskedArray):
        result: NDArray[Any] = np.ma.getdata(values).astype(object)
        if values.dtype.names is None:  # a structure is not a number, whatever is masked in it
            result[np.ma.getmaskarray(values)] = None
        return result
    if hasattr(values, "__array__"):
        return np.asarray(values)
    if hasattr(values, "to_numpy"):
        return np.asarray(values.to_numpy())
    if not _is_row(values):
        return _filled([values]).reshape(())
    rows = list(values)
    lengths = {len(row) if _is_row(row) else None for row in rows}
    if len(lengths) > 1:
        raise ValueError("the rows of a list must have the same length")
    if lengths <= {None}:
        return _filled(rows)
    return _filled(list(chain.from_iterable(rows))).reshape(len(rows), *lengths)


def column(values: Any) -> Any:
    """Return one column: a library's own as it is, the values of a list as objects, anything else as `array` does.

    The elements of a list are values, even if each is a list: so no element decides how many dimensions there are.
    """
    if library(values) is not None:
        return values
    if isinstance(values, Sequence) and not isinstance(values, (str, bytes)):
        return _filled(list(values))
    return array(values)


def may_hold_numbers(values: Any) -> bool:
    """Return whether the type of a column or an array can hold numbers."""
    return _kind(values) != "others"


def numbers(values: Any, read: Callable[[Any], float] | None = None) -> Vector:
    """Return each value of a column or an array as a double, NaN for what is missing or not a number.

    Parameters
    ----------
    values : a column of pandas, Polars or Arrow, or what `column` or `array` returned
    read : reads a value of a container whose type is not a number's; `number` by default
    """
    with np.errstate(all="ignore"):
        if _kind(values) == "numbers":
            return _doubles(values)
        is_array = isinstance(values, np.ndarray)
        elements = objects(values.ravel() if is_array else values)
        result = np.fromiter(map(read or number, elements), np.float64, len(elements))
        return result.reshape(values.shape) if is_array else result


def objects(values: Any) -> list[Any]:
    """Return each value of a column as an object, None for what is missing.

    A list, a tuple or an array of one value counts as that value: as a column of shape (n, 1) is read.
    """
    return list(map(_object, _elements(values)))


def number(value: Any) -> float:
    """Return the value as a double, NaN if it is not a real number or is too large to be one."""
    if isinstance(value, np.timedelta64) or not isinstance(value, _REAL):  # a timedelta64 is one of NumPy's integers
        return math.nan
    try:
        return float(value)
    except Exception:  # too large, a signaling NaN, or whatever a class of the caller's raises
        return math.nan


def _is_row(element: object) -> bool:
    """Return whether a list's element is a row of a matrix."""
    if isinstance(element, np.ndarray):
        return element.ndim > 0
    return isinstance(element, Sequence) and not isinstance(element, (str, bytes))


def _filled(values: list[Any]) -> NDArray[Any]:
    """Return an array of these objects, (n,), without looking into them."""
    return np.fromiter(values, dtype=object, count=len(values))


def _kind(values: Any) -> Literal["numbers", "objects", "others"]:
    """Return whether the type of a column or an array is one of numbers, of objects that can be numbers, or another."""
    match library(values):
        case "pyarrow":
            is_number = str(values.type) in _ARROW_NUMBERS
            element = str(getattr(values.type, "value_type", values.type))  # of a dictionary
            can_be_number = element in _ARROW_NUMBERS | {"null"} or element.startswith("decimal")
        case "polars":
            is_number = values.dtype.is_integer() or values.dtype.is_float() or str(values.dtype) == "Boolean"
            can_be_number = values.dtype.is_numeric() or str(values.dtype) in ("Null", "Object")
        case _:
            is_number = values.dtype.kind in _NUMBERS
            can_be_number = values.dtype.kind == "O" and values.dtype.type not in (str, bytes)
    return "numbers" if is_number else "objects" if can_be_number else "others"


def _doubles(values: Any) -> Vector:
    """Return a column of a type of numbers as doubles, NaN for what is missing."""
    match library(values):
        case "pandas":
            return np.asarray(values.to_numpy(dtype=np.float64, na_value=math.nan))
        case "polars":
            return np.asarray(values.cast(float).to_numpy())
        case "pyarrow":
            return np.asarray(values.cast("float64", safe=False).to_numpy(zero_copy_only=False))
        case _:
            return np.require(values, dtype=np.float64, requirements=["C", "A"])


def _elements(values: Any) -> Sequence[Any]:
    """Return the values of a column as objects of its library."""
    match library(values):
        case "pandas":
            own = getattr(values, "array", values)
            if hasattr(values.dtype, "pyarrow_dtype"):
                return _elements(own.__arrow_array__())
            if hasattr(values.dtype, "categories"):  # in a column with a missing value, pandas makes floats of integers
                categories = [*_elements(values.dtype.categories), None]
                return [categories[code] for code in own.codes]  # code -1 stands for a missing value
            return list(values.tolist())
        case "polars":
            return _of_polars(values)
        case "pyarrow":
            return list(map(_of_arrow, values))
        case _:
            return list(values) if values.dtype.kind in "mM" else values.tolist()  # `tolist` makes some times integers


def _of_polars(values: Any) -> list[Any]:
    """Return a Polars column's values, None for those that Python does not have.

    Polars ends with a panic at a time beyond Python's calendar. Structures and lists are not values.
    """
    if values.dtype.is_nested():
        return [None] * len(values)
    unit = str(getattr(values.dtype, "time_unit", None))
    if unit in _UNITS_A_DAY or str(values.dtype) == "Date":  # nanoseconds in 64 bits are always within the calendar
        units = _UNITS_A_DAY.get(unit, 1)
        is_inside = values.to_physical().is_between(*(day * units for day in _DAYS)).fill_null(False)
        values = values.zip_with(is_inside, values.clear(len(values)))
    return list(values.to_list())


def _of_arrow(scalar: Any) -> Any:
    """Return an Arrow value, None for one that Python does not have."""
    try:
        return scalar.as_py()
    except Exception:  # beyond Python's calendar, or text that is not UTF-8
        return None


def _object(value: Any) -> Any:
    """Return the value, or None if it is missing or its class raises an error."""
    try:
        element = _only(value)
        return None if _is_missing(element) else element
    except Exception:
        return None


def _only(value: Any) -> Any:
    """Return the value that a list, a tuple or an array of one value holds; anything else as it is."""
    if isinstance(value, (list, tuple)) and len(value) == 1:
        return value[0]
    return value.ravel()[0] if isinstance(value, np.ndarray) and value.size == 1 else value


def _is_missing(value: Any) -> bool:
    """Return whether the value is None, NaN, or what a library has in their place."""
    match value:
        case None:
            return True
        case float() | np.floating():
            return math.isnan(value)
        case Decimal():
            return value.is_nan()
        case np.datetime64() | np.timedelta64():
            return bool(np.isnat(value))
        case _:
            return type(value).__name__ in _MISSING
