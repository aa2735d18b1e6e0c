"""Private classifiers: which labels there are is declared."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin

from accounting.privacy import REPLACE_ONE, Relation
from purse.estimators import declared
from purse.estimators.accountant import BudgetAccountant
from purse.estimators.base import Private, target
from purse.estimators.declared import Floats
from purse.estimators.values import plain
from purse.values import as_text
from solvers.data_access.containers import objects
from solvers.losses import HuberHinge, Logistic, Loss, Softmax
from solvers.methods import Method
from solvers.selection import Auto


class _Classifier(ClassifierMixin, Private, ABC):  # type: ignore[misc]
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
        preparation: str | None = None,
        slope_limit: float | None = None,
        accountant: BudgetAccountant | None = None,
        neighbors: Relation = REPLACE_ONE,
        max_rows: int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.bounds = bounds
        self.categories = categories
        self.classes = classes
        self.alpha = alpha
        self.method = method
        self.preparation = preparation
        self.slope_limit = slope_limit
        self.accountant = accountant
        self.neighbors = neighbors
        self.max_rows = max_rows

    def fit(self, X: Any, y: Any, persons: Any = None) -> Any:
        """A private model of the rows; see the class for what is promised.

        Parameters
        ----------
        X : (n, p) numbers, a frame, or SciPy's sparse rows, with the columns that were declared
        y : (n,), of the declared classes; whatever else counts as the first of them
        persons : (n,), with `max_rows`: whose each row is, a whole number or text

        Raises
        ------
        ValueError
            if something is not declared, X and y are not of such a shape, or the method or the promise cannot be had.
        BudgetExhausted
            if the accountant refuses; then no data was read.
        """
        y = target(y, self)
        classes = self._declared(y)
        weights = self._fit(X, y, self._loss(len(classes)), lambda: _labels(y, classes), persons)
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

    def _unread(self, y: Any) -> float:
        return float(np.mean(_positions(y, self._declared(y)) < 0))

    def _declared(self, y: Any) -> NDArray[Any]:  # noqa: ARG002, the tests' own declares by it
        """The public classes."""
        if self.classes is None:
            raise ValueError("classes must be declared, from what you know: which of them occur is the data's own")
        return in_order(self.classes)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = True  # on the few rows of a check
        return tags

    @abstractmethod
    def _loss(self, classes: int) -> Loss:
        """What is minimized in the mean."""


class PrivateLogisticRegression(_Classifier):
    """f(m, y) = ln(1 + e^(-y m)), for more than two classes logsumexp(m) - m_y; (epsilon, delta)-DP in each row.

    For data that differ in one row, of X and y, replaced by any other: P(model in S) <= e^epsilon P(model' in S) +
    delta; with `max_rows`, in one person, all rows of theirs. n, the rows' or the persons' number, the declaration and
    all parameters are public. Each fit draws fresh noise that nobody chooses: there is no
    `random_state`, and two fits differ.

    Parameters
    ----------
    epsilon, delta : the promise of one fit; delta is min(1e-6, 1 / (10 n)) and at most the accountant's if None
    bounds : (lower, upper) for all numbers, a pair for each column, or by name {"age": (18, 90)}; must be declared. In
        place of a pair a `NumberColumn` of the service or its fields, {"lower": 0, "upper": 50, "origin": 0, "scale":
        10}: the value that is coded 0, and how far from it a code is 1 or -1
    categories : by name, of an array by position, {"sex": ["f", "m"]}: columns that are unfolded, "other" last
    classes : the public list of labels
    alpha : (alpha / 2) ||w||^2 is added to the mean loss, intercept included, as the method meets it: of standardised
        columns where rows are standardised
    method : "auto", the name of a method, or one of `solvers.methods`, with its parameters
    preparation : "private", rows are centred and scaled by private moments, part of the price, or "declared", they stay
        as coded; None is private wherever that fits (docs/http.md). A profile is a dataset's of the service
    slope_limit : c in [1e-6, 1]: f' is shortened to c sup|f'|, which takes that share of the noise and adds some bias;
        None is by a public rule (docs/http.md)
    accountant : charges the fit, with others that share it; without one nobody adds fits up
    neighbors : "replace_one", or "zero_out": one row against none in its place (docs/spec 25)
    max_rows : k: a person is protected, whom `fit` is told of each row; of each the first k rows are used

    Attributes: `coef_`, (1, p) or (K, p), and `intercept_`, in the columns' own units, for values inside of their
    bounds and scales; `coef_names_`, what each coefficient multiplies; `classes_`; `epsilon_` and `delta_`, what was
    spent; `release_`, the `solvers.Release` with its transcript; `n_features_in_`, `feature_names_in_`.
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


def in_order(declared: Any) -> NDArray[Any]:
    """Classes in scikit-learn's order; a ValueError if there are fewer than two."""
    classes: NDArray[Any] = np.unique(np.asarray(declared))
    if len(classes) < 2:
        raise ValueError("there must be two classes or more: with one class there is nothing to learn")
    return classes


def _labels(y: Any, classes: NDArray[Any]) -> Floats:
    """Return the position of each label, or for two classes -1 or +1; undeclared labels count as the first class."""
    codes = np.maximum(_positions(y, classes), 0.0)
    return 2 * codes - 1 if len(classes) == 2 else codes


def _positions(y: Any, classes: NDArray[Any]) -> Floats:
    """Return the position of each label, found as it is or else as text ("1" for 1.0); -1 if it is not declared."""
    known = {label: code for code, label in enumerate(classes.tolist())}
    texts = {as_text(plain(label)): code for label, code in known.items()}

    def position(label: Any) -> int:
        try:
            return known[label] if label in known else texts.get(as_text(plain(label)), -1)
        except Exception:  # not hashable, or whatever a class of the caller's raises
            return -1

    return np.array(list(map(position, objects(y))), dtype=np.float64)
