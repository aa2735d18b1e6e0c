"""The features of an estimator's model: declared columns, or terms that are computed from them row by row."""

from collections.abc import Iterable, Sequence
from typing import Any

from pydantic import TypeAdapter, ValidationError

from purse.errors import faults
from purse.estimators import declared
from purse.estimators.declared import Floats
from purse.estimators.values import columns
from purse.formulas import formula
from purse.terms import Feature
from purse.wire.columns import Column
from purse.wire.terms import Term

_TERMS: TypeAdapter[list[Term]] = TypeAdapter(list[Term])


def terms_of(terms: Any) -> tuple[Term, ...] | None:
    """Return the terms of an estimator's parameter, or None if the features are the declared columns.

    Parameters
    ----------
    terms : a formula without a left side, the list of terms of a request, or None

    Raises
    ------
    ValueError
        if the formula or a term is malformed, or there is no term.
    """
    if terms is None:
        return None
    if isinstance(terms, str):
        fields = formula(terms)
        if "target" in fields:
            raise ValueError("terms: must have no left side, because fit(X, y) has the target. Leave out ~ and y")
        terms = fields.get("terms", [])
    if not isinstance(terms, Iterable) or not (items := list(terms)):
        raise ValueError("terms: must be a formula such as 'age + I(age**2)', or a list of terms. Add a column")
    try:
        return tuple(_TERMS.validate_python(items))
    except ValidationError as error:
        raise ValueError(f"terms: must be a list of terms: {faults(error, 1, Term)}") from None


def codes_of(columns_of_rows: Sequence[Column], features: Sequence[Feature], X: Any) -> list[Floats]:
    """Return the codes of each feature, (n,) each.

    Parameters
    ----------
    columns_of_rows : the declaration of each column of X
    """
    values = zip(columns_of_rows, columns(X, len(columns_of_rows)), strict=True)
    own = {column.name: declared.codes(column, x) for column, x in values}
    return [feature.codes(own) for feature in features]
