"""Method "auto": the choice of a method for a problem, from public facts."""

from dataclasses import dataclass, replace
from typing import Literal

from accounting.numbers import within
from accounting.privacy import Privacy
from solvers.domains import Free
from solvers.errors import Unsuitable
from solvers.losses import Logistic, Softmax, Squared
from solvers.methods import (
    AdaptiveGd,
    DpAccMd,
    DpGd,
    DpSvrg,
    Localization,
    Method,
    NoisySgd,
    ObjectivePerturbation,
    OutputPerturbation,
    Run,
)
from solvers.methods.checks import check_loss, not_convex
from solvers.methods.defaults import budget_mu, descent_time
from solvers.methods.run import Strict
from solvers.potentials import HalfSquaredLp
from solvers.preparation import AskedPreparation, ByMethod, ByProfile, Declared, Preparation, Private
from solvers.preparation.moments import are_narrow
from solvers.problem import Problem
from solvers.regularizers import L2, NoRegularizer

Currency = Literal["renyi", "gaussian"]
"""The costs that a filter can add up: those with a Renyi curve, or Gaussian-DP costs only."""

_MANY_GRADIENTS = 1e10  # a run with more gradients takes hours
_NOISE_COST = 0.35  # of a unit of time of dp_gd, in units of d sigma_1^2, as the defaults estimate it
_WEAK_L2 = 1e-3  # with a weaker l2 it hardly matters which coordinates are penalized
_COST_MARGIN = 0.6  # objective perturbation must cost less than this share of dp_gd
_SLOPE_LIMIT = 0.7
_LARGEST_LIMITED_RATIO = 80.0  # of n mu* / d: slopes are limited by default below it
_LEAST_CURVATURE = 0.1  # of n mu epsilon: if L is below it, the determinant costs a tenth of epsilon without a ridge


@dataclass(frozen=True, slots=True)
class Wish:
    """The requested settings beside the method; None means the default rule.

    Parameters
    ----------
    preparation : how rows are prepared
    slope_limit : c of `Problem`, in [1e-6, 1]

    Raises
    ------
    OutOfRange
        if the limit is not a number in that range
    """

    preparation: AskedPreparation | None = None
    slope_limit: float | None = None

    def __post_init__(self) -> None:
        if self.slope_limit is not None:
            within(self.slope_limit, "slope_limit", 1e-6, 1)

    def limit(self, problem: Problem) -> float | None:
        """Return the slope limit that was requested, here or in the problem."""
        return problem.slope_limit if self.slope_limit is None and problem.slope_limit < 1 else self.slope_limit


WISHLESS = Wish()


