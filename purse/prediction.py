"""prediction = link(intercept + sum of coefficient * encoded value), as `purse.wire.models.Model` defines it."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from purse import dates
from purse.frames import Rows, columns, written
from purse.values import as_number, as_text
from purse.wire.columns import CategoryColumn, Column, NumberColumn
from purse.wire.files import PLAIN, SPACE, DatePart, Dialect
from purse.wire.models import Model

_TINY = 2.0**-300


def predict(model: Model, rows: Rows, dialect: Dialect = PLAIN) -> NDArray[Any]:
    """Predictions for rows given by column name; a value that is missing or cannot be read becomes the default.

    Parameters
    ----------
    rows : n mappings from column name to value, or a frame of pandas, Polars or Arrow; None, NaN and "" are missing.
        All of the model's columns, by their names or those that the dataset's file has, and no others but its target.
        Of a date column dates, times, text in the dialect, or the number that the column asks of a date
    dialect : how text is written; what is no number or no date in it cannot be read

    Returns
    -------
    (n,) array: P(positive class) for link logistic, the class for link sign, the target in its own units for link
    identity. For link softmax (n, K): P(class), a column for each of `model.classes`.

    Raises
    ------
    ValueError
        if a column of the model is not there, or one is that the model does not know.
    """
    return of_margins(model, margins_of(model, rows, dialect))


def of_margins(model: Model, margins: NDArray[np.float64]) -> NDArray[Any]:
    """The link of margins, (n, 1) or (n, K)."""
    if model.link == "softmax":
        return _softmax(model, margins)
    if margins.shape[1] != 1:
        raise ValueError("only a model with link softmax has more than one margin")
    margin = margins[:, 0]
    if model.link == "logistic":
        probability: NDArray[Any] = np.exp(-np.logaddexp(0.0, -margin))
        return probability
    if model.link == "sign":
        if model.classes is None or len(model.classes) != 2:
            raise ValueError("a model with link sign has two classes")
        negative, positive = model.classes
        return np.where(margin > 0, positive, negative)
    middle, half = number_scale(model.target)
    return middle + margin * half


def margins_of(model: Model, rows: Rows, dialect: Dialect = PLAIN) -> NDArray[np.float64]:
    """intercept + sum of coefficient * encoded value, shape (n, 1), or (n, K) where there are several of each."""
    coefficients, intercepts = weights_of(model)
    held, n = _known(model, rows)
    margins, at = np.tile(intercepts, (n, 1)), 0
    for column in model.features:
        values = encode(column, held[column.name], dialect)
        if isinstance(column, CategoryColumn):
            margins += coefficients[:, at + values.astype(np.int64)].T
        else:
            margins += values[:, None] * coefficients[:, at]
        at += width(column)
    return margins


def design(model: Model, rows: Rows) -> NDArray[np.float64]:
    """The encoded values, (n, p), that a margin is linear in."""
    held, n = _known(model, rows)
    found, at = np.zeros((n, sum(map(width, model.features)))), 0
    for column in model.features:
        values = encode(column, held[column.name])
        if isinstance(column, CategoryColumn):
            found[np.arange(n), at + values.astype(np.int64)] = 1.0
        else:
            found[:, at] = values
        at += width(column)
    return found


def weights_of(model: Model) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Coefficients (K, p) and intercepts (K,), a row for each margin."""
    coefficients, intercepts = np.atleast_2d(model.coefficients), np.atleast_1d(model.intercept)
    if coefficients.shape != (len(intercepts), sum(map(width, model.features))):
        raise ValueError("the model's coefficients do not match its features and intercepts")
    return coefficients.astype(np.float64), intercepts.astype(np.float64)


def number_scale(column: Column) -> tuple[float, float]:
    """(middle, half) of a number's code: the value is middle + half * code."""
    if not isinstance(column, NumberColumn):
        raise ValueError("a model with link identity has a number as its target")
    lower, upper = column.lower, column.upper
    return column.coding or ((lower + upper) / 2, (upper - lower) / 2)


def width(column: Column) -> int:
    """How many coefficients a column has."""
    return len(column.categories) + 1 if isinstance(column, CategoryColumn) else 1


