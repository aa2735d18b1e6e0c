"""Private estimators: what is declared, when a budget is charged, and that they learn what the solvers learn."""

import copy
import os
import pickle
import warnings
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

import purse
from accounting.errors import BudgetExhausted
from accounting.privacy import Privacy, Unit
from purse.prediction import UnsupportedCategory
from purse.wire.columns import NumberColumn
from solvers.columns import Columns
from solvers.losses import HuberHinge, Logistic, Loss, Quantile, Squared
from solvers.methods import AdaptiveGd, DpGd, OutputPerturbation
from solvers.preparation import AskedPreparation, Declared, Private
from solvers.problem import Problem
from solvers.solve import plan, solve

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("scikit_learn")]  # the first of them loads it


def _rows(n: int = 400, p: int = 3) -> tuple[Any, Any]:
    X = np.random.default_rng(0).uniform(-1, 1, (n, p))
    return X, (X @ np.arange(1, p + 1) > 0).astype(int)


def _svc(**settings: Any) -> Any:
    return purse.PrivateLinearSVC(**settings)


def _logistic(**settings: Any) -> Any:
    return purse.PrivateLogisticRegression(**({"bounds": (-1, 1), "classes": [0, 1], "method": "dp_gd"} | settings))


@pytest.mark.usefixtures("same_noise")
def test_a_fit_is_the_solvers_own_of_the_declared_rows() -> None:
    X, y = _rows()
    model = _logistic(epsilon=2.0).fit(10 + 5 * X, y)  # what is outside of the bounds counts as there
    assert np.ptp(model.predict_proba(10 + 5 * X)[:, 1]) == 0.0
    model = _logistic(epsilon=2.0, bounds=(5, 15)).fit(10 + 5 * X, y)
    laid_out = Columns((1, 1, 1))
    problem = Problem(Logistic(), n=400, d=4, row_norm=laid_out.row_norm, columns=laid_out)
    unfolded = np.column_stack((X, np.ones(400)))
    expected = solve(DpGd(), problem, unfolded, 2.0 * y - 1, Privacy(2.0, 1e-6))
    np.testing.assert_allclose(model.release_.coefficients, expected.coefficients, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(
        model.decision_function(10 + 5 * X), unfolded @ expected.coefficients, rtol=1e-6, atol=1e-7
    )
    np.testing.assert_allclose((10 + 5 * X) @ model.coef_[0] + model.intercept_, model.decision_function(10 + 5 * X))
    assert (model.epsilon_, model.delta_) == (expected.epsilon, 1e-6)
    assert model.epsilon_ <= 2.0


def test_two_fits_have_different_noise() -> None:
    X, y = _rows()
    assert (_logistic().fit(X, y).coef_ != _logistic().fit(X, y).coef_).all()


@pytest.mark.usefixtures("same_noise")
def test_they_learn() -> None:
    """The noise is fixed; each bound is many times what its standard deviation would explain."""
    rng = np.random.default_rng(1)
    X = rng.uniform(0, 10, (20_000, 2))
    target = 3 * X[:, 0] - 2 * X[:, 1] + rng.normal(0, 1, 20_000)
    bounds: Any = {"bounds": (0, 10), "target_bounds": (-40, 40)}
    linear = purse.PrivateLinearRegression(1.0, **bounds).fit(X, target)
    np.testing.assert_allclose(linear.coef_, [3, -2], atol=0.1)
    assert linear.score(X, target) > 0.9
    upper = purse.PrivateQuantileRegressor(1.0, quantile=0.9, **bounds).fit(X, target)
    assert 0.8 < np.mean(target <= upper.predict(X)) < 0.98
    for kind in (purse.PrivateLogisticRegression, purse.PrivateLinearSVC):
        model: Any = kind(1.0, bounds=(0, 10), classes=["low", "high"]).fit(X, np.where(target > 5, "high", "low"))
        assert model.classes_.tolist() == ["high", "low"]
        assert model.score(X, np.where(target > 5, "high", "low")) > 0.9
    some, three = X[:4000], np.digitize(target[:4000], (-5, 12))
    model = purse.PrivateLogisticRegression(4.0, bounds=(0, 10), classes=[0, 1, 2]).fit(some, three)
    assert model.coef_.shape == (3, 2)
    assert model.score(some, three) > 0.7
    np.testing.assert_allclose(model.predict_proba(some).sum(axis=1), 1.0)


@pytest.mark.usefixtures("same_noise")
def test_columns_of_a_frame_are_declared_by_name_and_a_category_has_a_coefficient_each() -> None:
    pandas = pytest.importorskip("pandas", reason="pandas is not installed: no frame is tried")
    X, y = _rows(n=600)
    frame = pandas.DataFrame({"sex": np.where(y == 1, "f", "m"), "age": 50 + 30 * X[:, 0], "old": X[:, 1] > 0})
    declarations: Any = {"bounds": {"age": (20, 80), "old": (0, 1)}, "categories": {"sex": ["f", "m"]}}
    model = _logistic(epsilon=10.0, **declarations).fit(frame, y)
    assert model.feature_names_in_.tolist() == ["sex", "age", "old"]
    assert model.coef_names_ == ["sex = f", "sex = m", "sex = (other)", "age", "old"]
    assert model.coef_.shape == (1, 5)
    assert model.score(frame, y) > 0.95
    indicators = np.column_stack((frame.sex == "f", frame.sex == "m", np.zeros(600), frame.age, frame.old))
    np.testing.assert_allclose(
        indicators @ model.coef_[0] + model.intercept_, model.decision_function(frame), atol=1e-9
    )
    odd = pandas.DataFrame({"sex": ["x", None], "age": [1e9, None], "old": [True, False]})
    like = pandas.DataFrame({"sex": ["?", "?"], "age": [80, 50], "old": [True, False]})
    np.testing.assert_array_equal(model.decision_function(odd), model.decision_function(like))


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"bounds": None}, r"bounds must be declared.*bounds=\(-1, 1\)"),
        ({"bounds": (1, -1)}, "bounds of column 0 must be two numbers"),
        ({"bounds": [(0, 1)]}, "one pair, or 3 declarations"),
        ({"bounds": {0: (0, 1), 1: (0, 1)}}, "bounds or categories, and not both. Correct 2"),
        ({"bounds": {"age": (0, 1)}}, "X does not have: age"),
        ({"categories": {0: ["a", "a"]}}, "categories of column 0 must be a list of distinct values"),
        ({"categories": {0: ["a", "b"]}, "bounds": [(0, 1)] * 3}, "bounds or categories, and not both. Correct 0"),
        ({"classes": None}, "^classes must be declared"),
        ({"classes": None, "bounds": None}, r"^classes, and bounds or categories .*bounds=.*categories=.*classes="),
        ({"classes": [1]}, "one class"),
        ({"bounds": NumberColumn(name="a", type="number", lower=0, upper=1)}, "describes one column"),
        ({"bounds": [{"lower": 0, "upper": 1}]}, "one pair, or 3 declarations"),
        (
            {"bounds": [{"lower": 0, "upper": 1, "scale": 2}] * 3},
            "declaration of column 0 is malformed: scale is the distance",
        ),
        ({"bounds": [{"lower": 0, "upper": 1, "orgin": 0}] * 3}, "malformed: orgin: "),
        ({"bounds": [{"lower": 0}] * 3}, "malformed: upper: "),
        (
            {"bounds": [{"lower": 0, "upper": 1, "date": "days"}] * 3},
            "column 0 is declared as dates, which are not read",
        ),
        ({"method": "gd"}, "method must be one of auto"),
        ({"preparation": "profile"}, "moments that were released for a dataset of the service"),
        ({"preparation": "standard"}, "preparation must be private or declared"),
        ({"preparation": "private", "delta": 0.0, "method": "output_perturbation"}, "need delta > 0"),
        ({"preparation": "declared", "method": "adaptive_gd"}, "standardizes rows itself"),
        ({"slope_limit": 0.0}, "slope_limit must lie in"),
        ({"slope_limit": True}, "slope_limit must be a number"),
        ({"slope_limit": 0.5, "method": AdaptiveGd(slope_limit=0.2)}, "limits slopes itself"),
        ({"epsilon": 0.0}, "epsilon must lie in"),
    ],
)
def test_a_missing_declaration_is_refused_before_the_charge(changed: dict[str, Any], says: str) -> None:
    X, y = _rows(20)
    accountant = purse.BudgetAccountant(1.0, 1e-6)
    with pytest.raises(ValueError, match=says):
        _logistic(accountant=accountant, **changed).fit(X, y)
    assert accountant.fits == 0


