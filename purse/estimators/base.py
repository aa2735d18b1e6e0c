"""The common part of private estimators: min over w of (1/n) sum_i f(<z_i, w>, y_i) + (alpha / 2) ||w||^2.

Here z_i is row i as it is prepared. A row is first encoded as in the service. A number becomes a code in [-1, 1] by its
bounds, or by its origin and scale. Bounds that are consecutive integers, such as (0, 1), have the lower one as their
origin. A category becomes a single 1 among zeros. A constant 1 is added for the intercept.

With `preparation="declared"` this is z_i. By default the encoded row is centered and scaled by private means and
variances, whose price is part of the fit's, and clipped to a public norm. Then `alpha` acts on standardized
coefficients, but the model is in the declared columns. `slope_limit` limits the derivative of f. `adaptive_gd`, the
first choice of "auto", limits gradients instead of rows, and adds penalties at the level of the noise
(docs/methods/adaptive_gd.md).

A fit refuses types and shapes but never values. A missing or unreadable number counts as the middle of its bounds, a
number outside as the nearest bound, and an undeclared category as "other". A category whose released share is below
its noise gets coefficient 0, as in the service.
"""

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from inspect import Signature, signature
from typing import Any, Final, Self, get_args

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.utils import check_array, check_consistent_length
from sklearn.utils.validation import check_is_fitted, validate_data

from accounting.privacy import REPLACE_ONE, Privacy, Relation, Unit
from purse.estimators import declared
from purse.estimators.accountant import ROW, BudgetAccountant
from purse.estimators.declared import Floats
from purse.estimators.designs import codes_of, terms_of
from purse.estimators.unsupported import refuse
from purse.estimators.values import column, columns, matrix, plain_values
from purse.frames import is_frame
from purse.prediction import UnsupportedCategory, affected_columns, sums
from purse.regression import Regression
from purse.solved_tables import count_refusal, model_coefficients, published, refusal, units
from purse.terms import features_of
from purse.text import loss
from purse.values import as_text
from purse.wire.columns import Column, NumberColumn
from purse.wire.models import Link, coefficient_terms, unsupported
from solvers import preparation
from solvers.inference import RegressionTable, RegressionTableRun
from solvers.inference.coordinates import Stds
from solvers.inference.table import Units, table
from solvers.losses import Loss
from solvers.methods import Method
from solvers.problem import Problem
from solvers.regularizers import L2, NoRegularizer
from solvers.selection import Auto
from solvers.solve import PlannedRun, Release, plan, release

_VALIDATION: Final[dict[str, Any]] = {"dtype": None, "ensure_all_finite": False, "accept_sparse": "csc"}
METHODS: Final[dict[str, Method | Auto]] = {kind().name: kind() for kind in (Auto, *get_args(Method))}
PREPARATIONS: Final[dict[str, preparation.AskedPreparation]] = {
    "private": preparation.Private(),
    "declared": preparation.Declared(),
}


class _SignatureOfInit:
    """The signature of a class by its `__init__`. Early releases of Python 3.11 take an inherited `__new__` instead."""

    def __get__(self, instance: object, owner: type) -> Signature:
        with_self = signature(owner.__init__)  # type: ignore[misc]
        return with_self.replace(parameters=list(with_self.parameters.values())[1:])