def _known(model: Model, rows: Rows) -> tuple[dict[str, list[object]], int]:
    """The values of the model's columns, and how many rows they are."""
    held = columns(rows)
    n = len(next(iter(held.values()))) if held else len(rows) if isinstance(rows, Sequence) else 0
    if not n:
        return {column.name: [] for column in model.features}, 0
    names = {column.name: column.name if column.name in held else column.of for column in model.features}
    lacking = [name for name in names.values() if name not in held]
    unknown = [name for name in held if name not in {*names.values(), model.target.name, model.target.of}]
    if lacking or unknown:
        said = {"it lacks": lacking, "the model does not know": unknown}
        parts = "; ".join(f"{what} {', '.join(which)}" for what, which in said.items() if which)
        raise ValueError(f"the columns are not the model's: {parts}")
    return {name: held[at] for name, at in names.items()}, n


def _softmax(model: Model, margins: NDArray[np.float64]) -> NDArray[np.float64]:
    """e^margin / sum of e^margin, row by row."""
    if model.classes is None or len(model.classes) != margins.shape[1]:
        raise ValueError("a model with link softmax has a class for each margin")
    weights = np.exp(margins - margins.max(axis=1, keepdims=True))
    probabilities: NDArray[np.float64] = weights / weights.sum(axis=1, keepdims=True)
    return probabilities


def encode(column: Column, values: Sequence[object] | NDArray[Any], dialect: Dialect = PLAIN) -> NDArray[np.float64]:
    """The code of each value, (n,): a number in [-1, 1], or a category's position; "other" comes last."""
    if dialect.nulls:
        values = [None if as_text(value).strip(SPACE) in dialect.nulls else value for value in values]
    if isinstance(column, NumberColumn):
        return _scaled(column, numbers(values, dialect, column.date))
    if column.date is not None:
        values = numbers(values, dialect, column.date)
    return _positions(column, values, dialect)


def numbers(
    values: Sequence[object] | NDArray[Any], dialect: Dialect = PLAIN, date: DatePart | None = None
) -> NDArray[np.float64]:
    """Each value as a number, of a date what is asked of it; NaN for what is none."""
    if isinstance(values, np.ndarray) and values.dtype.kind in "fiub":
        return values.astype(np.float64)
    if date is None:
        return np.array([as_number(value, dialect) for value in values], dtype=np.float64)
    already = np.array([math.nan if isinstance(value, str) else as_number(value) for value in values])
    return np.where(np.isnan(already), dates.numbers(values, dialect.date_format, date), already)


def _scaled(column: NumberColumn, x: NDArray[np.float64]) -> NDArray[np.float64]:
    """The code of each number as the column declares it; the default's where it is not finite."""
    return np.where(np.isfinite(x), _codes(column, x), default_code(column))


def default_code(column: NumberColumn) -> float:
    """The code of a missing number."""
    if column.default is None and column.coding is None:
        return 0.0
    default = column.lower / 2 + column.upper / 2 if column.default is None else column.default
    return float(_codes(column, np.array([default]))[0])


def _codes(column: NumberColumn, x: NDArray[np.float64]) -> NDArray[np.float64]:
    """((x - lower) - (upper - x)) / (upper - lower) after clamping, or (x - origin) / scale, clamped."""
    inside = np.clip(x, column.lower, column.upper)
    if column.coding is None:
        return np.asarray(((inside - column.lower) - (column.upper - inside)) / (column.upper - column.lower))
    origin, scale = column.coding
    return nearest(np.clip((inside - origin) / scale, -1.0, 1.0))


def nearest(codes: NDArray[np.float64]) -> NDArray[np.float64]:
    """0 for a code so near to it that products of codes would leave the range in which every product takes as long as
    any other: a record of such codes took twenty times as long, and told of itself by that.
    """
    return np.where(np.abs(codes) < _TINY, 0.0 * codes, codes)


def _positions(
    column: CategoryColumn, values: Sequence[object] | NDArray[Any], dialect: Dialect
) -> NDArray[np.float64]:
    """Return each value's position, found by its text as a typed file has it or as a frame's file in this dialect does.

    A value without such a text counts as the column's default, whatever its own class raises when it is asked for one.
    """
    codes = {category: code for code, category in enumerate(column.categories)}
    other = len(codes) if column.default is None else codes[column.default]

    def code(value: object) -> int:
        try:
            text = as_text(value)
            found = codes.get(text, codes.get(text.strip(SPACE)))
            if found is None and not isinstance(value, str):
                found = codes.get(written([value], dialect)[0])
        except Exception:
            return other
        return other if found is None else found

    return np.array([code(value) for value in values], dtype=np.float64)
