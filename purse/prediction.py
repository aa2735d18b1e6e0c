"""Predictions of a released model: link(intercept + sum of coefficient * encoded value), see `purse.wire.models`."""

import csv
import io
import math
import warnings
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from purse import dates
from purse.coding import codes_of, default_code
from purse.frames import Rows, columns, written
from purse.terms import Feature, features_of
from purse.values import as_number, as_text
from purse.wire.columns import CategoryColumn, Column, NumberColumn
from purse.wire.files import PLAIN, SPACE, DatePart, Dialect
from purse.wire.models import Model


class UnsupportedCategory(UserWarning):
    """Rows hold categories that the released shares cannot tell from categories without training rows."""


def predict(model: Model, rows: Rows, dialect: Dialect = PLAIN) -> NDArray[Any]:
    """Return a model's predictions for rows. A missing or unreadable value is replaced by its column's default.

    Parameters
    ----------
    rows : n mappings from column name to value, or a frame of pandas, Polars or Arrow. None, NaN and "" are missing
        values. The columns are those of the model, by their names or by their names in the dataset's file; the target
        may be present too. A date column takes dates, times, text in the dialect, or the number that the column stores
    dialect : how text is written; text that is not a number or date in this dialect is unreadable

    Returns
    -------
    (n,) array. P(positive class) for link logistic; the class for link sign; for link identity the target in its own
    units, clipped to its declared range; for link log the mean count, at most its declared upper bound. For link
    softmax an (n, K) array of P(class), in the order of `model.classes`.

    Raises
    ------
    ValueError
        if the rows lack a column of the model, or hold a column that is not in the model.

    Warns
    -----
    UnsupportedCategory
        if rows hold categories of `model.unsupported_categories`, whose coefficient is 0. A model without released
        means (preparation declared) cannot detect this.
    """
    return of_margins(model, margins_of(model, rows, dialect))


def of_margins(model: Model, margins: NDArray[np.float64]) -> NDArray[Any]:
    """Return the predictions for margins of shape (n, 1) or (n, K)."""
    if model.link == "softmax":
        return _softmax(model, margins)
    if margins.shape[1] != 1:
        raise ValueError("The model has several rows of coefficients, which needs link softmax. Download it again.")
    margin = margins[:, 0]
    if model.link == "logistic":
        probability: NDArray[Any] = np.exp(-np.logaddexp(0.0, -margin))
        return probability
    if model.link == "sign":
        if model.classes is None or len(model.classes) != 2:
            raise ValueError("The model has link sign but not two classes: `classes` must hold two names.")
        negative, positive = model.classes
        return np.where(margin > 0, positive, negative)
    return predicted_numbers(number_target(model.target), margin, is_log=model.link == "log")


def predicted_numbers(target: NumberColumn, margin: NDArray[np.float64], *, is_log: bool) -> NDArray[np.float64]:
    """Return the target in its unit, clipped to its declared range; for log margins the mean count, at most upper."""
    if is_log:
        return np.asarray(np.exp(np.minimum(margin, math.log(target.upper))))
    middle, half = target.middle_and_half
    return np.clip(middle + half * margin, target.lower, target.upper)


def margins_of(model: Model, rows: Rows, dialect: Dialect = PLAIN) -> NDArray[np.float64]:
    """Return intercept + sum of coefficient * encoded value: shape (n, 1), or (n, K) for link softmax."""
    coefficients, intercepts = weights_of(model)
    codes, n = _encoded(model, rows, dialect)
    return sums(model.features, codes, np.tile(intercepts, (n, 1)), coefficients)