@dataclass(eq=False, repr=False)
class PrivateEstimator(BaseEstimator):  # type: ignore[misc]
    """The declaration, the planned and charged fit, and the margins of a private estimator."""

    __signature__ = _SignatureOfInit()
    inference = False  # a parameter of the estimators that can fit a regression table

    epsilon: float = 1.0
    _: KW_ONLY
    delta: float | None = None
    bounds: Any = None
    categories: Mapping[Any, Sequence[Any]] | None = None
    terms: str | Sequence[Any] | None = None
    alpha: float = 0.0
    method: "str | Method | Auto" = "auto"
    preparation: str | None = None
    slope_limit: float | None = None
    accountant: BudgetAccountant | None = None
    neighbors: Relation = REPLACE_ONE
    max_rows: int | None = None

    def __new__(cls, *_: Any, **keywords: Any) -> Self:
        refuse(cls.__name__, keywords)
        created: Self = super().__new__(cls)
        return created

    def _fit(self, X: Any, y: Any, loss: Loss, targets: Callable[[], Floats], persons: Any) -> Floats:
        """Return the coefficients of encoded rows, (K, d), after shapes, plan and charge are settled in this order."""
        X = self._validated(X)
        check_consistent_length(X, y, persons)
        terms = terms_of(self.terms)
        inputs_of_rows = self._features(X)
        of_rows = features_of(inputs_of_rows, terms)
        features = tuple(feature.column for feature in of_rows)
        named = _person_names(persons)
        unit = self._unit(persons)
        n = X.shape[0] if named is None else len(np.unique(named))
        layout = declared.layout(features)
        regularizer = L2(self.alpha) if self.alpha else NoRegularizer()
        if self.inference and (self.method, self.preparation, self.slope_limit) != ("auto", None, None):
            raise ValueError("inference chooses its own method: leave out method, preparation and slope_limit")
        if self.inference and (reason := self._refusal_of_table(features)):
            raise ValueError(reason)
        facts: Any = {"n": n, "d": layout.d, "row_norm": layout.row_norm, "columns": layout}
        facts |= {"relation": self.neighbors, "unit": unit}
        privacy, accountant = self._privacy(n), self.accountant
        is_gaussian = accountant is not None and accountant.filter.kind == "gdp"
        problem = Problem(loss, regularizer, **facts)
        planned = plan(
            self._requested_table() if self.inference else _method(self.method),
            problem,
            privacy,
            currency="gaussian" if is_gaussian else "renyi",
            preparation=_preparation(self.preparation),
            slope_limit=self.slope_limit,
        )
        if accountant is not None:
            accountant.charge(planned.release, privacy, unit)
        self.release_ = release(planned, dict(enumerate(codes_of(inputs_of_rows, of_rows, X))), targets(), named)
        self.epsilon_, self.delta_, self._columns = self.release_.epsilon, self.release_.delta, features
        self._inputs, self._terms = inputs_of_rows, terms
        self.coef_names_ = [name for feature in features for name in coefficient_terms(feature)]
        if self.inference:
            return self._tabulated(planned, problem)
        self._is_unsupported = _unsupported(features, self.release_)
        self._weights = self.release_.coefficients.reshape(-1, layout.d).copy()
        self._weights[:, :-1][:, self._is_unsupported] = 0.0
        return self._weights

    def _refusal_of_table(self, features: Sequence[Column]) -> str | None:
        """Return why a table of these columns cannot be published, or None."""
        target = self._number_target()
        return refusal(features, target) or (count_refusal(target) if self._is_count else None)

    def _requested_table(self) -> RegressionTable:
        """Return the method of the regression table."""
        target = self._number_target()
        return RegressionTable(
            largest_count=target.upper if self._is_count and isinstance(target, NumberColumn) else None
        )

    def _tabulated(self, planned: PlannedRun, problem: Problem) -> Floats:
        """Set the regression table, and return its estimates as coefficients of encoded rows, (1, d)."""
        features, target, run, is_count = self._columns, self._number_target(), planned.method, self._is_count
        assert isinstance(run, RegressionTableRun)
        stds = Stds(problem, lambda query: planned.release.plan.query(query).noise_multiplier)
        solved = table(problem, run, self.release_.coefficients, stds, Units(**units(features, target, is_count)))
        fields = published(features, target, solved, run.level)
        heading = {"privacy": f"{loss(self.epsilon_, self.delta_)}, {problem.relation}"}
        heading |= {f"{problem.unit.name}s": f"{problem.n:,}"}
        link: Link = "log" if is_count else "logistic" if target is None else "identity"
        self.regression_ = Regression(fields["table"], fields["covariance"], fields["inference"], heading, link)
        self._is_unsupported = np.zeros(problem.d - 1, dtype=bool)
        self._weights = np.array([model_coefficients(solved, target, is_count)])
        return self._weights

    @property
    def _is_count(self) -> bool:
        """Whether the regression table is that of a Poisson regression."""
        return False

    def _number_target(self) -> Column | None:
        """Return the declaration of a number target; None for classes."""
        return None

    def unread(self, X: Any, y: Any) -> dict[str, float]:
        """Return, for each column and the target, the share of values that a fit would replace.

        These values are missing, not numbers, out of bounds or not declared. The shares are exact and not private:
        they are for the holder of the data, to check a declaration before a fit.
        """
        twin = clone(self)
        features = twin._features(X := twin._validated(X))
        values = zip(features, columns(X, len(features)), strict=True)
        shares = {feature.name: declared.unread(feature, x) for feature, x in values}
        return shares | {"the target": self._unread(target(y, self))}

    def _unit(self, persons: Any) -> Unit:
        """Return the difference between neighbors: a row, or a person."""
        if (persons is None) != (self.max_rows is None):
            raise ValueError(
                "max_rows goes with fit(X, y, persons=...), because it caps the rows of each person. Pass both or "
                "neither"
            )
        return ROW if persons is None else Unit("person", self.max_rows)

    def _features(self, X: Any) -> tuple[Column, ...]:
        """Return the declaration of each column of X."""
        names = getattr(self, "feature_names_in_", range(X.shape[1]))
        return declared.columns(self.bounds, self.categories, [*names])

    def _privacy(self, n: int) -> Privacy:
        if self.delta is not None:
            return Privacy(self.epsilon, self.delta)
        limit = 1.0 if self.accountant is None else self.accountant.filter.privacy.delta
        return Privacy(self.epsilon, min(limit, 1e-6, 1 / (10 * n)))

    def _margins(self, X: Any) -> Floats:
        """Return the margins of rows, (n, K)."""
        check_is_fitted(self, "release_")
        features = features_of(self._inputs, self._terms)
        codes = codes_of(self._inputs, features, self._validated(X, reset=False))
        affected = affected_columns(self._columns, codes, self._is_unsupported)
        if affected:
            warnings.warn(
                f"Some rows hold categories whose coefficients are 0, in columns: {', '.join(affected)}. The released "
                "shares cannot tell these categories from categories without training rows.",
                UnsupportedCategory,
                stacklevel=3,
            )
        intercepts, coefficients = self._weights[:, -1], self._weights[:, :-1]
        return sums(self._columns, codes, np.tile(intercepts, (len(codes[0]), 1)), coefficients)

    def _validated(self, X: Any, reset: bool = True) -> Any:
        """Return a frame, an array or sparse rows; a ValueError if the shape is not (n, p)."""
        X = matrix(X)
        if not is_frame(X):
            return validate_data(self, X, **_VALIDATION, reset=reset)
        frame: Any = validate_data(self, X, skip_check_array=True, reset=reset)
        check_array(np.broadcast_to(0.0, frame.shape), estimator=self)
        return frame

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = tags.input_tags.sparse = True
        tags.non_deterministic = True  # each fit draws fresh noise
        tags.target_tags.required = True
        return tags


