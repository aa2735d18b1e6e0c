"""Method "auto": which method for which problem, from public facts."""

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
"""What a filter can charge: every method that has a Renyi curve, or what is Gaussian-DP alone."""

_MANY_GRADIENTS = 1e10  # about where a run over all rows takes hours
_NOISE_COST = 0.35  # of the defaults: what a unit of time costs dp_gd, in units of d sigma_1^2
_WEAK = 1e-3  # the strongest l2 for which it hardly matters which coordinates it penalizes
_MARGIN = 0.6
_LIMIT, _FEW = 0.7, 80.0
_LEAST_CURVATURE = 0.1  # of n mu epsilon: with L below it the determinant costs a tenth of epsilon, without a ridge


@dataclass(frozen=True, slots=True)
class Wish:
    """What is asked for beside a method; None leaves it to the rules.

    Parameters
    ----------
    preparation : how rows are to be prepared
    slope_limit : c of `Problem`, in [1e-6, 1]

    Raises
    ------
    OutOfRange
        if the limit is no such number.
    """

    preparation: AskedPreparation | None = None
    slope_limit: float | None = None

    def __post_init__(self) -> None:
        if self.slope_limit is not None:
            within(self.slope_limit, "slope_limit", 1e-6, 1)

    def limit(self, problem: Problem) -> float | None:
        """The slope limit that was asked for, here or by the problem."""
        return problem.slope_limit if self.slope_limit is None and problem.slope_limit < 1 else self.slope_limit


WISHLESS = Wish()


@dataclass(frozen=True, slots=True)
class Auto(Strict):
    """adaptive_gd where columns are declared, the loss is logistic, softmax or squared, the domain free and r at most a
    weak l2, unless a limit for the slopes of numbers is asked for: it cuts residuals at a scale of its own;
    elsewhere dp_gd, but
    dp_svrg where dp_gd would take over 1e10 gradient evaluations;
    dp_acc_md on an l1 ball with d above n, if r has no quadratic part;
    objective_perturbation on a free domain where l2 is strong beside the noise;
    for a loss that is not smooth noisy_sgd, or localization where the filter has no currency for it;
    at delta = 0 output_perturbation, or localization for a loss that is not smooth.

    The tables of Wang, Ye and Xu 2017 would take dp_svrg for a strongly convex objective, dp_svrg_pp for any other and
    dp_acc_md for d above n. Measured with valid noise (docs/proofs/forecast.md), the first two save gradients and not
    risk, so dp_svrg is kept for runs where that matters; dp_acc_md has the lower risk where its potential is that of
    the l1 ball (docs/benchmarks/wide.md); with the half squared l2 norm it is level with dp_gd on w8a and mostly behind
    on the seven other sets of docs/benchmarks/ours.md, most where the target is a number.
    """

    name: Literal["auto"] = "auto"

    def choose(
        self, problem: Problem, privacy: Privacy, *, currency: Currency = "renyi", wish: Wish = WISHLESS
    ) -> tuple["Fitted", str]:
        """The method, resolved for rows as they will be prepared, and the reason.

        Parameters
        ----------
        problem, privacy : public facts
        currency : what a dataset's filter can charge well
        wish : what was asked for beside a method; one that standardises by itself is no choice where rows are to be
            as declared

        Raises
        ------
        Unsuitable
            if no method minimizes such a problem.
        """
        if privacy.is_pure:
            method, reason = _pure(problem)
            return fit(wish, method, problem, privacy), reason
        if not problem.is_smooth and problem.is_convex:
            reason = f"{problem.loss.name} is not smooth: {_ROUGH[currency]}"
            return fit(wish, _NON_SMOOTH[currency], problem, privacy), reason
        check_loss("auto", problem)
        k, cut = problem.unit.slots, problem.loss.takes == "number" and wish.limit(problem) is not None
        suits = _standardised(problem) and not isinstance(wish.preparation, Declared)
        if suits and not cut:
            adaptive = fit(wish, AdaptiveGd(), problem, privacy)
            if currency == "gaussian" or k * adaptive.method.gradient_evaluations(problem) <= _MANY_GRADIENTS:
                return adaptive, _STANDARDISED
        full = fit(wish, DpGd(), problem, privacy)
        if not full.problem.is_convex:
            return full, f"{not_convex(full.problem)} convex: plain full gradient steps are what still descends"
        kind = f"smooth, {'strongly convex' if problem.mu > 0 else 'not strongly convex'}"
        told = f", slope_limit {wish.limit(problem):g} {_CUT}" if suits and cut else ""
        facts, met = f"{kind}, n = {problem.n}, d = {problem.size}{told}", full.preparation.prepared(full.problem)
        evaluations = k * full.method.gradient_evaluations(met)
        if currency != "gaussian" and evaluations > _MANY_GRADIENTS:
            reason = f"{facts}: dp_gd would take {evaluations:.2g} gradient evaluations; {_FEWER}"
            return fit(wish, DpSvrg(), problem, privacy), reason
        if problem.size > problem.n and HalfSquaredLp().refusal(problem) is None:
            return fit(wish, DpAccMd(), problem, privacy), f"{facts}, an l1 ball: {_SPARSE}"
        if currency != "gaussian" and _curved(met, privacy):
            return fit(wish, ObjectivePerturbation(), problem, privacy), f"{facts}: {_CURVED}"
        return full, f"{facts}: {_WIDE if problem.size > problem.n else _USUAL}"


