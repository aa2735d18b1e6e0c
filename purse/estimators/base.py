"""min over w of (1/n) sum_i f(<z_i, w>, y_i) + (alpha / 2) ||w||^2, privately: z_i is row i as it is prepared.

A row is coded as the service codes it: a number in [-1, 1] by its bounds, or from a declared origin by its scale (where
bounds are consecutive whole numbers, like (0, 1), in [0, 1]: the lower is the origin), a category by a single 1; a 1 is
added for the intercept. With `preparation="declared"` that is z_i. By default z_i is such a row centred and scaled by
private means and variances, which the fit's price includes, and shortened to a public length; alpha acts on the
standardised coefficients then, and the model is reported in the declared columns all the same. The slopes of f are
limited as `slope_limit`, or its public rule, says. `adaptive_gd`, which "auto" takes where it can, limits gradients in
place of rows and by its own rule, and adds penalties at the level of the noise (docs/methods/adaptive_gd.md).

An input is refused for its type or its shape, never for a value. A missing or unreadable number counts as the middle of
its bounds, one outside as the nearer bound, and a category that is not declared as "other".
"""

from collections.abc import Callable, Sequence
from typing import Any, Final, get_args

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.utils import check_array, check_consistent_length
from sklearn.utils.validation import check_is_fitted, validate_data

from accounting.privacy import Privacy, Unit
from purse.estimators import declared
from purse.estimators.accountant import ROW
from purse.estimators.declared import Floats
from purse.estimators.values import column, columns, matrix, plain_values
from purse.frames import is_frame
from purse.model import inputs
from purse.values import as_text
from purse.wire.columns import Column
from solvers import preparation
from solvers.losses import Loss
from solvers.methods import Method
from solvers.problem import Problem
from solvers.regularizers import L2, NoRegularizer
from solvers.selection import Auto
from solvers.solve import plan, release

_TAKEN: Final[dict[str, Any]] = {"dtype": None, "ensure_all_finite": False, "accept_sparse": "csc"}
METHODS: Final[dict[str, Method | Auto]] = {kind().name: kind() for kind in (Auto, *get_args(Method))}
PREPARATIONS: Final[dict[str, preparation.AskedPreparation]] = {
    "private": preparation.Private(),
    "declared": preparation.Declared(),
}


class Private(BaseEstimator):  # type: ignore[misc]
    """What all have in common: a declaration, a fit that is planned, charged and run, margins."""

    def _fit(self, X: Any, y: Any, loss: Loss, targets: Callable[[], Floats], persons: Any) -> Floats:
        """The coefficients of coded rows, (K, d). In this order: shapes, the plan, the charge, and then the data."""
        X = self._taken(X)
        check_consistent_length(X, y, persons)
        features, named, unit = self._features(X), _names(persons), self._unit(persons)
        n = X.shape[0] if named is None else len(np.unique(named))
        laid_out, regularizer = declared.layout(features), L2(self.alpha) if self.alpha else NoRegularizer()
        facts: Any = {"n": n, "d": laid_out.d, "row_norm": laid_out.row_norm, "columns": laid_out}
        facts |= {"relation": self.neighbors, "unit": unit}
        privacy, accountant = self._privacy(n), self.accountant
        is_gaussian = accountant is not None and accountant.filter.kind == "gdp"
        problem = Problem(loss, regularizer, **facts)
        quote = plan(
            _method(self.method),
            problem,
            privacy,
            currency="gaussian" if is_gaussian else "renyi",
            preparation=_preparation(self.preparation),
            slope_limit=self.slope_limit,
        )
        if accountant is not None:
            accountant.charge(quote.release, privacy, unit)
        self.release_ = release(quote, dict(enumerate(_codes(features, X))), targets(), named)
        self.epsilon_, self.delta_, self._columns = self.release_.epsilon, self.release_.delta, features
        self.coef_names_ = [name for feature in features for name in inputs(feature)]
        self._weights = self.release_.coefficients.reshape(-1, laid_out.d)
        return self._weights

    def unread(self, X: Any, y: Any) -> dict[str, float]:
        """For each column, and the target, the share of values that a fit would not take as they stand.

        They are missing, no number, beyond their bounds or not declared. These are exact counts of the data, for who
        holds it and wants to know before a fit whether the declaration is that of the file; they are not private.
        """
        twin = clone(self)
        features = twin._features(X := twin._taken(X))
        values = zip(features, columns(X, len(features)), strict=True)
        found = {feature.name: declared.unread(feature, x) for feature, x in values}
        return found | {"the target": self._unread(target(y, self))}

    def _unit(self, persons: Any) -> Unit:
        """What neighbors differ in."""
        if (persons is None) != (self.max_rows is None):
            raise ValueError("max_rows, of each person at most, goes with fit(X, y, persons=...), whose each row is")
        return ROW if persons is None else Unit("person", self.max_rows)

    def _features(self, X: Any) -> tuple[Column, ...]:
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
        X = self._taken(X, reset=False)
        return declared.margins(self._columns, _codes(self._columns, X), self._weights)

    def _taken(self, X: Any, reset: bool = True) -> Any:
        """Return a frame, an array or sparse rows; a ValueError if the shape is not (n, p)."""
        X = matrix(X)
        if not is_frame(X):
            return validate_data(self, X, **_TAKEN, reset=reset)
        frame: Any = validate_data(self, X, skip_check_array=True, reset=reset)
        check_array(np.broadcast_to(0.0, frame.shape), estimator=self)
        return frame

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = tags.input_tags.sparse = True
        tags.non_deterministic = True  # the noise is nobody's to choose
        tags.target_tags.required = True
        return tags


def target(y: Any, estimator: Any) -> Any:
    """Return y as one column of whatever type; a ValueError if it is None or of another shape."""
    if y is None:
        name = type(estimator).__name__
        raise ValueError(f"This {name} estimator requires y to be passed, but the target y is None.")
    return column(y)


def _method(asked: "str | Method | Auto") -> "Method | Auto":
    if not isinstance(asked, str):
        return asked
    if asked not in METHODS:
        raise ValueError(f"method must be one of {', '.join(METHODS)}, or an object of solvers.methods")
    return METHODS[asked]


def _preparation(asked: Any) -> preparation.AskedPreparation | None:
    if asked is None:
        return None
    if asked == "profile":
        raise ValueError(
            "preparation profile is by moments that were released for a dataset of the service: there is no such "
            "release here. Say private, which the fit's own price includes, or declared"
        )
    if not isinstance(asked, str) or asked not in PREPARATIONS:
        raise ValueError(f"preparation must be {' or '.join(PREPARATIONS)}, or None: private where that fits")
    return PREPARATIONS[asked]


def _names(persons: Any) -> NDArray[Any] | None:
    """Return each row's person, a whole number or text.

    Raises
    ------
    ValueError
        if a row has none, as the service refuses such a file.
    """
    if persons is None:
        return None
    named = column(persons)
    if isinstance(named, np.ndarray) and named.dtype.kind in "iu":
        return named
    texts = [as_text(name).strip() for name in plain_values(named)]
    if "" in texts:
        raise ValueError("persons must say whose each row is")
    return np.array(texts)


def _codes(features: Sequence[Column], X: Any) -> list[Floats]:
    values = zip(features, columns(X, len(features)), strict=True)
    return [declared.codes(feature, x) for feature, x in values]