@pytest.mark.usefixtures("same_noise")
@pytest.mark.parametrize("kind", [int, float, str, object, bool])
@pytest.mark.parametrize("classes", [[0, 1], ["0", "1"]])
def test_labels_of_any_type_are_matched_to_the_declared_classes(kind: Any, classes: Any) -> None:
    X, y = _rows(200)
    if kind is bool and classes == ["0", "1"]:
        classes = ["false", "true"]
    coefficients = _logistic(classes=classes).fit(X, y.astype(kind)).release_.coefficients
    np.testing.assert_array_equal(coefficients, _logistic().fit(X, y).release_.coefficients)


def test_no_value_is_refused() -> None:
    X, y = _rows(6)
    odd: Any = [[], {}, None, Decimal("sNaN"), 10**400, "x"]
    strange, labels = X.astype(object), y.astype(object)
    strange[:, 0], labels[:] = odd, odd
    model = _logistic().fit(strange, labels)
    np.testing.assert_array_equal(model.decision_function(strange), model.decision_function(X * [0, 1, 1]))


def test_unread_reports_the_share_of_values_that_a_fit_cannot_read() -> None:
    pandas = pytest.importorskip("pandas", reason="pandas is not installed: no frame is tried")
    frame = pandas.DataFrame({"age": ["30", "x", None, "99"], "sex": ["f", "F", "m", None]})
    declarations: Any = {"bounds": {"age": (18, 90)}, "categories": {"sex": ["f", "m"]}}
    model = _logistic(**declarations)
    assert model.unread(frame, [0, 1, 1, 7]) == {"age": 0.75, "sex": 0.5, "the target": 0.25}
    assert not hasattr(model, "n_features_in_"), "nothing is kept"
    target = purse.PrivateLinearRegression(target_bounds=(0, 10), **declarations)
    assert target.unread(frame, [0, 5, -1, np.nan])["the target"] == 0.5


