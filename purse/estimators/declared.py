"""The public declaration of a matrix: bounds or coding of each number column, categories of each category column."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError

from purse.errors import faults
from purse.estimators.values import numbers, plain, plain_values
from purse.prediction import encode
from purse.values import as_text
from purse.wire.columns import CategoryColumn, Column, NumberColumn
from solvers.columns import Columns

Floats = NDArray[np.float64]
_DECLARATIONS: Final = (NumberColumn, Mapping)


def number(name: str, bounds: Any) -> NumberColumn:
    """Return the column that a pair (lower, upper), a `NumberColumn` or a mapping of its fields declares.

    Raises
    ------
    ValueError
        if the declaration is malformed, or of dates.
    """
    bounds = _of_fields(name, bounds)
    if isinstance(bounds, NumberColumn):
        if bounds.date is not None:
            raise ValueError(
                f"{name} is declared as dates, which are not read here. Make numbers of them, such as days"
            )
        return bounds.model_copy(update={"name": name, "source": None})
    try:
        lower, upper = (float(end) for end in bounds)
        return NumberColumn(name=name, type="number", lower=lower, upper=upper)
    except (TypeError, ValueError):  # a ValidationError is a ValueError
        raise ValueError(f"the bounds of {name} must be two numbers (lower, upper), lower below upper") from None


def missing(estimator: Any, name: str, example: str) -> ValueError:
    """Return the error of an estimator whose target is not declared; it also names columns that are not declared.

    Parameters
    ----------
    name : parameter that declares the target
    example : that parameter with a value
    """
    columns_too = estimator.bounds is None and not estimator.categories
    names = f"{name}, and bounds or categories of the columns," if columns_too else name
    examples = ("bounds={'age': (0, 120)}", "categories={'sex': ['f', 'm']}", example) if columns_too else (example,)
    return ValueError(
        f"{names} must be declared from general knowledge, because the values in the data reveal rows. For example: "
        f"{type(estimator).__name__}({', '.join(examples)})"
    )


def columns(bounds: Any, categories: Any, names: Sequence[Any]) -> tuple[Column, ...]:
    """Return the declaration of each column, in order, with the rules that a new dataset of the service follows.

    Parameters
    ----------
    bounds : (lower, upper) for every column without categories; or declarations of all columns in order, or by name,
        each a pair, a `NumberColumn`, or a mapping of its fields, {"lower": 0, "upper": 50, "origin": 0}
    categories : a mapping from column to its list of values, or None
    names : names of a frame's columns, or positions of an array's

    Raises
    ------
    ValueError
        if a column has neither bounds nor categories, or both, or a declaration is malformed.
    """
    blocks = _by_column("categories", categories or {}, names)
    if bounds is None and len(blocks) < len(names):
        raise ValueError(
            "bounds must be declared from general knowledge, because the data's own range reveals rows. Pass (lower, "
            "upper) or a pair for each column, such as bounds={'age': (0, 120)}. Columns of text need categories "
            "instead, such as categories={'sex': ['f', 'm']}. If the columns are scaled already, use bounds=(-1, 1)"
        )
    if bounds is None or isinstance(bounds, Mapping):
        ranges = _by_column("bounds", bounds or {}, names)
    elif isinstance(bounds, NumberColumn):
        raise ValueError("a NumberColumn describes one column. Pass bounds={name: column}, or a list with one for each")
    elif not any(isinstance(end, _DECLARATIONS) or np.ndim(end) for end in bounds):
        ranges = {name: bounds for name in names if name not in blocks}
    elif len(bounds) == len(names):
        ranges = dict(zip(names, bounds, strict=True))
    else:
        raise ValueError(f"bounds must be one pair, or {len(names)} declarations, one for each column")
    unclear = [str(name) for name in names if (name in blocks) == (name in ranges)]
    if unclear:
        raise ValueError(f"each column must have bounds or categories, and not both. Correct {', '.join(unclear)}")
    return tuple(
        _category(_label(name), blocks[name]) if name in blocks else _number(name, ranges[name]).settled()
        for name in names
    )


def layout(features: Sequence[Column]) -> Columns:
    """Return how an encoded row is laid out."""
    ranges = tuple(f.code_range for f in features if isinstance(f, NumberColumn))
    return Columns(tuple(feature.code_count for feature in features), ranges)


def codes(column: Column, values: Any) -> Floats:
    """Return the code of each value of a column, (n,): a function of the value and the declaration alone."""
    return encode(column, numbers(values) if isinstance(column, NumberColumn) else plain_values(values))


def original(features: Sequence[Column], w: Floats) -> tuple[Floats, Floats]:
    """Return coefficients (K, d - 1) and intercepts (K,) that make the same margins of unencoded, unclamped values."""
    scales = [
        column.middle_and_half if isinstance(column, NumberColumn) else (0.0, 1.0)
        for column in features
        for _ in range(column.code_count)
    ]
    middle, half = np.array(scales).reshape(-1, 2).T
    slopes = w[:, :-1] / half
    return slopes, w[:, -1] - slopes @ middle


def unread(column: Column, values: Any) -> float:
    """Return the share of values that are missing, not numbers, out of bounds or not declared."""
    if isinstance(column, CategoryColumn):
        return float(np.mean(codes(column, values) == len(column.categories)))
    x, (lower, upper) = numbers(values), column.ends
    return float(np.mean(~((lower <= x) & (x <= upper))))


def _label(name: Any) -> str:
    """Return a column's name as messages show it."""
    return name if isinstance(name, str) else f"column {name}"


def _number(name: Any, bounds: Any) -> NumberColumn:
    """Return the result of `number`; a ValueError if the declaration has the name of another column of the frame."""
    label = _label(name)
    bounds = _of_fields(label, bounds)
    if isinstance(name, str) and isinstance(bounds, NumberColumn) and name not in (bounds.name, bounds.of):
        raise ValueError(f"the bounds of {name} are those of a column {bounds.name}. Name each after its own column")
    return number(label, bounds)


def _of_fields(name: str, bounds: Any) -> Any:
    """Return the column that a mapping of fields declares, and any other declaration unchanged."""
    if not isinstance(bounds, Mapping):
        return bounds
    values = {str(key): value.item() if isinstance(value, np.generic) else value for key, value in bounds.items()}
    try:
        return NumberColumn.model_validate({"type": "number", "name": name, **values})
    except ValidationError as error:
        raise ValueError(f"the declaration of {name} is malformed: {faults(error, 1, NumberColumn)}") from None


def _category(name: str, categories: Any) -> CategoryColumn:
    try:
        return CategoryColumn(name=name, type="category", categories=[as_text(plain(value)) for value in categories])
    except (TypeError, ValidationError):
        raise ValueError(f"the categories of {name} must be a list of distinct values, none of them empty") from None


def _by_column(argument: str, declarations: Any, names: Sequence[Any]) -> dict[Any, Any]:
    """Return declarations as a dictionary; a ValueError if they are not a mapping or name unknown columns."""
    if not isinstance(declarations, Mapping):
        raise ValueError(f"{argument} must be a mapping from column to its declaration")
    unknown = [str(name) for name in declarations if name not in names]
    if unknown:
        raise ValueError(f"{argument} are declared for columns that X does not have: {', '.join(unknown)}")
    return dict(declarations)