@dataclass(frozen=True, slots=True)
class Fitted:
    """A method resolved for the rows that it will meet, how these are prepared and why so, and how slopes are limited.

    `problem` is that of rows as they are declared, its slopes limited.
    """

    method: Run
    problem: Problem
    preparation: Preparation
    reason: str


def fit(wish: Wish, method: Method, problem: Problem, privacy: Privacy) -> Fitted:
    """The method as wished; by default rows are privately standardised where that fits, else as declared.

    By default slopes are limited to .7 of their bound where rows are privately standardised, the loss is convex, of one
    margin and for classes, and n mu* / d < 80; else not (measured: docs/proofs/limited_slopes.md).

    Raises
    ------
    Unsuitable
        if what was asked for does not go with the method or the problem, or the method with the problem.
    """
    asked, limit = wish.preparation, wish.limit(problem)
    known = asked if isinstance(asked, ByProfile) else None
    if known and (refusal := known.refusal(problem, privacy)):
        raise Unsuitable(f"preparation profile does not fit: {refusal}")
    if method.standardises:
        if isinstance(asked, Declared):
            raise Unsuitable(f"{method.name} standardises by itself: preparation declared is not to be had with it")
        run = _limited_by_itself(method, problem, limit).resolve(problem, privacy)
        if known:
            told = replace(known.coarsened(problem, privacy, run.queries(problem)), by_method=True)
            return Fitted(run, problem, told, "asked for")
        return Fitted(run, problem, ByMethod(), f"{method.name} standardises by itself")
    refusal = Private.refusal(problem, privacy)
    if refusal is None and not isinstance(asked, Declared):
        limited = replace(problem, slope_limit=limit or _default_limit(method, problem, privacy))  # no limit is 0
        met = Private().prepared(limited)  # a profile's are as long
        run = method.resolve(met, privacy)
        own = run.queries(met)
        if known:
            told = known.coarsened(problem, privacy, own + Private().queries(problem, own))
            return Fitted(run, limited, told, "asked for")
        if all(q.mechanism.curves(1.0).pure is None for q in own):
            return Fitted(run, limited, Private(), "asked for" if asked else "the default")
        refusal = f"private moments are Gaussian answers, and {method.name} is priced as a pure mechanism here"
    if isinstance(asked, Private):
        raise Unsuitable(f"preparation private does not fit: {refusal}")
    kept = problem if limit is None else replace(problem, slope_limit=limit)
    return Fitted(method.resolve(kept, privacy), kept, Declared(), "asked for" if asked else str(refusal))


