"""Estimators with terms: powers, splines and interactions of declared columns, computed row by row."""

import pickle
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone

import purse
from purse.estimators.designs import terms_of

N = 8000
DECLARED: dict[str, Any] = {
    "bounds": {"age": (20, 80)},
    "categories": {"ward": ["a", "b", "c"]},
    "target_bounds": (-10, 10),
    "delta": 1e-6,
}
TERMS = "ward + I((age - 50) / 10) + I(((age - 50) / 10)**2)"


def people() -> tuple[dict[str, Any], Any]:
    rng = np.random.default_rng(0)
    age, ward = rng.uniform(20, 80, N), rng.choice(["a", "b", "c"], N)
    decades = (age - 50) / 10
    return {"age": age, "ward": ward}, 0.5 * decades**2 - decades + (ward == "b") + 0.3 * rng.normal(size=N)


def frame(rows: dict[str, Any]) -> Any:
    pandas = pytest.importorskip("pandas")
    return pandas.DataFrame(rows)


@pytest.mark.usefixtures("same_noise")
def test_a_table_of_a_formula_has_a_line_for_each_term() -> None:
    rows, y = people()
    fitted = purse.PrivateLinearRegression(8.0, terms=TERMS, inference=True, **DECLARED).fit(frame(rows), y)
    table = fitted.regression_
    square = "((age - 50) / 10)^2"
    for term, true in {square: 0.5, "((age - 50) / 10)": -1.0, "ward = b": 1.0, "ward = c": 0.0}.items():
        assert abs(table.params[term] - true) < 6 * table.bse[term]
    assert square in fitted.coef_names_
    expected = 0.5 * 2.0**2 - 2.0 + 1.0
    assert fitted.predict(frame({"age": [70.0], "ward": ["b"]}))[0] == pytest.approx(expected, abs=0.1)


@pytest.mark.parametrize("terms", [TERMS, purse.formula(TERMS)["terms"], terms_of(TERMS)], ids=["text", "list", "Term"])
def test_predictions_follow_from_coefficients_of_terms_and_survive_pickling(terms: Any) -> None:
    rows, y = people()
    fitted = clone(purse.PrivateLinearRegression(8.0, terms=terms, **DECLARED)).fit(frame(rows), y)
    some = frame({"age": [30.0, 65.0], "ward": ["c", "a"]})
    decades = np.array([-2.0, 1.5])
    own = dict(zip(fitted.coef_names_, fitted.coef_, strict=True))
    by_ward = np.array([own["ward = c"], own["ward = a"]])
    by_age = own["((age - 50) / 10)"] * decades + own["((age - 50) / 10)^2"] * decades**2
    np.testing.assert_allclose(fitted.predict(some), fitted.intercept_ + by_ward + by_age)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(fitted)).predict(some), fitted.predict(some))


@pytest.mark.parametrize(
    "terms", ["y ~ age", "1", "height", "age +", [], 3, [{"factors": [{"column": "age", "power": 9}]}], "I(ward**2)"]
)
def test_terms_that_do_not_fit_are_refused_before_the_charge(terms: Any) -> None:
    rows, y = people()
    accountant = purse.BudgetAccountant(8.0, 1e-6)
    with pytest.raises(ValueError):  # noqa: PT011, the messages differ
        purse.PrivateLinearRegression(1.0, terms=terms, accountant=accountant, **DECLARED).fit(frame(rows), y)
    assert accountant.fits == 0


@pytest.mark.usefixtures("same_noise")
def test_classifiers_have_interactions_and_columns_of_arrays() -> None:
    rng = np.random.default_rng(1)
    X = rng.uniform(-1, 1, (N, 2))
    y = X[:, 0] * X[:, 1] > 0
    declared: dict[str, Any] = {"bounds": (-1, 1), "classes": [False, True]}
    plain = purse.PrivateLogisticRegression(4.0, **declared).fit(X, y)
    crossed = purse.PrivateLogisticRegression(4.0, terms="`column 0` * `column 1`", **declared).fit(X, y)
    assert plain.score(X, y) < 0.75  # no line does better than 2/3 on all points of the square
    assert crossed.score(X, y) > 0.9
