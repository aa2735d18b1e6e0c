"""min over w of (1/n) sum_i f(<x_i, w>, y_i) + (alpha / 2) ||w||^2, privately: x_i is row i as it is declared.

A column's number is coded in [-1, 1] by its bounds, a category by a single 1, and a 1 is added for the intercept: the
coding of the service, and its methods. What is refused is refused for its type or its shape, never for a value: what is
missing or cannot be read counts as the middle of its bounds, a category or a number outside as "other" and as the
nearer bound.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, get_args

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, clone
from sklearn.utils import check_consistent_length
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from accounting.privacy import Privacy
from purse.estimators import declared
from purse.estimators.accountant import BudgetAccountant
from purse.estimators.declared import Floats
from purse.model import inputs
from purse.prediction import encode, number_scale
from purse.values import as_text
from purse.wire.datasets import Column, NumberColumn
from solvers.losses import HuberHinge, Logistic, Loss, Quantile, Softmax, Squared
from solvers.methods import Method
from solvers.problem import Problem
from solvers.regularizers import L2, NoRegularizer
from solvers.selection import Auto
from solvers.solve import plan, release

METHODS: Final[dict[str, Method | Auto]] = {kind().name: kind() for kind in (Auto, *get_args(Method))}


class _Private(BaseEstimator):  # type: ignore[misc]
    """What all have in common: a declaration, a fit that is planned, charged and run, margins."""

    def _fit(self, X: Any, y: NDArray[Any], loss: Loss, targets: Callable[[], Floats]) -> Floats:
        """The coefficients of coded rows, (K, d). In this order: shapes, the plan, the charge, and then the data."""
        X = validate_data(self, X, dtype=None, ensure_all_finite=False)
        check_consistent_length(X, y)
        features = self._features(X)
        laid_out, regularizer = declared.layout(features), L2(self.alpha) if self.alpha else NoRegularizer()
        facts: Any = {"n": len(X), "d": laid_out.d, "row_norm": laid_out.row_norm, "columns": laid_out}
        privacy, accountant = self._privacy(len(X)), self.accountant
        is_gaussian = accountant is not None and accountant.filter.kind == "gdp"
        problem = Problem(loss, regularizer, **facts)
        quote = plan(_method(self.method), problem, privacy, currency="gaussian" if is_gaussian else "renyi")
        if accountant is not None:
            accountant.charge(quote.release, privacy)
        self.release_ = release(quote, dict(enumerate(_codes(features, X))), targets())
        self.epsilon_, self.delta_, self._columns = self.release_.epsilon, self.release_.delta, features
        self.coef_names_ = [name for column in features for name in inputs(column)]
        self._weights = self.release_.coefficients.reshape(-1, laid_out.d)
        return self._weights

    def unread(self, X: Any, y: Any) -> dict[str, float]:
        """For each column, and the target, the share of values that a fit would not take as they stand.

        They are missing, no number, beyond their bounds or not declared. These are exact counts of the data, for who
        holds it and wants to know before a fit whether the declaration is that of the file; they are not private.
        """
        twin = clone(self)
        X = validate_data(twin, X, dtype=None, ensure_all_finite=False)
        found = {column.name: declared.unread(column, X[:, j]) for j, column in enumerate(twin._features(X))}
        return found | {"the target": self._unread(_target(y, self))}

    def _features(self, X: NDArray[Any]) -> tuple[Column, ...]:
        names = getattr(self, "feature_names_in_", range(X.shape[1]))
        return declared.columns(self.bounds, self.categories, [*names])

    def _privacy(self, n: int) -> Privacy:
        if self.delta is not None:
            return Privacy(self.epsilon, self.delta)
        most = 1.0 if self.accountant is None else self.accountant.filter.privacy.delta
        return Privacy(self.epsilon, min(most, 1e-6, 1 / (10 * n)))

    def _margins(self, X: Any) -> Floats:
        """(n, K)."""
        check_is_fitted(self, "release_")
        X = validate_data(self, X, dtype=None, ensure_all_finite=False, reset=False)
        return declared.margins(self._columns, _codes(self._columns, X), self._weights)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.non_deterministic = True  # the noise is nobody's to choose
        tags.target_tags.required = True
        return tags


class _Classifier(ClassifierMixin, _Private):  # type: ignore[misc]
    def __init__(
        self,
        epsilon: float = 1.0,
        *,
        delta: float | None = None,
        bounds: Any = None,
        categories: Mapping[Any, Sequence[Any]] | None = None,
        classes: Sequence[Any] | None = None,
        alpha: float = 0.0,
        method: "str | Method | Auto" = "auto",
        accountant: BudgetAccountant | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.bounds = bounds
        self.categories = categories
        self.classes = classes
        self.alpha = alpha
        self.method = method
        self.accountant = accountant

    def fit(self, X: Any, y: Any) -> Any:
        """A private model of the rows; see the class for what is promised.

        Parameters
        ----------
        X : (n, p) numbers or a frame, with the columns that were declared
        y : (n,), of the declared classes; whatever else counts as the first of them

        Raises
        ------
        ValueError
            if something is not declared, X and y are not of such a shape, or the method or the promise cannot be had.
        BudgetExhausted
            if the accountant refuses; then no data was read.
        """
        y = _target(y, self)
        classes = self._declared(y)
        weights = self._fit(X, y, self._loss(len(classes)), lambda: _labels(y, classes))
        self.classes_ = classes
        self.coef_, self.intercept_ = declared.original(self._columns, weights)
        return self

    def decision_function(self, X: Any) -> Floats:
        """The margins: (n,) of the second class for two, (n, K) for more."""
        margins = self._margins(X)
        return margins[:, 0] if margins.shape[1] == 1 else margins

    def predict(self, X: Any) -> NDArray[Any]:
        """The class of each row, (n,). Not private towards who sees it of rows that are not theirs."""
        margins = self._margins(X)
        at = (margins[:, 0] > 0).astype(int) if margins.shape[1] == 1 else margins.argmax(axis=1)
        found: NDArray[Any] = self.classes_[at]
        return found

    def _unread(self, y: NDArray[Any]) -> float:
        return float(np.mean(_positions(y, self._declared(y)) < 0))

    def _declared(self, y: NDArray[Any]) -> NDArray[Any]:  # noqa: ARG002, the tests' own declares by it
        """The public classes."""
        if self.classes is None:
            raise ValueError("classes must be declared, from what you know: which of them occur is the data's own")
        return in_order(self.classes)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = True  # on the few rows of a check
        return tags

    def _loss(self, classes: int) -> Loss:
        raise NotImplementedError


class PrivateLogisticRegression(_Classifier):
    """f(m, y) = ln(1 + e^(-y m)), for more than two classes logsumexp(m) - m_y; (epsilon, delta)-DP in each row.

    For data that differ in one row, of X and y, replaced by any other: P(model in S) <= e^epsilon P(model' in S) +
    delta. n, the declaration and all parameters are public. Each fit draws fresh noise that nobody chooses: there is no
    `random_state`, and two fits differ.

    Parameters
    ----------
    epsilon, delta : the promise of one fit; delta is min(1e-6, 1 / (10 n)) and at most the accountant's if None
    bounds : (lower, upper) for all numbers, a pair for each column, or by name {"age": (18, 90)}; must be declared
    categories : by name, of an array by position, {"sex": ["f", "m"]}: columns that are unfolded, "other" last
    classes : the public list of labels
    alpha : (alpha / 2) ||w||^2 is added to the mean loss, intercept included, as the method meets it: of standardised
        columns where it standardises (docs/http.md)
    method : "auto", the name of a method, or one of `solvers.methods`, with its parameters
    accountant : charges the fit, with others that share it; without one nobody adds fits up

    Attributes: `coef_`, (1, p) or (K, p), and `intercept_`, in the columns' own units, for values inside of their
    bounds; `coef_names_`, what each coefficient multiplies; `classes_`; `epsilon_` and `delta_`, what was spent;
    `release_`, the `solvers.Release` with its transcript; `n_features_in_`, `feature_names_in_`.
    """

    def predict_proba(self, X: Any) -> Floats:
        """P(class), (n, K), in the order of `classes_`."""
        margins = self._margins(X)
        both = np.column_stack((np.zeros(len(margins)), margins)) if margins.shape[1] == 1 else margins
        weights = np.exp(both - both.max(axis=1, keepdims=True))
        found: Floats = weights / weights.sum(axis=1, keepdims=True)
        return found

    def _loss(self, classes: int) -> Loss:
        return Logistic() if classes == 2 else Softmax(classes)


class PrivateLinearSVC(_Classifier):
    """f(m, y) = max(0, 1 - y m), rounded off over 1/2 of the margin (`solvers.losses.HuberHinge`), for two classes.

    Promise, parameters and attributes are those of `PrivateLogisticRegression`.
    """

    def _loss(self, classes: int) -> Loss:
        if classes > 2:
            raise ValueError("Only binary classification is supported. The type of the target is multiclass.")
        return HuberHinge()

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags


class _Regressor(RegressorMixin, _Private):  # type: ignore[misc]
    def fit(self, X: Any, y: Any) -> Any:
        """A private model of the rows; see the class for what is promised.

        Parameters
        ----------
        X : (n, p) numbers or a frame, with the columns that were declared
        y : (n,) numbers; those outside of `target_bounds` count as the nearer one, what is none as their middle

        Raises
        ------
        ValueError
            if something is not declared, X and y are not of such a shape, or the method or the promise cannot be had.
        BudgetExhausted
            if the accountant refuses; then no data was read.
        """
        y, target = _target(y, self), self._bounded()
        weights = self._fit(X, y, self._loss(), lambda: encode(target, y))
        self._scale = number_scale(target)
        slopes, intercepts = declared.original(self._columns, weights)
        self.coef_ = self._scale[1] * slopes[0]
        self.intercept_ = self._scale[0] + self._scale[1] * float(intercepts[0])
        return self

    def predict(self, X: Any) -> Floats:
        """The target of each row in its own unit, (n,). Not private towards who sees it of rows that are not theirs."""
        margins = self._margins(X)
        middle, half = self._scale
        found: Floats = middle + half * margins[:, 0]
        return found

    def _unread(self, y: NDArray[Any]) -> float:
        return declared.unread(self._bounded(), y)

    def _bounded(self) -> NumberColumn:
        if self.target_bounds is None:
            raise ValueError("target_bounds must be declared, (lower, upper), from what you know and not from y")
        return declared.number("the target", self.target_bounds)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True  # on the few rows of a check
        return tags

    def _loss(self) -> Loss:
        raise NotImplementedError


class PrivateLinearRegression(_Regressor):
    """f(m, y) = (m - y)^2 / 2 where |m - y| is at most half the target's range, straight beyond; (epsilon, delta)-DP.

    Promise, parameters and attributes are those of `PrivateLogisticRegression`, with `target_bounds`, (lower, upper),
    declared instead of classes; `coef_` is (p,), in the target's unit over the column's.
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        *,
        delta: float | None = None,
        bounds: Any = None,
        categories: Mapping[Any, Sequence[Any]] | None = None,
        target_bounds: tuple[float, float] | None = None,
        alpha: float = 0.0,
        method: "str | Method | Auto" = "auto",
        accountant: BudgetAccountant | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.bounds = bounds
        self.categories = categories
        self.target_bounds = target_bounds
        self.alpha = alpha
        self.method = method
        self.accountant = accountant

    def _loss(self) -> Loss:
        return Squared()


class PrivateQuantileRegressor(_Regressor):
    """f(m, y) = max(q (y - m), (1 - q) (m - y)), q = `quantile`, rounded off by `smoothing`; (epsilon, delta)-DP.

    Promise, parameters and attributes are those of `PrivateLinearRegression`, and

    Parameters
    ----------
    quantile : q, in [0.001, 0.999]
    smoothing : h of `solvers.losses.Quantile`, in half the target's range: 0 is the loss itself, for which fewer
        methods are proven, and they take longer
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        *,
        quantile: float = 0.5,
        smoothing: float = 0.01,
        delta: float | None = None,
        bounds: Any = None,
        categories: Mapping[Any, Sequence[Any]] | None = None,
        target_bounds: tuple[float, float] | None = None,
        alpha: float = 0.0,
        method: "str | Method | Auto" = "auto",
        accountant: BudgetAccountant | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.quantile = quantile
        self.smoothing = smoothing
        self.delta = delta
        self.bounds = bounds
        self.categories = categories
        self.target_bounds = target_bounds
        self.alpha = alpha
        self.method = method
        self.accountant = accountant

    def _loss(self) -> Loss:
        return Quantile(self.quantile, self.smoothing)


def _method(asked: "str | Method | Auto") -> "Method | Auto":
    if not isinstance(asked, str):
        return asked
    if asked not in METHODS:
        raise ValueError(f"method must be one of {', '.join(METHODS)}, or an object of solvers.methods")
    return METHODS[asked]


def _target(y: Any, estimator: Any) -> NDArray[Any]:
    if y is None:
        name = type(estimator).__name__
        raise ValueError(f"This {name} estimator requires y to be passed, but the target y is None.")
    found: NDArray[Any] = column_or_1d(y, warn=True)
    return found


def _codes(features: Sequence[Any], X: NDArray[Any]) -> list[Floats]:
    return [encode(column, X[:, j]) for j, column in enumerate(features)]


def in_order(declared: Any) -> NDArray[Any]:
    """Classes in scikit-learn's order; a ValueError if there are fewer than two."""
    classes: NDArray[Any] = np.unique(np.asarray(declared))
    if len(classes) < 2:
        raise ValueError("there must be two classes or more: with one class there is nothing to learn")
    return classes


def _labels(y: NDArray[Any], classes: NDArray[Any]) -> Floats:
    """The position of each label, for two classes -1 or +1; of what is none of them as of the first."""
    codes = np.maximum(_positions(y, classes), 0.0)
    return 2 * codes - 1 if len(classes) == 2 else codes


def _positions(y: NDArray[Any], classes: NDArray[Any]) -> Floats:
    """That of each label, as it stands or else as text ("1" for 1.0); -1 for what is not declared."""
    known = {label: code for code, label in enumerate(classes.tolist())}
    texts = {as_text(label): code for label, code in known.items()}

    def position(label: Any) -> int:
        try:
            return known[label] if label in known else texts.get(as_text(label), -1)
        except TypeError:  # no label can be such a thing
            return -1

    return np.array([position(label) for label in y.tolist()], dtype=np.float64)