def target(y: Any, estimator: Any) -> Any:
    """Return y as one column of any type; a ValueError if it is None or of another shape."""
    if y is None:
        name = type(estimator).__name__
        raise ValueError(f"This {name} estimator requires y to be passed, but the target y is None.")
    return column(y)


def _unsupported(features: Sequence[Column], fitted: Release) -> NDArray[np.bool_]:
    """Return whether each coefficient is of a category that the released shares cannot tell from an absent one."""
    size = sum(column.code_count for column in features)
    if fitted.means is None:
        return np.zeros(size, dtype=bool)
    return np.array(unsupported(features, fitted.means.values.tolist(), [fitted.means.noise_std] * size), dtype=bool)


def _method(chosen: "str | Method | Auto") -> "Method | Auto":
    if not isinstance(chosen, str):
        return chosen
    if chosen not in METHODS:
        raise ValueError(f"method must be one of {', '.join(METHODS)}, or an object of solvers.methods")
    return METHODS[chosen]


def _preparation(chosen: Any) -> preparation.AskedPreparation | None:
    if chosen is None:
        return None
    if chosen == "profile":
        raise ValueError(
            "preparation 'profile' uses moments that were released for a dataset of the service, and a local fit has "
            "no such release. Use 'private', whose price is part of the fit's, or 'declared'"
        )
    if not isinstance(chosen, str) or chosen not in PREPARATIONS:
        raise ValueError(f"preparation must be {' or '.join(PREPARATIONS)}, or None: private if possible")
    return PREPARATIONS[chosen]


def _person_names(persons: Any) -> NDArray[Any] | None:
    """Return each row's person, an integer or text.

    Raises
    ------
    ValueError
        if a row has no person, as the service refuses such a file.
    """
    if persons is None:
        return None
    named = column(persons)
    if isinstance(named, np.ndarray) and named.dtype.kind in "iu":
        return named
    texts = [as_text(name).strip() for name in plain_values(named)]
    if "" in texts:
        raise ValueError("persons must name a person for each row: a row without one would not be protected")
    return np.array(texts)
