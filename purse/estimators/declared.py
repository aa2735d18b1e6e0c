"""The declaration of a matrix: of each column its public bounds, or more of how it is coded, or its categories.

None of it is read off the data.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError

from purse.errors import faults
from purse.estimators.values import numbers, plain, plain_values
from purse.prediction import encode, number_scale
from purse.values import as_text
from purse.wire.columns import CategoryColumn, Column, NumberColumn
from purse.wire.models import width
from solvers.columns import Columns

Floats = NDArray[np.float64]
_FULL = (NumberColumn, Mapping)


def number(name: str, bounds: Any) -> NumberColumn:
    """A number in [lower, upper], or as a `NumberColumn` or its fields say; a ValueError that names it for all else."""
    if isinstance(bounds, Mapping):
        bounds = _of_fields(name, bounds)
    if isinstance(bounds, NumberColumn):
        if bounds.date is not None:
            raise ValueError(
                f"{name} is declared as dates, which are not read here: make numbers of them, in days, say"
            )
        return bounds.model_copy(update={"name": name, "source": None})
    try:
        lower, upper = (float(end) for end in bounds)
        return NumberColumn(name=name, type="number", lower=lower, upper=upper)
    except (TypeError, ValueError):  # a ValidationError is one
        raise ValueError(f"the bounds of {name} must be two numbers (lower, upper), lower below upper") from None


def columns(bounds: Any, categories: Any, names: Sequence[Any]) -> tuple[Column, ...]:
    """The declaration of each column, in order, as a new dataset of the service has it.

    Parameters
    ----------
    bounds : (lower, upper) for every column without categories; or one of each column, in order, or by name: a pair, a
        `NumberColumn`, or a mapping of its fields, {"lower": 0, "upper": 50, "origin": 0}
    categories : a mapping from column to its list of values; None if there is none
    names : of the columns, of a frame as text, of an array their positions

    Raises
    ------
    ValueError
        if a column has neither bounds nor categories, or both, or what is declared is no column or not that.
    """
    blocks = _named("categories", categories or {}, names)
    if bounds is None and len(blocks) < len(names):
        raise ValueError(
            "bounds must be declared, (lower, upper) or a pair for each column, from what you know: the data's own "
            "range would tell of its rows. Of columns that are scaled already say bounds=(-1, 1)"
        )
    if bounds is None or isinstance(bounds, Mapping):
        ranges = _named("bounds", bounds or {}, names)
    elif isinstance(bounds, NumberColumn):
        raise ValueError("a NumberColumn is of one column: say of which, as bounds={name: column} or in a list of all")
    elif not any(isinstance(end, _FULL) or np.ndim(end) for end in bounds):
        ranges = {name: bounds for name in names if name not in blocks}
    elif len(bounds) == len(names):
        ranges = dict(zip(names, bounds, strict=True))
    else:
        raise ValueError(f"bounds must be one pair, or {len(names)} declarations, one for each column")
    odd = [str(name) for name in names if (name in blocks) == (name in ranges)]
    if odd:
        raise ValueError(f"each column has either bounds or categories; look at {', '.join(odd)}")
    found: list[Column] = []
    for name in names:
        said = _said(name)
        found.append(_block(said, blocks[name]) if name in blocks else _number(name, ranges[name]).settled())
    return tuple(found)


def layout(features: Sequence[Column]) -> Columns:
    """How a coded row is laid out."""
    ranges = tuple(f.code_range for f in features if isinstance(f, NumberColumn))
    return Columns(tuple(map(width, features)), ranges)


def margins(features: Sequence[Column], codes: Sequence[Floats], w: Floats) -> Floats:
    """(n, K): W'x of coded rows, for W of shape (K, d), the constant's column the last."""
    found, at = np.tile(w[:, -1], (len(codes[0]), 1)), 0
    for column, code in zip(features, codes, strict=True):
        block = w[:, at : at + width(column)]
        found += np.outer(code, block[:, 0]) if isinstance(column, NumberColumn) else block[:, code.astype(int)].T
        at += width(column)
    return found


def codes(column: Column, values: Any) -> Floats:
    """Return the code of each value of a column, (n,): a function of that value and the declaration alone."""
    return encode(column, numbers(values) if isinstance(column, NumberColumn) else plain_values(values))


def original(features: Sequence[Column], w: Floats) -> tuple[Floats, Floats]:
    """Coefficients (K, d - 1) and intercepts (K,) of values as they are, where none is clamped: the same margins."""
    scales = [number_scale(c) if isinstance(c, NumberColumn) else (0.0, 1.0) for c in features for _ in range(width(c))]
    middle, half = np.array(scales).reshape(-1, 2).T
    slopes = w[:, :-1] / half
    return slopes, w[:, -1] - slopes @ middle


def unread(column: Column, values: Any) -> float:
    """The share of values that are none, clamped or not declared."""
    if isinstance(column, CategoryColumn):
        return float(np.mean(codes(column, values) == len(column.categories)))
    x, (lower, upper) = numbers(values), column.ends
    return float(np.mean(~((lower <= x) & (x <= upper))))


def _said(name: Any) -> str:
    return name if isinstance(name, str) else f"column {name}"


def _number(name: Any, bounds: Any) -> NumberColumn:
    """As `number`; in a frame what says another column's name is refused: it was meant for that one."""
    said = _said(name)
    if isinstance(bounds, Mapping):
        bounds = _of_fields(said, bounds)
    if isinstance(name, str) and isinstance(bounds, NumberColumn) and name not in (bounds.name, bounds.of):
        raise ValueError(f"the bounds of {name} are those of a column {bounds.name}: name each after its own column")
    return number(said, bounds)


def _of_fields(name: str, fields: Mapping[Any, Any]) -> NumberColumn:
    plain = {str(key): value.item() if isinstance(value, np.generic) else value for key, value in fields.items()}
    try:
        return NumberColumn.model_validate({"type": "number", "name": name, **plain})
    except ValidationError as error:
        raise ValueError(
            f"what is declared of {name} is no column of numbers: {faults(error, 1, NumberColumn)}"
        ) from None


def _block(name: str, categories: Any) -> CategoryColumn:
    try:
        return CategoryColumn(name=name, type="category", categories=[as_text(plain(value)) for value in categories])
    except (TypeError, ValidationError):
        raise ValueError(f"the categories of {name} must be a list of distinct values, none of them empty") from None


def _named(what: str, declared: Any, names: Sequence[Any]) -> dict[Any, Any]:
    if not isinstance(declared, Mapping):
        raise ValueError(f"{what} must be a mapping from column to what is declared of it")
    unknown = [str(name) for name in declared if name not in names]
    if unknown:
        raise ValueError(f"{what} are declared of what is no column: {', '.join(unknown)}")
    return dict(declared)
