"""Private classifiers, whose labels are declared."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin

from purse.estimators import declared
from purse.estimators.base import PrivateEstimator, target
from purse.estimators.declared import Floats
from purse.estimators.unsupported import refuse_fit_parameters
from purse.estimators.values import plain
from purse.prediction import softmax
from purse.values import as_text
from solvers.data_access.containers import objects
from solvers.losses import HuberHinge, Logistic, Loss, Softmax


@dataclass(eq=False, repr=False)
class _Classifier(ClassifierMixin, PrivateEstimator, ABC):  # type: ignore[misc]
    """The common part of private classifiers."""

    _: KW_ONLY
    classes: Sequence[Any] | None = None
    inference: bool = False

    def fit(self, X: Any, y: Any, persons: Any = None, **unsupported: Any) -> Any:
        """Fit a private model of the rows and return it; the class documents the guarantee.

        Parameters
        ----------
        X : (n, p) numbers, a frame, or SciPy's sparse rows, with the declared columns
        y : (n,) labels; undeclared ones count as the first class
        persons : (n,), with `max_rows`: each row's person, an integer or text
        unsupported : parameters of scikit-learn such as `sample_weight`, which are refused with a reason

        Raises
        ------
        ValueError
            if a declaration is missing, X or y has a wrong shape, or no such method or guarantee exists.
        BudgetExhausted
            if the accountant refuses the fit; then no data was read.
        """
        refuse_fit_parameters(self, unsupported)
        y = target(y, self)
        classes = self._declared(y)
        weights = self._fit(X, y, self._loss(len(classes)), lambda: encoded_labels(y, classes), persons)
        self.classes_ = classes
        self.coef_, self.intercept_ = declared.original(self._columns, weights)
        return self

    def decision_function(self, X: Any) -> Floats:
        """Return the margins: (n,) of the second class for two classes, (n, K) for more."""
        margins = self._margins(X)
        return margins[:, 0] if margins.shape[1] == 1 else margins

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the class of each row, (n,). Predictions reveal the rows that they are for."""
        margins = self._margins(X)
        indices = (margins[:, 0] > 0).astype(int) if margins.shape[1] == 1 else margins.argmax(axis=1)
        labels: NDArray[Any] = self.classes_[indices]
        return labels

    def _unread(self, y: Any) -> float:
        return float(np.mean(class_indices(y, self._declared(y)) < 0))

    def _declared(self, y: Any) -> NDArray[Any]:  # noqa: ARG002, used by a class of the tests
        """Return the declared classes."""
        if self.classes is None:
            raise declared.missing(self, "classes", "classes=['no', 'yes']")
        return in_order(self.classes)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = True  # the checks use too few rows
        return tags

    @abstractmethod
    def _loss(self, classes: int) -> Loss:
        """Return the loss whose mean is minimized."""


class PrivateLogisticRegression(_Classifier):
    """Private logistic regression: f(m, y) = ln(1 + e^(-y m)); softmax for more than two classes.

    A fit is (epsilon, delta)-DP for data that differ in one row of X and y, replaced by any other:
    P(model in S) <= e^epsilon P(model' in S) + delta. With `max_rows`, data may differ in all rows of one person. The
    number of rows or persons, the declaration and all parameters are public. Each fit draws fresh noise without a seed,
    so two fits differ.

    Parameters
    ----------
    epsilon, delta : guarantee of one fit; if delta is None, min(1e-6, 1 / (10 n)) and at most the accountant's
    bounds : (lower, upper) for all numbers, a pair for each column, or pairs by name, {"age": (18, 90)}; required. A
        `NumberColumn` of the service or its fields may replace a pair, {"lower": 0, "upper": 50, "origin": 0, "scale":
        10}: the origin is the value with code 0, and the scale the distance with code 1
    categories : categories of columns by name, or by position in an array, {"sex": ["f", "m"]}; each column becomes
        one 0/1 column for each category and a last one for "other"
    terms : a formula such as "age + I(age**2) + ward * sex", or a list of terms (docs/jobs.md#terms); without terms,
        every column is a feature
    classes : the public list of labels; required
    alpha : adds (alpha / 2) ||w||^2 to the mean loss, intercept included; acts on standardized coefficients if rows are
        standardized. C of scikit-learn is 1 / (alpha n)
    method : "auto", the name of a method, or an object of `solvers.methods` with its parameters
    preparation : "private" standardizes rows by private moments, whose price is part of the fit's; "declared" leaves
        rows as encoded; None is private if possible (docs/jobs.md)
    slope_limit : c in [1e-6, 1]: clips f' to c sup|f'|, for less noise and some bias; None follows a public rule
        (docs/jobs.md)
    accountant : a budget that the fit is charged to; without one, fits are not added up
    neighbors : "replace_one", or "zero_out" for a row against a blank one (docs/spec 25)
    max_rows : k: protects persons, whom `fit` gets for each row; the first k rows of each person are used
    inference : whether to fit a regression table: unpenalized estimates whose standard errors include sampling error
        and privacy noise (docs/how-to/regression.md); without method, preparation, slope_limit and alpha

    Attributes
    ----------
    coef_, intercept_ : (1, p) or (K, p), and (1,) or (K,), in the units of the columns, for values inside their bounds.
        A category whose released share is below its noise has coefficient 0
    coef_names_ : the term of each coefficient
    regression_ : with `inference`, the table: params, bse, pvalues, conf_int(), summary()
    classes_, n_features_in_, feature_names_in_ : as in scikit-learn
    epsilon_, delta_ : what was spent
    release_ : the `solvers.Release` with its transcript
    """

    def predict_proba(self, X: Any) -> Floats:
        """Return P(class), (n, K), in the order of `classes_`."""
        margins = self._margins(X)
        return softmax(np.column_stack((np.zeros(len(margins)), margins)) if margins.shape[1] == 1 else margins)

    def _loss(self, classes: int) -> Loss:
        return Logistic() if classes == 2 else Softmax(classes)


class PrivateLinearSVC(_Classifier):
    """Private linear support vector classifier for two classes: f(m, y) = max(0, 1 - y m), rounded near its kink.

    The kink is rounded over 1/2 of the margin (`solvers.losses.HuberHinge`). Guarantee, parameters and attributes are
    those of `PrivateLogisticRegression`.
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
    """Return classes in scikit-learn's order; a ValueError if there are fewer than two."""
    classes: NDArray[Any] = np.unique(np.asarray(declared))
    if len(classes) < 2:
        raise ValueError("classes must hold two labels or more: with one class there is nothing to learn")
    return classes


def encoded_labels(y: Any, classes: NDArray[Any]) -> Floats:
    """Return the index of each class, or -1 or +1 for two classes; undeclared labels count as the first class."""
    codes = np.maximum(class_indices(y, classes), 0.0)
    return 2 * codes - 1 if len(classes) == 2 else codes


def class_indices(y: Any, classes: NDArray[Any]) -> Floats:
    """Return the index of each label's class, by the label or by its text ("1" for 1.0); -1 if it is not declared."""
    by_label = {label: code for code, label in enumerate(classes.tolist())}
    by_text = {as_text(plain(label)): code for label, code in by_label.items()}

    def index(label: Any) -> int:
        try:
            return by_label[label] if label in by_label else by_text.get(as_text(plain(label)), -1)
        except Exception:  # not hashable, or an error of the caller's own class
            return -1

    return np.array(list(map(index, objects(y))), dtype=np.float64)