def sums(
    features: Sequence[Column],
    codes: Sequence[NDArray[np.float64]],
    intercepts: NDArray[np.float64],
    coefficients: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Return intercepts (n, K) + the sum of coefficient * encoded value, for coefficients of shape (K, p)."""
    for column, code, start in zip(features, codes, _starts(features), strict=True):
        if isinstance(column, CategoryColumn):
            intercepts += coefficients[:, start + code.astype(np.int64)].T
        else:
            intercepts += code[:, None] * coefficients[:, start]
    return intercepts


def design(model: Model, rows: Rows, dialect: Dialect = PLAIN) -> NDArray[np.float64]:
    """Return the encoded values of rows, (n, p)."""
    codes, n = _encoded(model, rows, dialect)
    matrix = np.zeros((n, sum(column.code_count for column in model.features)))
    for column, code, start in zip(model.features, codes, _starts(model.features), strict=True):
        if isinstance(column, CategoryColumn):
            matrix[np.arange(n), start + code.astype(np.int64)] = 1.0
        else:
            matrix[:, start] = code
    return matrix


def weights_of(model: Model) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the coefficients (K, p) and the intercepts (K,), one row for each margin."""
    coefficients = np.atleast_2d(model.coefficients)
    intercepts = np.atleast_1d(model.intercept)
    if coefficients.shape != (len(intercepts), sum(column.code_count for column in model.features)):
        raise ValueError(
            "The coefficients do not match the features and intercepts in number. Download the model again."
        )
    return coefficients.astype(np.float64), intercepts.astype(np.float64)


def number_target(column: Column) -> NumberColumn:
    """Return the target of a model with link identity or log; a ValueError for a category."""
    if not isinstance(column, NumberColumn):
        raise ValueError("The target must be a number column for link identity or log; this one is a category.")
    return column


def _encoded(model: Model, rows: Rows, dialect: Dialect) -> tuple[list[NDArray[np.float64]], int]:
    """Return the codes of each feature and the number of rows; warn of unsupported categories among them."""
    values, n = _feature_values(model, rows)
    encoded = {column.name: encode(column, values[column.name], dialect) for column in model.row_columns}
    codes = [feature.codes(encoded) for feature in model_features(model)]
    affected = affected_columns(model.features, codes, np.array(model.unsupported, dtype=bool))
    if affected:
        reason = "coefficients are 0" if model.intervals is None else "coefficients are noise"
        warnings.warn(
            f"Some rows hold categories whose {reason}, in columns: {', '.join(affected)}. The released shares cannot "
            "tell these categories from categories without training rows. `model.unsupported_categories` lists them.",
            UnsupportedCategory,
            stacklevel=5,
        )
    return codes, n


def model_features(model: Model) -> list[Feature]:
    """Return the features of a model; a ValueError if its terms do not make them."""
    features = features_of(model.row_columns, model.terms)
    if [feature.column for feature in features] != model.features:
        raise ValueError("The terms of the model do not make its features: another version made it. Update the client.")
    return features


def affected_columns(
    features: Sequence[Column], codes: Sequence[NDArray[np.float64]], is_unsupported: NDArray[np.bool_]
) -> list[str]:
    """Return the names of columns whose codes hold a category that the released shares do not support."""
    return [
        column.name
        for column, code, start in zip(features, codes, _starts(features), strict=True)
        if isinstance(column, CategoryColumn) and is_unsupported[start + code.astype(np.int64)].any()
    ]


def _starts(features: Sequence[Column]) -> list[int]:
    """Return the index of each column's first coefficient."""
    return [*accumulate((column.code_count for column in features), initial=0)][:-1]


def _feature_values(model: Model, rows: Rows) -> tuple[dict[str, list[object]], int]:
    """Return the values of the model's columns, and the number of rows."""
    values = columns(rows)
    n = len(next(iter(values.values()))) if values else len(rows) if isinstance(rows, Sequence) else 0
    if not n:
        return {column.name: [] for column in model.row_columns}, 0
    names = {column.name: column.name if column.name in values else column.of for column in model.row_columns}
    missing = [name for name in names.values() if name not in values]
    unknown = [name for name in values if name not in {*names.values(), model.target.name, model.target.of}]
    problems = []
    if missing:
        problems.append(f"Missing columns: {', '.join(missing)}")
    if unknown:
        problems.append(f"Columns that are not in the model: {', '.join(unknown)}")
    if problems:
        raise ValueError(
            f"The columns of the rows do not match the model. {'. '.join(problems)}. "
            f"Pass exactly these columns: {', '.join(names)}."
        )
    return {name: values[source] for name, source in names.items()}, n


def _softmax(model: Model, margins: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the result of `softmax`; a ValueError if there is not one margin for each class."""
    if model.classes is None or len(model.classes) != margins.shape[1]:
        raise ValueError("A model with link softmax must have one row of coefficients for each of its classes.")
    return softmax(margins)


def as_csv(classes: Sequence[str] | None, predictions: Iterable[Any]) -> str:
    """Return predictions as CSV with one column, or with one for each of these classes."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(classes or ["prediction"])
    writer.writerows(row if classes else [row] for row in predictions)
    return file.getvalue()


def softmax(margins: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return e^margin / sum of e^margin for each row of (n, K) margins."""
    weights = np.exp(margins - margins.max(axis=1, keepdims=True))
    probabilities: NDArray[np.float64] = weights / weights.sum(axis=1, keepdims=True)
    return probabilities


def encode(column: Column, values: Sequence[object] | NDArray[Any], dialect: Dialect = PLAIN) -> NDArray[np.float64]:
    """Return the code of each value, (n,): a number in [-1, 1], or a category's index; "other" comes last."""
    if dialect.nulls:
        values = [None if as_text(value).strip(SPACE) in dialect.nulls else value for value in values]
    if isinstance(column, NumberColumn):
        x = numbers(values, dialect, column.date)
        return np.where(np.isfinite(x), codes_of(column, x), default_code(column))
    if column.date is not None:
        values = numbers(values, dialect, column.date)
    return _category_indices(column, values, dialect)


def numbers(
    values: Sequence[object] | NDArray[Any], dialect: Dialect = PLAIN, date: DatePart | None = None
) -> NDArray[np.float64]:
    """Return each value as a number, or for a date the part that the column stores; NaN if it is not a number."""
    if isinstance(values, np.ndarray) and values.dtype.kind in "fiub":
        return values.astype(np.float64)
    if date is None:
        return np.array([as_number(value, dialect) for value in values], dtype=np.float64)
    already = np.array([math.nan if isinstance(value, str) else as_number(value) for value in values])
    return np.where(np.isnan(already), dates.numbers(values, dialect.date_format, date), already)


def _category_indices(
    column: CategoryColumn, values: Sequence[object] | NDArray[Any], dialect: Dialect
) -> NDArray[np.float64]:
    """Return the index of each value's category, found by its text in a typed file or in a frame's file.

    A value without such a text counts as the column's default, also if its own class raises when it is read.
    """
    codes = {category: code for code, category in enumerate(column.categories)}
    default = column.default_code

    def index(value: object) -> int:
        try:
            text = as_text(value)
            code = codes.get(text, codes.get(text.strip(SPACE)))
            if code is None and not isinstance(value, str):
                code = codes.get(written([value], dialect)[0])
        except Exception:
            return default
        return default if code is None else code

    return np.array([index(value) for value in values], dtype=np.float64)
