"""The fit of a method to a problem: how its rows are prepared and its slopes limited, from public facts."""

from dataclasses import dataclass, replace

from accounting.numbers import within
from accounting.privacy import Privacy
from solvers.errors import Unsuitable
from solvers.losses import Squared
from solvers.methods import AdaptiveGd, Method, Run
from solvers.methods.defaults.descent import budget_mu
from solvers.preparation import AskedPreparation, ByMethod, ByProfile, Declared, Preparation, Private
from solvers.problem import Problem

_REQUESTED = "requested"  # the reason for a preparation that the request names
_DEFAULT_SLOPE_LIMIT, _LIMIT_BELOW_SIGNAL = 0.7, 80.0  # measured: docs/proofs/limited_slopes.md


@dataclass(frozen=True, slots=True)
class Wish:
    """Settings of a request in addition to its method; None leaves the choice to the rules.

    Parameters
    ----------
    preparation : how rows are to be prepared
    slope_limit : c of `Problem`, in [1e-6, 1]

    Raises
    ------
    OutOfRange
        if the limit is not a number in that range.
    """

    preparation: AskedPreparation | None = None
    slope_limit: float | None = None

    def __post_init__(self) -> None:
        if self.slope_limit is not None:
            within(self.slope_limit, "slope_limit", 1e-6, 1)

    def limit(self, problem: Problem) -> float | None:
        """Return the requested slope limit, from here or from the problem."""
        return problem.slope_limit if self.slope_limit is None and problem.slope_limit < 1 else self.slope_limit


WISHLESS = Wish()


@dataclass(frozen=True, slots=True)
class Fitted:
    """A method resolved for the rows that it will get, the preparation of these rows, and the reason for it.

    `problem` is that of rows as declared, with limited slopes.
    """

    method: Run
    problem: Problem
    preparation: Preparation
    reason: str


def fit(wish: Wish, method: Method, problem: Problem, privacy: Privacy) -> Fitted:
    """Return the method with the requested preparation and slope limit.

    By default, rows are privately standardized if possible, and otherwise used as declared. By default, slopes are
    limited to 0.7 of their bound if rows are privately standardized, the loss is a convex loss of one margin for
    classes, and n mu* / d < 80 (measured: docs/proofs/limited_slopes.md).

    Raises
    ------
    Unsuitable
        if the request does not fit the method or the problem, or the method does not fit the problem.
    """
    if isinstance(wish.preparation, ByProfile) and (refusal := wish.preparation.refusal(problem, privacy)):
        raise Unsuitable(f"preparation profile does not fit: {refusal}")
    if method.standardises:
        return _fit_standardising(wish, method, problem, privacy)
    refusal = Private.refusal(problem, privacy)
    if refusal is None and not isinstance(wish.preparation, Declared):
        fitted = _fit_private(wish, method, problem, privacy)
        if fitted is not None:
            return fitted
        refusal = f"private moments are Gaussian answers, and {method.name} is priced as a pure mechanism here"
    if isinstance(wish.preparation, Private):
        raise Unsuitable(f"preparation private does not fit: {refusal}")
    limit = wish.limit(problem)
    limited = problem if limit is None else replace(problem, slope_limit=limit)
    reason = str(refusal) if wish.preparation is None else _REQUESTED
    return Fitted(method.resolve(limited, privacy), limited, Declared(), reason)


def _fit_standardising(wish: Wish, method: Method, problem: Problem, privacy: Privacy) -> Fitted:
    """Fit a method that standardizes rows itself."""
    if isinstance(wish.preparation, Declared):
        raise Unsuitable(
            f"preparation declared does not fit {method.name}, which standardizes rows itself. Leave out preparation"
        )
    run = _with_slope_limit(method, problem, wish.limit(problem)).resolve(problem, privacy)
    if isinstance(wish.preparation, ByProfile):
        profile = wish.preparation.coarsened(problem, privacy, run.queries(problem))
        return Fitted(run, problem, replace(profile, by_method=True), _REQUESTED)
    return Fitted(run, problem, ByMethod(), f"{method.name} standardizes rows itself")


def _fit_private(wish: Wish, method: Method, problem: Problem, privacy: Privacy) -> Fitted | None:
    """Fit a method for rows standardized by private moments; None if the method is priced as a pure mechanism."""
    limit = wish.limit(problem) or _default_slope_limit(method, problem, privacy)
    limited = replace(problem, slope_limit=limit)
    met = Private().prepared(limited)  # rows prepared by a profile have the same bound
    run = method.resolve(met, privacy)
    queries = run.queries(met)
    if isinstance(wish.preparation, ByProfile):
        profile = wish.preparation.coarsened(problem, privacy, queries + Private().queries(problem, queries))
        return Fitted(run, limited, profile, _REQUESTED)
    if any(query.mechanism.curves(1.0).pure is not None for query in queries):
        return None
    return Fitted(run, limited, Private(), "the default" if wish.preparation is None else _REQUESTED)


def _default_slope_limit(method: Method, problem: Problem, privacy: Privacy) -> float:
    """Return c, from public facts."""
    suited = method.limits_slopes and problem.loss.takes == "class" and problem.outputs == 1 and problem.is_convex
    is_noisy = problem.n * budget_mu(problem, privacy) < _LIMIT_BELOW_SIGNAL * problem.d
    return _DEFAULT_SLOPE_LIMIT if suited and is_noisy else 1.0


def _with_slope_limit(method: Method, problem: Problem, limit: float | None) -> Method:
    """Return the method with its own slope limit set; adaptive_gd weights slopes, which keeps the right model."""
    if limit is None or not isinstance(method, AdaptiveGd):
        return method
    if isinstance(problem.loss, Squared) or method.slope_limit not in (None, limit):
        raise Unsuitable(
            "slope_limit does not fit adaptive_gd, which limits slopes itself: set the slope_limit of the method and "
            "no other; for squared, leave it out"
        )
    return replace(method, slope_limit=limit)