@dataclass(frozen=True, slots=True)
class Auto(Strict):
    """The choice of a method by these rules:

    - adaptive_gd if columns are declared, the loss is logistic, softmax or squared, the domain is free and r is at most
      a weak l2. Exception: a requested slope limit for numbers, because adaptive_gd clips residuals at its own scale.
    - Otherwise dp_gd, with these exceptions:
    - dp_svrg if dp_gd would need over 1e10 gradient evaluations.
    - dp_acc_md on an l1 ball with d above n, if r has no quadratic part.
    - objective_perturbation on a free domain if l2 is strong relative to the noise.
    - noisy_sgd for a loss that is not smooth, or localization if the filter cannot charge noisy_sgd.
    - output_perturbation at delta = 0, or localization if the loss is not smooth.

    The tables of Wang, Ye and Xu 2017 suggest dp_svrg for a strongly convex objective, dp_svrg_pp for any other and
    dp_acc_md for d above n. Measured with valid noise (docs/proofs/forecast.md), the first two save gradients, not
    risk, so dp_svrg is used only for large runs. dp_acc_md has the lower risk if its potential is that of the l1 ball
    (docs/benchmarks/wide.md). With the half squared l2 norm it equals dp_gd on w8a, and is mostly behind on the seven
    other datasets of docs/benchmarks/ours.md, most for number targets.
    """

    name: Literal["auto"] = "auto"

    def choose(
        self, problem: Problem, privacy: Privacy, *, currency: Currency = "renyi", wish: Wish = WISHLESS
    ) -> tuple["Fitted", str]:
        """Return the method, resolved for prepared rows, and the reason.

        Parameters
        ----------
        problem, privacy : public facts
        currency : the kind of cost that the dataset's filter can charge
        wish : the other requested settings; if rows must be as declared, methods that standardise are left out

        Raises
        ------
        Unsuitable
            if no method solves such a problem
        """
        if privacy.is_pure:
            method, reason = _pure(problem)
            return fit(wish, method, problem, privacy), reason
        if not problem.is_smooth and problem.is_convex:
            reason = f"{problem.loss.name} is not smooth: {_ROUGH[currency]}"
            return fit(wish, _NON_SMOOTH[currency], problem, privacy), reason
        check_loss("auto", problem)
        k, is_cut = problem.unit.slots, problem.loss.takes == "number" and wish.limit(problem) is not None
        suits = _standardised(problem) and not isinstance(wish.preparation, Declared)
        if suits and not is_cut:
            adaptive = fit(wish, AdaptiveGd(), problem, privacy)
            if currency == "gaussian" or k * adaptive.method.gradient_evaluations(problem) <= _MANY_GRADIENTS:
                return adaptive, _STANDARDISED
        full = fit(wish, DpGd(), problem, privacy)
        if not full.problem.is_convex:
            return full, f"{not_convex(full.problem)} convex: plain full gradient steps still descend"
        kind = f"smooth, {'strongly convex' if problem.mu > 0 else 'not strongly convex'}"
        limit = f", slope_limit {wish.limit(problem):g} {_CUT}" if suits and is_cut else ""
        facts, met = f"{kind}, n = {problem.n}, d = {problem.size}{limit}", full.preparation.prepared(full.problem)
        evaluations = k * full.method.gradient_evaluations(met)
        if currency != "gaussian" and evaluations > _MANY_GRADIENTS:
            reason = f"{facts}: dp_gd would take {evaluations:.2g} gradient evaluations; {_SVRG}"
            return fit(wish, DpSvrg(), problem, privacy), reason
        if problem.size > problem.n and HalfSquaredLp().refusal(problem) is None:
            return fit(wish, DpAccMd(), problem, privacy), f"{facts}, an l1 ball: {_SPARSE}"
        if currency != "gaussian" and _curved(met, privacy):
            return fit(wish, ObjectivePerturbation(), problem, privacy), f"{facts}: {_CURVED}"
        return full, f"{facts}: {_WIDE if problem.size > problem.n else _USUAL}"


@dataclass(frozen=True, slots=True)
class Fitted:
    """A method resolved for prepared rows, with their preparation and the reason for it.

    `problem` is the problem of rows as declared, with the slope limit of the run.
    """

    method: Run
    problem: Problem
    preparation: Preparation
    reason: str


def fit(wish: Wish, method: Method, problem: Problem, privacy: Privacy) -> Fitted:
    """Return the method resolved with the requested settings.

    By default, rows are privately standardised if possible, otherwise used as declared. By default, slopes are limited
    to 0.7 of their bound if rows are privately standardised, the loss is convex, for classes and of one margin, and
    n mu* / d < 80. Otherwise they are not limited (measured: docs/proofs/limited_slopes.md).

    Raises
    ------
    Unsuitable
        if a setting does not fit the method or the problem, or the method does not fit the problem
    """
    requested, limit = wish.preparation, wish.limit(problem)
    profile = requested if isinstance(requested, ByProfile) else None
    if profile and (refusal := profile.refusal(problem, privacy)):
        raise Unsuitable(f"preparation profile does not fit: {refusal}")
    if method.standardises:
        if isinstance(requested, Declared):
            raise Unsuitable(
                f"preparation: {method.name} standardises by itself, so it cannot use rows as declared: leave out "
                "preparation, or choose another method"
            )
        run = _limited_by_itself(method, problem, limit).resolve(problem, privacy)
        if profile:
            coarse = replace(profile.coarsened(problem, privacy, run.queries(problem)), by_method=True)
            return Fitted(run, problem, coarse, "asked for")
        return Fitted(run, problem, ByMethod(), f"{method.name} standardises by itself")
    refusal = Private.refusal(problem, privacy)
    if refusal is None and not isinstance(requested, Declared):
        limited = replace(problem, slope_limit=limit or _default_limit(method, problem, privacy))  # a limit is never 0
        met = Private().prepared(limited)  # rows standardised by a profile have the same norm
        run = method.resolve(met, privacy)
        own = run.queries(met)
        if profile:
            coarse = profile.coarsened(problem, privacy, own + Private().queries(problem, own))
            return Fitted(run, limited, coarse, "asked for")
        if all(q.mechanism.curves(1.0).pure is None for q in own):
            return Fitted(run, limited, Private(), "asked for" if requested else "the default")
        refusal = f"private moments are Gaussian answers, and {method.name} is priced as a pure mechanism here"
    if isinstance(requested, Private):
        raise Unsuitable(f"preparation private does not fit: {refusal}")
    limited = problem if limit is None else replace(problem, slope_limit=limit)
    return Fitted(method.resolve(limited, privacy), limited, Declared(), "asked for" if requested else str(refusal))


