"""Estimators with `inference`: a regression table of local data, charged like every fit."""

from typing import Any

import numpy as np
import pytest

import purse
from accounting.errors import BudgetExhausted
from solvers.errors import Unsuitable

N = 8000


def rows() -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, 2))
    return X, X @ [1.0, -0.5] + rng.logistic(size=N)


@pytest.mark.usefixtures("same_noise")
def test_tables_are_in_the_units_of_the_columns_and_charged() -> None:
    X, margins = rows()
    accountant = purse.BudgetAccountant(4.0, 1e-6)
    declared: dict[str, Any] = {"bounds": (-4, 4), "delta": 1e-6, "inference": True, "accountant": accountant}
    logistic = purse.PrivateLogisticRegression(2.0, classes=["no", "yes"], **declared)
    logistic.fit(X, np.where(margins > 0, "yes", "no"))
    linear = purse.PrivateLinearRegression(2.0, target_bounds=(-20, 20), **declared).fit(X, margins)
    for fitted in (logistic, linear):
        table = fitted.regression_
        for term, true in {"column 0": 1.0, "column 1": -0.5, "intercept": 0.0}.items():
            assert abs(table.params[term] - true) < 5 * table.bse[term]
        assert np.ravel(fitted.coef_) == pytest.approx([table.params["column 0"], table.params["column 1"]])
        assert float(np.ravel(fitted.intercept_)[0]) == pytest.approx(table.params["intercept"])
        assert f"{N:,}" in table.summary()
    assert accountant.fits == 2
    with pytest.raises(BudgetExhausted):
        purse.PrivateLinearRegression(4.0, target_bounds=(-20, 20), **declared).fit(X, margins)


def test_persons_are_the_rows_of_a_table_and_other_settings_are_refused() -> None:
    X, margins = rows()
    declared: dict[str, Any] = {"bounds": (-4, 4), "target_bounds": (-20, 20), "inference": True}
    fitted = purse.PrivateLinearRegression(4.0, max_rows=2, **declared).fit(X, margins, persons=np.arange(N) // 2)
    assert "4,000" in fitted.regression_.summary()
    for wrong, error in (
        ({"method": "dp_gd"}, ValueError),
        ({"bounds": (0, 1e60)}, ValueError),
        ({"alpha": 0.1}, Unsuitable),
    ):
        with pytest.raises(error):
            purse.PrivateLinearRegression(4.0, **(declared | wrong)).fit(X, margins)
    with pytest.raises(Unsuitable, match="loss"):
        purse.PrivateLinearSVC(4.0, bounds=(-4, 4), classes=[0, 1], inference=True).fit(X, margins > 0)


@pytest.mark.usefixtures("same_noise")
def test_a_table_of_counts_has_rate_ratios_and_predicts_means() -> None:
    X, _ = rows()
    rng = np.random.default_rng(1)
    counts = rng.poisson(np.exp(X @ [0.4, -0.2] + 0.3))
    declared: dict[str, Any] = {"bounds": (-4, 4), "target_bounds": (0, 12), "inference": True, "family": "poisson"}
    fitted = purse.PrivateLinearRegression(4.0, **declared).fit(X, counts)
    table = fitted.regression_
    for term, true in {"column 0": 0.4, "column 1": -0.2, "intercept": 0.3}.items():
        assert abs(table.params[term] - true) < 5 * table.bse[term]
    assert fitted.coef_ == pytest.approx([table.params["column 0"], table.params["column 1"]])
    assert float(fitted.intercept_) == pytest.approx(table.params["intercept"])
    assert fitted.predict([[0.0, 0.0], [4.0, -4.0]]) == pytest.approx(
        np.minimum(np.exp([table.params["intercept"], fitted.coef_ @ [4, -4] + fitted.intercept_]), 12)
    )
    assert set(table.ratios) == {"column 0", "column 1"}
    predictions = fitted.predict(X[:5])
    fitted.set_params(family=None)
    assert fitted.predict(X[:5]) == pytest.approx(predictions)
    for wrong in ({"inference": False}, {"family": "gamma"}, {"target_bounds": (1, 12)}):
        accountant = purse.BudgetAccountant(4.0, 1e-6)
        with pytest.raises(ValueError, match=r"family|lower bound 0"):
            purse.PrivateLinearRegression(4.0, accountant=accountant, **(declared | wrong)).fit(X, counts)
        assert accountant.fits == 0