def test_an_accountant_is_refused_in_a_fork_of_its_process(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = _rows(20)
    accountant = purse.BudgetAccountant(1.0, 1e-6)
    monkeypatch.setattr(os, "getpid", lambda: -1)
    with pytest.raises(ValueError, match="process"):
        _logistic(accountant=accountant).fit(X, y)
    assert accountant.fits == 0


@pytest.mark.parametrize("name", ["random_state", "C", "class_weight", "max_iter"])
def test_the_error_about_a_parameter_of_scikit_learn_names_the_alternative(name: str) -> None:
    assert "random_state" not in purse.PrivateLogisticRegression().get_params()
    with pytest.raises(TypeError, match=rf"^PrivateLinearSVC does not have {name}: "):
        _svc(**{name: 1})


@pytest.mark.parametrize("estimator", ["PrivateLogisticRegression", "PrivateLinearRegression"])
def test_weights_are_refused_and_nothing_is_charged(estimator: str) -> None:
    X, y = _rows(20)
    accountant = purse.BudgetAccountant(1.0, 1e-6)
    model = getattr(purse, estimator)(bounds=(-1, 1), accountant=accountant)
    with pytest.raises(TypeError, match="sample_weight"):
        model.fit(X, y, sample_weight=np.ones(20))
    with pytest.raises(TypeError, match="no colour"):
        model.fit(X, y, colour=1)
    assert accountant.fits == 0


@pytest.mark.usefixtures("same_noise")
def test_a_category_without_rows_has_coefficient_0_and_is_warned_of() -> None:
    rng = np.random.default_rng(3)
    X = np.column_stack((rng.uniform(-1, 1, 4000), rng.integers(0, 2, 4000)))
    model = _logistic(bounds={0: (-1, 1)}, categories={1: [0, 1, 2]}, epsilon=3.0, preparation="private")
    with warnings.catch_warnings():
        warnings.simplefilter("error", UnsupportedCategory)
        model.fit(X, X[:, 0] > 0).predict(X)
    shares, noise_std = model.release_.means.values, model.release_.means.noise_std
    absent = shares[1:] < 2 * noise_std
    coefficients = dict(zip(model.coef_names_[1:], model.coef_[0][1:], strict=True))
    assert [value == 0.0 for value in coefficients.values()] == absent.tolist()
    assert absent.any(), "two of the categories have no row; with this noise not both of them pass for present"
    with pytest.warns(UnsupportedCategory, match="column 1"):
        model.predict([[0.5, value] for value in (2, 3)])


def test_a_regressor_needs_the_bounds_of_its_target() -> None:
    X, y = _rows(20)
    with pytest.raises(ValueError, match="target_bounds"):
        purse.PrivateLinearRegression(bounds=(-1, 1)).fit(X, y)


def test_a_budget_is_shared_and_charged_before_a_value_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    from sklearn.base import clone

    X, y = _rows()
    accountant = purse.BudgetAccountant(1.0, 1e-7)
    first = _logistic(epsilon=0.6, accountant=accountant).fit(X, y)
    assert first.delta_ == 1e-7, "at most the budget's"
    assert 0 < accountant.spent <= 0.6 + 1e-9
    assert 0.4 < accountant.remaining < 1.0

    def unread(*_: Any) -> Any:
        raise AssertionError("the data was read")

    monkeypatch.setattr("purse.estimators.base.codes_of", unread)
    again = clone(first)
    assert again.accountant is accountant
    with pytest.raises(BudgetExhausted, match="delta 1e-07"):
        again.set_params(epsilon=0.95).fit(X, y)
    assert accountant.fits == 1
    with pytest.raises(AssertionError, match="was read"):
        again.set_params(epsilon=0.3).fit(X, y)
    assert accountant.fits == 2, "a fit that failed stays charged"


_EACH: Any = [
    ("PrivateLogisticRegression", {"classes": [0, 1]}),
    ("PrivateLinearSVC", {"classes": [0, 1]}),
    ("PrivateLinearRegression", {"target_bounds": (0, 1)}),
    ("PrivateQuantileRegressor", {"target_bounds": (0, 1)}),
]
_LOSSES: dict[str, Loss] = {
    "PrivateLogisticRegression": Logistic(),
    "PrivateLinearSVC": HuberHinge(),
    "PrivateLinearRegression": Squared(),
    "PrivateQuantileRegressor": Quantile(0.5, 0.01),
}


@pytest.mark.usefixtures("same_noise")
@pytest.mark.parametrize("preparation", [None, Private(), Declared()])
@pytest.mark.parametrize(("name", "settings"), _EACH)
def test_a_fit_applies_the_requested_preparation_and_slope_limit(
    name: str, settings: Any, preparation: AskedPreparation | None
) -> None:
    """The coefficients equal those of `solve` with the same settings, and each setting has an effect."""
    X, y = _rows(300)
    settings = settings | {"bounds": (-1, 1), "method": "dp_gd", "epsilon": 2.0, "slope_limit": 0.5}
    if preparation is not None:
        settings["preparation"] = preparation.name
    fitted = getattr(purse, name)(**settings).fit(X, y)
    laid_out = Columns((1, 1, 1))
    facts: Any = {"n": 300, "d": 4, "row_norm": laid_out.row_norm, "columns": laid_out}
    problem = Problem(_LOSSES[name], **facts)
    rows, targets, privacy = np.column_stack((X, np.ones(300))), 2.0 * y - 1, Privacy(2.0, 1e-6)
    expected = solve(DpGd(), problem, rows, targets, privacy, preparation, 0.5)
    np.testing.assert_allclose(fitted.release_.coefficients, expected.coefficients, rtol=1e-6, atol=1e-9)
    assert fitted.release_.preparation == (preparation or Private())
    unlimited = getattr(purse, name)(**settings | {"slope_limit": 1.0}).fit(X, y)
    assert abs(unlimited.coef_ - fitted.coef_).max() > 1e-6


def test_auto_limits_residuals_if_a_slope_limit_is_set() -> None:
    X, y = _rows(300)
    settings: Any = {"bounds": (-1, 1), "target_bounds": (0, 1), "epsilon": 2.0}
    assert purse.PrivateLinearRegression(**settings).fit(X, y).release_.method.name == "adaptive_gd"
    assert purse.PrivateLinearRegression(slope_limit=0.5, **settings).fit(X, y).release_.method.name == "dp_gd"


_VISITS: Any = {"lower": 0, "upper": 50, "origin": 0, "scale": 10, "default": 2}


@pytest.mark.usefixtures("same_noise")
@pytest.mark.parametrize("form", ["fields", "column", "in order"])
def test_a_declared_origin_and_scale_are_the_services(form: str) -> None:
    """The same model as of codes that the service would store; the rest of a declaration is as it was."""
    pandas = pytest.importorskip("pandas", reason="pandas is not installed: no frame is tried")
    arrow = pytest.importorskip("pyarrow")
    from app.sources.encoding import encoder

    column = NumberColumn(name="visits", type="number", **_VISITS)
    rng = np.random.default_rng(3)
    visits = rng.poisson(4, 400) * 1.0
    visits[:4] = (30, 60, -1, np.nan)
    old = rng.integers(0, 2, 400)
    y = (visits > 4).astype(int)
    stored, fates = encoder(column).read(arrow.array(visits))
    laid_out = Columns((1, 1), (column.code_range, (0.0, 1.0)))
    problem = Problem(Logistic(), n=400, d=3, row_norm=laid_out.row_norm, columns=laid_out)
    expected = solve(DpGd(), problem, np.column_stack((stored, old, np.ones(400))), 2.0 * y - 1, Privacy(2.0, 1e-6))
    frame: Any = pandas.DataFrame({"visits": visits, "old": old})
    bounds: Any = {"visits": _VISITS if form == "fields" else column, "old": (0, 1)}
    if form == "in order":
        frame, bounds = frame.to_numpy(), [column.model_copy(update={"name": "any"}), (0, 1)]
    model = _logistic(epsilon=2.0, bounds=bounds).fit(frame, y)
    np.testing.assert_allclose(model.release_.coefficients, expected.coefficients, rtol=1e-6, atol=1e-9)
    assert [*model.unread(frame, y).values()] == [np.mean(fates > 0), 0.0, 0.0]
    assert fates[0] > 0, "it is within the bounds and beyond the scale"
    some = frame[10:200] if form == "in order" else frame.iloc[10:200]
    inside = visits[10:200] <= 10
    values = np.column_stack((visits, old))[10:200]
    margins = values @ model.coef_[0] + model.intercept_
    np.testing.assert_allclose(margins[inside], model.decision_function(some)[inside], atol=1e-9)
    from sklearn.base import clone

    assert clone(model).fit(frame, y).coef_.tolist() == model.coef_.tolist()


def test_a_target_is_declared_in_the_same_words() -> None:
    X, y = _rows(60)
    ends: Any = {"lower": 0, "upper": 100, "origin": 0, "scale": 10}
    numbers = purse.PrivateLinearRegression(bounds=(-1, 1), target_bounds=ends).fit(X, 10.0 * y)
    np.testing.assert_allclose(numbers.predict(X), np.clip(X @ numbers.coef_ + numbers.intercept_, 0, 100))
    assert numbers.unread(X, [11.0, *y[1:]])["the target"] == 1 / 60


def test_a_declaration_of_another_column_is_refused() -> None:
    pandas = pytest.importorskip("pandas", reason="pandas is not installed: no frame is tried")
    frame = pandas.DataFrame(_rows(20)[0], columns=["a", "b", "c"])
    columns = [NumberColumn(name=name, type="number", lower=-1, upper=1) for name in ("a", "c", "b")]
    with pytest.raises(ValueError, match="column c"):
        _logistic(bounds=columns).fit(frame, [0, 1] * 10)
    read = NumberColumn(name="beta", source="b", type="number", lower=-1, upper=1)
    assert _logistic(bounds=[columns[0], read, columns[1]]).fit(frame, [0, 1] * 10).coef_names_ == ["a", "b", "c"]


@pytest.mark.usefixtures("same_noise")
@pytest.mark.parametrize(("name", "settings"), _EACH)
def test_rows_are_protected_by_person_if_persons_are_given(name: str, settings: Any) -> None:
    """The coefficients equal those of `solve`. Rows above the cap and the order of persons' rows change nothing."""
    X, y = _rows(300)
    persons = np.repeat(np.arange(150), 2)
    settings = settings | {"bounds": (-1, 1), "method": "dp_gd", "epsilon": 2.0, "max_rows": 2}
    kind = getattr(purse, name)
    fitted = kind(**settings).fit(X, y, persons=persons)
    names = [f"p{i:03}" for i in persons] + [f" p{i:03} " for i in persons]  # white space around a name is ignored
    extended = kind(**settings).fit(np.vstack((X, -X)), np.append(y, 1 - y), persons=names)
    np.testing.assert_array_equal(fitted.release_.coefficients, extended.release_.coefficients)
    assert fitted.delta_ == min(1e-6, 1 / (10 * 150))
    alone = kind(**settings | {"max_rows": 4}).fit(X, y, persons=persons)
    assert abs(alone.release_.coefficients - fitted.release_.coefficients).max() > 1e-6
    laid_out = Columns((1, 1, 1))
    facts: Any = {"n": 150, "d": 4, "row_norm": laid_out.row_norm, "columns": laid_out}
    problem = Problem(_LOSSES[name], unit=Unit("person", 2), **facts)
    targets = 2.0 * y - 1
    expected = solve(DpGd(), problem, np.column_stack((X, np.ones(300))), targets, Privacy(2.0, 1e-6), persons=persons)
    np.testing.assert_array_equal(fitted.release_.coefficients, expected.coefficients)


@pytest.mark.usefixtures("same_noise")
@pytest.mark.parametrize(("name", "settings"), _EACH)
def test_a_row_may_be_protected_under_zero_out(name: str, settings: Any) -> None:
    X, y = _rows(300)
    settings = settings | {"bounds": (-1, 1), "method": DpGd(steps=20), "epsilon": 2.0}
    unreplaced = getattr(purse, name)(neighbors="zero_out", **settings).fit(X, y)
    assert unreplaced.release_.transcript.relation == "zero_out"
    replaced = getattr(purse, name)(**settings).fit(X, y)
    multipliers = [fit.release_.transcript.queries[0].noise_multiplier for fit in (unreplaced, replaced)]
    assert 1.9 < multipliers[1] / multipliers[0] < 2.1, "zeroing a record moves sums half as far as replacing it"


@pytest.mark.usefixtures("same_noise")
@pytest.mark.parametrize(("name", "settings"), _EACH)
def test_sparse_rows_release_the_same_model_as_dense_rows(name: str, settings: Any) -> None:
    sparse = pytest.importorskip("scipy.sparse")
    X, y = _rows(200)
    X = np.column_stack((np.where(np.abs(X) < 0.5, 0.0, X), np.arange(200) % 3))
    declarations: Any = {"bounds": {0: (-1, 1), 1: (0, 1), 2: (-2, 3)}, "categories": {3: [0, 1]}}
    settings = settings | declarations | {"method": "dp_gd", "epsilon": 2.0}
    dense = getattr(purse, name)(**settings).fit(X, y)
    for rows in (sparse.csr_matrix(X), sparse.coo_array(X)):
        fitted = getattr(purse, name)(**settings).fit(rows, y)
        np.testing.assert_array_equal(fitted.release_.coefficients, dense.release_.coefficients)
        np.testing.assert_array_equal(fitted.predict(rows), dense.predict(X))
        assert fitted.unread(rows, y) == dense.unread(X, y)


@pytest.mark.parametrize(
    ("settings", "persons", "says"),
    [
        ({}, [1] * 20, "max_rows goes with"),
        ({"max_rows": 2}, None, "max_rows goes with"),
        ({"max_rows": 2}, ["a"] * 19 + [None], "must name a person for each row"),
        ({"max_rows": 2}, ["a"] * 19 + [" "], "must name a person for each row"),
        ({"max_rows": 2}, ["a"] * 19 + [float("nan")], "must name a person for each row"),
        ({"max_rows": 2}, np.array(["a"] * 19 + [" "]), "must name a person for each row"),
        ({"max_rows": 2}, ["a"] * 19, "inconsistent numbers of samples"),
        ({"max_rows": 0}, ["a"] * 20, "max_rows must be an integer"),
        ({"neighbors": "add_remove"}, None, "relation must be replace_one or zero_out"),
    ],
)
def test_an_invalid_unit_of_privacy_is_refused_before_the_charge(settings: Any, persons: Any, says: str) -> None:
    X, y = _rows(20)
    accountant = purse.BudgetAccountant(1.0, 1e-6)
    with pytest.raises(ValueError, match=says):
        _logistic(accountant=accountant, **settings).fit(X, y, persons=persons)
    assert accountant.fits == 0


def test_an_accountant_accepts_one_neighbor_relation_only() -> None:
    X, y = _rows(60)
    accountant = purse.BudgetAccountant(3.0, 1e-6)
    identifiers = np.arange(60) // 2
    _logistic(epsilon=0.5, accountant=accountant, max_rows=2).fit(X, y, persons=identifiers)
    _logistic(epsilon=0.5, accountant=accountant, max_rows=1).fit(X, y, persons=identifiers)
    for settings, persons in (({}, None), ({"neighbors": "zero_out", "max_rows": 2}, identifiers)):
        with pytest.raises(ValueError, match="by replace_one"):
            _logistic(epsilon=0.5, accountant=accountant, **settings).fit(X, y, persons=persons)
    assert accountant.fits == 2


def test_a_refused_first_fit_leaves_no_model() -> None:
    from sklearn.exceptions import NotFittedError

    X, y = _rows(20)
    model = _logistic(epsilon=2.0, accountant=purse.BudgetAccountant(1.0, 1e-7))
    with pytest.raises(BudgetExhausted):
        model.fit(X, y)
    with pytest.raises(NotFittedError):
        model.predict(X)


@pytest.mark.parametrize(("kind", "delta"), [("gdp", 1e-7), ("rdp", 1e-7), ("pure", 0.0)])
def test_an_accountant_has_the_requested_filter(kind: Any, delta: float) -> None:
    X, y = _rows()
    accountant = purse.BudgetAccountant(2.0, delta, filter=kind)
    model = _logistic(accountant=accountant, method="auto", epsilon=0.5).fit(X, y)
    assert (model.delta_, accountant.fits) == (delta, 1)
    assert 0 < accountant.spent < 1.0


def test_threads_are_admitted_as_if_one_after_the_other() -> None:
    laid_out = Columns((1,))
    problem = Problem(Logistic(), n=100, d=2, row_norm=laid_out.row_norm, columns=laid_out)
    privacy = Privacy(0.2, 0.0)
    planned = plan(OutputPerturbation(), problem, privacy).release
    accountant = purse.BudgetAccountant(1.0, 0.0, filter="pure")

    def charge(_: int) -> int:
        try:
            accountant.charge(planned, privacy)
        except BudgetExhausted:
            return 0
        return 1

    with ThreadPoolExecutor(8) as threads:
        admitted = sum(threads.map(charge, range(64)))
    assert admitted == accountant.fits
    assert admitted * planned.epsilon <= 1.0 < (admitted + 1) * (planned.epsilon + 1e-9)


def test_a_copy_of_a_budget_is_the_budget_and_an_unpickled_one_refuses_fits() -> None:
    accountant = purse.BudgetAccountant(1.0, 1e-6)
    assert copy.copy(accountant) is copy.deepcopy(accountant) is accountant
    assert "0 spent" in repr(accountant)
    X, y = _rows()
    stored = pickle.dumps(_logistic(epsilon=0.5, accountant=accountant).fit(X, y))
    loaded = pickle.loads(stored)
    assert loaded.accountant.spent == accountant.spent > 0
    assert loaded.predict(X).shape == y.shape
    with pytest.raises(ValueError, match="process"):
        loaded.fit(X, y)
    assert accountant.fits == 1


def test_a_search_in_several_processes_states_why_no_fit_is_admitted() -> None:
    from sklearn.model_selection import GridSearchCV

    X, y = _rows()
    accountant = purse.BudgetAccountant(1.0, 1e-6)
    search = GridSearchCV(_logistic(accountant=accountant), {"epsilon": [0.1, 0.2]}, cv=2, n_jobs=2)
    with pytest.raises(ValueError, match="n_jobs=1") as refused:
        search.fit(X, y)
    assert refused.value.__cause__ is None, "the reason is not hidden behind an error of the pickler"
    assert accountant.fits == 0


def test_check_pipeline_names_the_steps_that_learn_from_data() -> None:
    pandas = pytest.importorskip("pandas", reason="pandas is not installed: no frame is tried")
    from sklearn.compose import ColumnTransformer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import FunctionTransformer, StandardScaler

    X, y = _rows()
    frame = pandas.DataFrame(X, columns=["a", "b", "c"])
    public = ColumnTransformer([("half", FunctionTransformer(np.tanh), ["a", "b"]), ("rest", "passthrough", ["c"])])
    pipeline = make_pipeline(public, _logistic(epsilon=5.0))
    with warnings.catch_warnings():
        warnings.simplefilter("error", purse.LearnedFromData)
        assert purse.check_pipeline(pipeline) == {}
        assert pipeline.fit(frame, y).predict(frame).shape == (400,)
        assert purse.check_pipeline(pipeline) == {}
    learns = ColumnTransformer([("scale", make_pipeline(StandardScaler()), ["a"]), ("rest", "drop", ["b", "c"])])
    nested = make_pipeline(learns, _logistic(bounds=(-3, 3)))
    with pytest.warns(purse.LearnedFromData, match="StandardScaler"):
        assert purse.check_pipeline(nested) == {"columntransformer.scale.standardscaler": ()}
    nested.fit(frame, y)
    with pytest.warns(purse.LearnedFromData, match="has learned mean_"):
        learned = purse.check_pipeline(nested)
    assert {"mean_", "scale_"} <= {*learned["columntransformer.scale.standardscaler"]}
