"""Method "auto": the choice of a method for a problem, from public facts.

`RULES` is the table of "auto": the first rule whose condition holds decides.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from accounting.privacy import Privacy
from solvers.domains import Free
from solvers.elsewhere import needs_one_machine
from solvers.fitting import WISHLESS, Fitted, Wish, fit
from solvers.losses import Squared
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
)
from solvers.methods.checks import check_loss, not_convex
from solvers.methods.defaults.descent import NOISE_COST, descent_time
from solvers.methods.run import Strict
from solvers.methods.standardised.adaptive_gd import SUPPORTED_LOSSES
from solvers.potentials import HalfSquaredLp
from solvers.preparation import Declared
from solvers.preparation.moments import are_narrow
from solvers.problem import Problem
from solvers.regularizers import L2, NoRegularizer

Currency = Literal["renyi", "gaussian"]
"""Methods that a filter can charge: all with a Renyi curve, or only those that are Gaussian-DP."""

_MOST_EVALUATIONS = 1e10  # per-record gradients; from there on, dp_svrg saves several passes over the rows
_MOST_ADAPTIVE_EVALUATIONS = 1e11  # the limit that a service has by default
_WEAK_L2 = 1e-3  # up to this strength, it hardly matters which coordinates an l2 penalizes
_NOISE_OVER_GAUSSIAN = 1.15  # noise multiplier of a perturbed objective over that of one Gaussian answer, about
_REQUIRED_GAIN = 0.6  # a perturbed objective is chosen if its noise costs at most this share of that of gradients
_LEAST_CURVATURE = 0.1  # of n mu epsilon: if L is larger, the determinant costs over a tenth of epsilon without a ridge


@dataclass(frozen=True, slots=True)
class PublicFacts:
    """The public facts that "auto" chooses by, and what follows from them."""

    problem: Problem
    privacy: Privacy
    currency: Currency
    wish: Wish
    is_apart: bool = False
    _fitted: dict[str, Fitted] = field(default_factory=dict, init=False)

    def suits(self, rule: "Rule") -> bool:
        """Return whether the rule holds, and its method works where the records are."""
        if not rule.condition(self):
            return False
        if not self.is_apart:
            return True
        fitted = self.fit(rule.method)
        return needs_one_machine(fitted.method, fitted.preparation.prepared(fitted.problem)) is None

    def fit(self, method: Method) -> Fitted:
        """Return the method, resolved once for the rows that it will get."""
        if method.name not in self._fitted:
            self._fitted[method.name] = fit(self.wish, method, self.problem, self.privacy)
        return self._fitted[method.name]

    @property
    def loss(self) -> str:
        """Name of the loss."""
        return self.problem.loss.name

    @property
    def can_charge_renyi(self) -> bool:
        """Whether the filter can charge methods that are not Gaussian-DP."""
        return self.currency != "gaussian"

    @property
    def clips_residuals(self) -> bool:
        """Whether a slope limit for residuals, which are slopes of `squared`, is requested."""
        return isinstance(self.problem.loss, Squared) and self.wish.limit(self.problem) is not None

    @property
    def suits_adaptive_gd(self) -> bool:
        """Whether adaptive_gd solves this problem, and its coordinates keep the meaning of the regularizer."""
        problem, columns = self.problem, self.problem.columns
        return (
            columns is not None
            and problem.row_norm >= columns.row_norm
            and not are_narrow(columns)
            and isinstance(problem.regularizer, NoRegularizer | L2)
            and problem.mu <= _WEAK_L2
            and isinstance(problem.loss, SUPPORTED_LOSSES)
            and isinstance(problem.domain, Free)
            and not isinstance(self.wish.preparation, Declared)
        )

    @property
    def full_gradients(self) -> Fitted:
        """dp_gd for this problem."""
        return self.fit(DpGd())

    @property
    def evaluations(self) -> float:
        """Expected per-record gradients of dp_gd."""
        return self.problem.unit.slots * self.full_gradients.method.gradient_evaluations(self.prepared)

    @property
    def prepared(self) -> Problem:
        """The problem that dp_gd would solve, of prepared rows."""
        return self.full_gradients.preparation.prepared(self.full_gradients.problem)

    @property
    def facts(self) -> str:
        """Facts in words, for reasons."""
        convexity = "strongly convex" if self.problem.mu > 0 else "not strongly convex"
        limit = ""
        if self.suits_adaptive_gd and self.clips_residuals:
            limit = f", slope_limit {self.wish.limit(self.problem):g} (adaptive_gd takes none for squared)"
        return f"smooth, {convexity}, n = {self.problem.n}, d = {self.problem.size}{limit}"

    @property
    def not_convex(self) -> str:
        """The sentence that the loss is not convex."""
        return f"{not_convex(self.full_gradients.problem)} convex"


class Rule(NamedTuple):
    """A row of the table: if the condition holds, "auto" takes the method, and the quote shows the reason."""

    condition: Callable[[PublicFacts], bool]
    method: Method
    reason: str


def _takes_adaptive_gd(case: PublicFacts) -> bool:
    """Return whether adaptive_gd suits, and takes at most a day if another method could be charged."""
    if not case.suits_adaptive_gd or case.clips_residuals:
        return False
    evaluations = case.problem.unit.slots * case.fit(AdaptiveGd()).method.gradient_evaluations(case.problem)
    return not case.can_charge_renyi or evaluations <= _MOST_ADAPTIVE_EVALUATIONS


def _takes_sparse_noise(case: PublicFacts) -> bool:
    """Return whether the potential of the l1 ball covers a problem with d above n."""
    return case.problem.size > case.problem.n and HalfSquaredLp().refusal(case.problem) is None


def _takes_perturbed_objective(case: PublicFacts) -> bool:
    """Return whether the noise of a perturbed objective costs less, by a margin, than that of the gradients of dp_gd.

    d (z G)^2 / (2 n^2 mu) bounds the first cost, with z about 1.15 * 2 / mu*. The estimate of the defaults for the
    second, 0.35 d sigma_1^2 s, is at least twice the true cost where it counts. Both have the factor d sigma_1^2, with
    sigma_1 = 2 G / (n mu*).
    """
    problem, privacy = case.prepared, case.privacy
    if not case.can_charge_renyi or problem.outputs > 1:
        return False
    if not isinstance(problem.domain, Free) or not isinstance(problem.regularizer, L2) or problem.mu <= 0:
        return False
    if _LEAST_CURVATURE * problem.n * problem.mu * privacy.epsilon < problem.L:
        return False
    gradient_noise = NOISE_COST * descent_time(problem, privacy)
    return _NOISE_OVER_GAUSSIAN**2 / (2 * problem.mu) < _REQUIRED_GAIN * gradient_noise


RULES = (
    Rule(
        lambda case: case.privacy.is_pure and case.problem.is_smooth and case.problem.is_convex,
        OutputPerturbation(),
        "delta = 0: Laplace noise on the minimizer of a problem with a ridge",
    ),
    Rule(
        lambda case: case.privacy.is_pure,
        Localization(),
        "delta = 0: Laplace noise on regularized problems over disjoint rows",
    ),
    Rule(
        _takes_adaptive_gd,
        AdaptiveGd(),
        "declared columns can be centered and scaled by private moments, which gives the lowest measured risk",
    ),
    Rule(
        lambda case: not case.problem.is_smooth and case.can_charge_renyi,
        NoisySgd(),
        "{case.loss} is not smooth: noisy_sgd has the lowest measured risk of the methods for such losses; "
        "noisy_mirror_descent needs fewer gradients",
    ),
    Rule(
        lambda case: not case.problem.is_smooth,
        Localization(),
        "{case.loss} is not smooth: localization solves a smoothed problem, and is charged as one Gaussian answer",
    ),
    Rule(
        lambda case: not case.full_gradients.problem.is_convex,
        DpGd(),
        "{case.not_convex}: plain full gradient steps still decrease the objective",
    ),
    Rule(
        lambda case: case.can_charge_renyi and case.evaluations > _MOST_EVALUATIONS,
        DpSvrg(),
        "{case.facts}: dp_gd would take {case.evaluations:.2g} gradient evaluations; dp_svrg needs several times fewer "
        "at about the same measured risk",
    ),
    Rule(
        _takes_sparse_noise,
        DpAccMd(),
        "{case.facts}, an l1 ball: with potential half_squared_lp, the noise of dp_acc_md grows as ln d, and that of "
        "dp_gd as d",
    ),
    Rule(
        _takes_perturbed_objective,
        ObjectivePerturbation(),
        "{case.facts}: l2 is strong compared with the noise, so a perturbed objective loses less than noisy gradients",
    ),
    Rule(
        lambda case: case.problem.size > case.problem.n,
        DpGd(),
        "{case.facts}: full gradients need the least noise; the published rates would choose dp_acc_md for d above n, "
        "which you can request by name",
    ),
    Rule(
        lambda case: True,  # noqa: ARG005
        DpGd(),
        "{case.facts}: full gradients need the least noise; variance-reduced methods save gradients but not risk",
    ),
)


@dataclass(frozen=True, slots=True)
class Auto(Strict):
    """The method that the first matching rule of `RULES` names, by public facts alone."""

    # The tables of Wang, Ye and Xu 2017 would choose dp_svrg for a strongly convex objective, dp_svrg_pp for any
    # other, and dp_acc_md for d above n. Measured with valid noise (docs/proofs/risk_bound.md), the first two save
    # gradients but do not lower the risk. Therefore dp_svrg is left to runs that would take hours. dp_acc_md has the
    # lower risk with the potential of the l1 ball (docs/benchmarks/wide.md). With the half squared l2 norm it equals
    # dp_gd on w8a, and is mostly worse on the seven other datasets of docs/benchmarks/ours.md, above all for number
    # targets.

    name: Literal["auto"] = "auto"

    def choose(
        self,
        problem: Problem,
        privacy: Privacy,
        *,
        currency: Currency = "renyi",
        wish: Wish = WISHLESS,
        is_apart: bool = False,
    ) -> tuple[Fitted, str]:
        """Return the chosen method, resolved for prepared rows, and the reason.

        Parameters
        ----------
        problem, privacy : public facts
        currency : what the dataset's filter can charge
        wish : requested preparation and slope limit. If rows are to be as declared, adaptive_gd is not chosen, because
            it standardizes rows itself
        is_apart : whether the records are on several machines, which some methods refuse

        Raises
        ------
        Unsuitable
            if no method solves such a problem.
        """
        if not (privacy.is_pure or problem.is_convex):
            check_loss("auto", problem)
        case = PublicFacts(problem, privacy, currency, wish, is_apart)
        rule = next(rule for rule in RULES if case.suits(rule))
        return case.fit(rule.method), rule.reason.format(case=case)
