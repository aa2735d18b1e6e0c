"""Private regressors: where targets lie is declared."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

from sklearn.base import RegressorMixin

from accounting.privacy import REPLACE_ONE, Relation
from purse.estimators import declared
from purse.estimators.accountant import BudgetAccountant
from purse.estimators.base import Private, target
from purse.estimators.declared import Floats
from purse.prediction import number_scale
from purse.wire.columns import NumberColumn
from solvers.losses import Loss, Quantile, Squared
from solvers.methods import Method
from solvers.selection import Auto


class _Regressor(RegressorMixin, Private, ABC):  # type: ignore[misc]
    def fit(self, X: Any, y: Any, persons: Any = None) -> Any:
        """A private model of the rows; see the class for what is promised.

        Parameters
        ----------
        X : (n, p) numbers, a frame, or SciPy's sparse rows, with the columns that were declared
        y : (n,) numbers; those outside of `target_bounds` count as the nearer one, what is none as their middle
        persons : (n,), with `max_rows`: whose each row is, a whole number or text

        Raises
        ------
        ValueError
            if something is not declared, X and y are not of such a shape, or the method or the promise cannot be had.
        BudgetExhausted
            if the accountant refuses; then no data was read.
        """
        y, bounded = target(y, self), self._bounded()
        weights = self._fit(X, y, self._loss(), lambda: declared.codes(bounded, y), persons)
        self._scale = number_scale(bounded)
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

    def _unread(self, y: Any) -> float:
        return declared.unread(self._bounded(), y)

    def _bounded(self) -> NumberColumn:
        if self.target_bounds is None:
            raise ValueError("target_bounds must be declared, (lower, upper), from what you know and not from y")
        return declared.number("the target", self.target_bounds)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True  # on the few rows of a check
        return tags

    @abstractmethod
    def _loss(self) -> Loss:
        """What is minimized in the mean."""


class PrivateLinearRegression(_Regressor):
    """f(m, y) = (m - y)^2 / 2 where |m - y| is at most half the target's range, straight beyond; (epsilon, delta)-DP.

    With `slope_limit` c it is straight beyond c times that; by default, where "auto" takes `adaptive_gd`, beyond a
    multiple of the residuals' own scale, which is released and part of the price.

    Promise, parameters and attributes are those of `PrivateLogisticRegression`, with `target_bounds`, (lower, upper) or
    a declaration as of a column, whose scale counts as half the range, instead of classes; `coef_` is (p,), in the
    target's unit over the column's.
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        *,
        delta: float | None = None,
        bounds: Any = None,
        categories: Mapping[Any, Sequence[Any]] | None = None,
        target_bounds: Any = None,
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
        self.target_bounds = target_bounds
        self.alpha = alpha
        self.method = method
        self.preparation = preparation
        self.slope_limit = slope_limit
        self.accountant = accountant
        self.neighbors = neighbors
        self.max_rows = max_rows

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
        target_bounds: Any = None,
        alpha: float = 0.0,
        method: "str | Method | Auto" = "auto",
        preparation: str | None = None,
        slope_limit: float | None = None,
        accountant: BudgetAccountant | None = None,
        neighbors: Relation = REPLACE_ONE,
        max_rows: int | None = None,
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
        self.preparation = preparation
        self.slope_limit = slope_limit
        self.accountant = accountant
        self.neighbors = neighbors
        self.max_rows = max_rows

    def _loss(self) -> Loss:
        return Quantile(self.quantile, self.smoothing)
