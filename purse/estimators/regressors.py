"""Private regressors, whose range of targets is declared."""

from abc import ABC, abstractmethod
from dataclasses import KW_ONLY, dataclass
from typing import Any

from sklearn.base import RegressorMixin

from purse.estimators import declared
from purse.estimators.base import PrivateEstimator, target
from purse.estimators.declared import Floats
from purse.estimators.unsupported import refuse_fit_parameters
from purse.prediction import predicted_numbers
from purse.wire.columns import NumberColumn
from solvers.losses import Loss, Quantile, Squared


@dataclass(eq=False, repr=False)
class _Regressor(RegressorMixin, PrivateEstimator, ABC):  # type: ignore[misc]
    """The common part of private regressors."""

    _: KW_ONLY
    target_bounds: Any = None

    def fit(self, X: Any, y: Any, persons: Any = None, **unsupported: Any) -> Any:
        """Fit a private model of the rows and return it; the class documents the guarantee.

        Parameters
        ----------
        X : (n, p) numbers, a frame, or SciPy's sparse rows, with the declared columns
        y : (n,) numbers; those outside `target_bounds` count as the nearest bound, other values as the middle
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
        bounded = self._bounded()
        is_count = self._is_count
        weights = self._fit(X, y, self._loss(), lambda: declared.codes(bounded, y), persons)
        self._target, self._predicts_counts = bounded, is_count
        middle, half = (0.0, 1.0) if is_count else bounded.middle_and_half
        slopes, intercepts = declared.original(self._columns, weights)
        self.coef_ = half * slopes[0]
        self.intercept_ = middle + half * float(intercepts[0])
        return self

    def predict(self, X: Any) -> Floats:
        """Return the target of each row in its unit, clipped to `target_bounds`, (n,); for counts their mean.

        Predictions reveal the rows that they are for.
        """
        margins = self._margins(X)[:, 0]  # refuses an estimator that is not fitted, which has no declared target yet
        return predicted_numbers(self._target, margins, is_log=self._predicts_counts)

    def _unread(self, y: Any) -> float:
        return declared.unread(self._bounded(), y)

    def _number_target(self) -> NumberColumn:
        return self._bounded()

    def _bounded(self) -> NumberColumn:
        if self.target_bounds is None:
            raise declared.missing(self, "target_bounds", "target_bounds=(0, 100)")
        return declared.number("the target", self.target_bounds)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True  # the checks use too few rows
        return tags

    @abstractmethod
    def _loss(self) -> Loss:
        """Return the loss whose mean is minimized."""


@dataclass(eq=False, repr=False)
class PrivateLinearRegression(_Regressor):
    """Private linear regression: f(m, y) = (m - y)^2 / 2 up to half the target's range, and linear beyond.

    With `slope_limit` c, f is linear beyond c times half the range. If "auto" chooses `adaptive_gd`, the default, f is
    linear beyond a multiple of the scale of the residuals, which is released and part of the price.

    Guarantee, parameters and attributes are those of `PrivateLogisticRegression`, with `target_bounds` instead of
    classes: (lower, upper), or the fields of a number column, whose `scale` then counts as half the range. `coef_` is
    (p,), in the target's unit per unit of the column.

    Parameters
    ----------
    family : with `inference`, "poisson" fits a Poisson regression with log link to counts, which `target_bounds` must
        declare as (0, largest). `coef_` is then the change of the log of the mean count
    """

    _: KW_ONLY
    inference: bool = False
    family: str | None = None

    @property
    def _is_count(self) -> bool:
        if self.family not in (None, "poisson") or (self.family and not self.inference):
            raise ValueError('family must be None, or "poisson" with inference=True')
        return self.family == "poisson"

    def _loss(self) -> Loss:
        return Squared()


@dataclass(eq=False, repr=False)
class PrivateQuantileRegressor(_Regressor):
    """Private quantile regression: f(m, y) = max(q (y - m), (1 - q) (m - y)), smoothed.

    Guarantee and attributes are those of `PrivateLinearRegression`, and so are the parameters besides these two.

    Parameters
    ----------
    quantile : q, in [0.001, 0.999]
    smoothing : h of `solvers.losses.Quantile`, in units of half the target's range; with 0, the unsmoothed loss, fewer
        methods are proven and they take longer
    """

    _: KW_ONLY
    quantile: float = 0.5
    smoothing: float = 0.01

    def _loss(self) -> Loss:
        return Quantile(self.quantile, self.smoothing)