def _default_limit(method: Method, problem: Problem, privacy: Privacy) -> float:
    """Return the default of c, from public facts."""
    suited = method.limits_slopes and problem.loss.takes == "class" and problem.outputs == 1 and problem.is_convex
    return (
        _SLOPE_LIMIT if suited and problem.n * budget_mu(problem, privacy) < _LARGEST_LIMITED_RATIO * problem.d else 1.0
    )


def _limited_by_itself(method: Method, problem: Problem, limit: float | None) -> Method:
    """Return adaptive_gd with the limit as its own, or any other method as it is.

    The own limit of adaptive_gd preserves log-odds. Residuals of numbers are clipped at a released scale instead.
    """
    if limit is None or not isinstance(method, AdaptiveGd):
        return method
    if problem.loss.takes == "number" or method.slope_limit not in (None, limit):
        raise Unsuitable(
            "slope_limit: adaptive_gd limits slopes by itself: set its own slope_limit, for classes only, and no other"
        )
    return replace(method, slope_limit=limit)


def _pure(problem: Problem) -> tuple[Method, str]:
    """Return the method and the reason at delta = 0."""
    if problem.is_smooth and problem.is_convex:
        return OutputPerturbation(), "delta = 0: Laplace noise, on the minimizer of a problem with a ridge"
    return Localization(), "delta = 0: Laplace noise on regularized problems over disjoint rows"


def _standardised(problem: Problem) -> bool:
    """Return whether adaptive_gd accepts the problem and its r is weak.

    adaptive_gd applies penalties to standardised coefficients, which only a weak r allows.
    """
    columns = problem.columns
    is_declared = columns is not None and problem.row_norm >= columns.row_norm and not are_narrow(columns)
    is_weak = isinstance(problem.regularizer, NoRegularizer | L2) and problem.mu <= _WEAK_L2
    is_accepted = isinstance(problem.loss, Logistic | Softmax | Squared)
    return is_declared and is_weak and is_accepted and isinstance(problem.domain, Free)


def _curved(problem: Problem, privacy: Privacy) -> bool:
    """Return whether the noise in a perturbed objective costs less, by a margin, than that of the gradients of dp_gd.

    The first cost is at most d (z G)^2 / (2 n^2 mu) with z about 1.15 * 2 / mu*. The estimate of the defaults for the
    second, 0.35 d sigma_1^2 s, is at least twice the true cost in the relevant cases. Both contain d sigma_1^2, with
    sigma_1 = 2 G / (n mu*).
    """
    if problem.outputs > 1 or not isinstance(problem.domain, Free) or not isinstance(problem.regularizer, L2):
        return False
    if problem.mu <= 0 or _LEAST_CURVATURE * problem.n * problem.mu * privacy.epsilon < problem.L:
        return False
    return 1.15**2 / (2 * problem.mu) < _COST_MARGIN * _NOISE_COST * descent_time(problem, privacy)


_NON_SMOOTH: dict[Currency, Method] = {"renyi": NoisySgd(), "gaussian": Localization()}
_ROUGH: dict[Currency, str] = {
    "renyi": "noisy_sgd has the least measured risk of those that take it; noisy_mirror_descent takes fewer gradients",
    "gaussian": "localization takes it by its envelope, and is charged as one Gaussian answer",
}
_CUT = "(adaptive_gd takes none for numbers: it cuts residuals at a scale of its own)"
_CURVED = "l2 is strong beside the noise: a perturbed objective loses less than noisy gradients"
_SVRG = "dp_svrg takes several times fewer at about the same measured risk"
_WIDE = (
    "full gradients need the least noise; the published rates would take dp_acc_md for d above n: ask for it by name"
)
_SPARSE = "the noise of dp_acc_md with potential half_squared_lp counts by about ln d there, where dp_gd's counts by d"
_STANDARDISED = "declared columns can be centred and scaled by private moments, which leaves the least measured risk"
_USUAL = "full gradients need the least noise; the variance-reduced methods save gradients, not risk"