def _default_limit(method: Method, problem: Problem, privacy: Privacy) -> float:
    """c, from public facts."""
    suited = method.limits_slopes and problem.loss.takes == "class" and problem.outputs == 1 and problem.is_convex
    return _LIMIT if suited and problem.n * budget_mu(problem, privacy) < _FEW * problem.d else 1.0


def _limited_by_itself(method: Method, problem: Problem, limit: float | None) -> Method:
    """adaptive_gd has a limit of its own, which keeps log-odds; it cuts residuals at a released scale."""
    if limit is None or not isinstance(method, AdaptiveGd):
        return method
    if problem.loss.takes == "number" or method.slope_limit not in (None, limit):
        raise Unsuitable("adaptive_gd limits slopes by itself: name its own slope_limit, for classes, and no other")
    return replace(method, slope_limit=limit)


def _pure(problem: Problem) -> tuple[Method, str]:
    """At delta = 0."""
    if problem.is_smooth and problem.is_convex:
        return OutputPerturbation(), "delta = 0: Laplace noise, on the minimizer of a problem with a ridge"
    return Localization(), "delta = 0: Laplace noise on regularized problems over disjoint rows"


def _standardised(problem: Problem) -> bool:
    """Whether adaptive_gd takes it, and means the same by r: penalties act on standardised coefficients there."""
    columns = problem.columns
    declared = columns is not None and problem.row_norm >= columns.row_norm and not are_narrow(columns)
    weak = isinstance(problem.regularizer, NoRegularizer | L2) and problem.mu <= _WEAK
    takes = isinstance(problem.loss, Logistic | Softmax | Squared)
    return declared and weak and takes and isinstance(problem.domain, Free)


def _curved(problem: Problem, privacy: Privacy) -> bool:
    """Whether the noise in a perturbed objective costs less, by a margin, than that of the gradients of dp_gd.

    d (z G)^2 / (2 n^2 mu) bounds the first, with z = 1.15 * 2 / mu* about; the defaults' estimate, 0.35 d sigma_1^2 s,
    is twice that of the second, or more, where it counts. Both have d sigma_1^2, sigma_1 = 2 G / (n mu*).
    """
    if problem.outputs > 1 or not isinstance(problem.domain, Free) or not isinstance(problem.regularizer, L2):
        return False
    if problem.mu <= 0 or _LEAST_CURVATURE * problem.n * problem.mu * privacy.epsilon < problem.L:
        return False
    return 1.15**2 / (2 * problem.mu) < _MARGIN * _NOISE_COST * descent_time(problem, privacy)


_NON_SMOOTH: dict[Currency, Method] = {"renyi": NoisySgd(), "gaussian": Localization()}
_ROUGH: dict[Currency, str] = {
    "renyi": "noisy_sgd has the least measured risk of those that take it; noisy_mirror_descent takes fewer gradients",
    "gaussian": "localization takes it by its envelope, and is charged as one Gaussian answer",
}
_CUT = "(adaptive_gd takes none for numbers: it cuts residuals at a scale of its own)"
_CURVED = "l2 is strong beside the noise: a perturbed objective loses less than noisy gradients"
_FEWER = "dp_svrg takes several times fewer at about the same measured risk"
_WIDE = (
    "full gradients need the least noise; the published rates would take dp_acc_md for d above n: ask for it by name"
)
_SPARSE = "the noise of dp_acc_md with potential half_squared_lp counts by about ln d there, where dp_gd's counts by d"
_STANDARDISED = "declared columns can be centred and scaled by private moments, which leaves the least measured risk"
_USUAL = "full gradients need the least noise; the variance-reduced methods save gradients, not risk"
