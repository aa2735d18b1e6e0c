"""prediction = link(intercept + sum of coefficient * encoded value), as `purse.wire.models.Model` defines it."""

import math
import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from purse.wire.datasets import CategoryColumn, Column, NumberColumn
from purse.wire.models import Model

_SPACE: Final = " \t\n\v\f\r"
_NUMBER: Final = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")


def predict(model: Model, rows: Sequence[Mapping[str, object]]) -> NDArray[Any]:
    """Predictions for rows given by column name; what a row lacks or what cannot be read becomes the declared default.

    Parameters
    ----------
    rows : n mappings from column name to value; None, NaN and "" are missing

    Returns
    -------
    (n,) array: P(positive class) for link logistic, the class for link sign, the target in its own units for link
    identity. For link softmax (n, K): P(class), a column for each of `model.classes`.
    """
    margins = _margins(model, rows)
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
    if not isinstance(model.target, NumberColumn):
        raise ValueError("a model with link identity has a number as its target")
    lower, upper = model.target.lower, model.target.upper
    middle, half = model.target.coding or ((lower + upper) / 2, (upper - lower) / 2)
    return middle + margin * half


def _margins(model: Model, rows: Sequence[Mapping[str, object]]) -> NDArray[np.float64]:
    """intercept + sum of coefficient * encoded value, shape (n, 1), or (n, K) where there are several of each."""
    coefficients, intercepts = np.atleast_2d(model.coefficients), np.atleast_1d(model.intercept)
    widths = [len(c.categories) + 1 if isinstance(c, CategoryColumn) else 1 for c in model.features]
    if coefficients.shape != (len(intercepts), sum(widths)):
        raise ValueError("the model's coefficients do not match its features and intercepts")
    margins, at = np.tile(intercepts.astype(np.float64), (len(rows), 1)), 0
    for column, width in zip(model.features, widths, strict=True):
        values = encode(column, [row.get(column.name) for row in rows])
        if isinstance(column, CategoryColumn):
            margins += coefficients[:, at + values.astype(np.int64)].T
        else:
            margins += values[:, None] * coefficients[:, at]
        at += width
    return margins


def _softmax(model: Model, margins: NDArray[np.float64]) -> NDArray[np.float64]:
    """e^margin / sum of e^margin, row by row."""
    if model.classes is None or len(model.classes) != margins.shape[1]:
        raise ValueError("a model with link softmax has a class for each margin")
    weights = np.exp(margins - margins.max(axis=1, keepdims=True))
    probabilities: NDArray[np.float64] = weights / weights.sum(axis=1, keepdims=True)
    return probabilities


def encode(column: Column, values: Sequence[object]) -> NDArray[np.float64]:
    """The code of each value, (n,): a number in [-1, 1], or a category's position; "other" comes last."""
    if isinstance(column, NumberColumn):
        return _scaled(column, [_number(value) for value in values])
    return _positions(column, values)


def _scaled(column: NumberColumn, numbers: Sequence[float]) -> NDArray[np.float64]:
    """The code of each number as the column declares it; the default's where it is not finite."""
    default = column.lower / 2 + column.upper / 2 if column.default is None else column.default
    missing = 0.0 if column.default is None and column.coding is None else _codes(column, np.array([default]))[0]
    x = np.array(numbers, dtype=np.float64)
    return np.where(np.isfinite(x), _codes(column, x), missing)


def _codes(column: NumberColumn, x: NDArray[np.float64]) -> NDArray[np.float64]:
    """((x - lower) - (upper - x)) / (upper - lower) after clamping, or (x - origin) / scale, clamped."""
    inside = np.clip(x, column.lower, column.upper)
    if column.coding is None:
        return np.asarray(((inside - column.lower) - (column.upper - inside)) / (column.upper - column.lower))
    origin, scale = column.coding
    return np.clip((inside - origin) / scale, -1.0, 1.0)


def _positions(column: CategoryColumn, values: Sequence[object]) -> NDArray[np.float64]:
    codes = {category: code for code, category in enumerate(column.categories)}
    other = len(codes) if column.default is None else codes[column.default]
    texts = [_text(value) for value in values]
    return np.array([codes.get(t, codes.get(t.strip(_SPACE), other)) for t in texts], dtype=np.float64)


def _number(value: object) -> float:
    """The value as a number; NaN if it is none. Text is read as in an uploaded file: no nan, inf or 1_000."""
    match value:
        case str():
            text = value.strip(_SPACE)
            return float(text) if _NUMBER.fullmatch(text) else math.nan
        case int() | float() | Decimal() | np.number() | np.bool_():
            try:
                return float(value)
            except OverflowError:
                return math.nan
        case _:
            return math.nan


def _text(value: object) -> str:
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
