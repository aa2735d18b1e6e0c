"""Objective perturbation with approximate minima (Iyengar et al. 2019; Redberg, Koskela and Wang 2023)."""

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from accounting import mechanisms
from accounting.divergences.gaussian import gauss_mu
from accounting.errors import OutOfPlan
from accounting.mechanisms import Gaussian, Mechanism
from accounting.numbers import finite
from accounting.plan import Query
from accounting.privacy import Privacy, sensitivity_factor
from solvers.bounds import UNIT, gradient_error
from solvers.domains import Simplex
from solvers.errors import NeedsDelta, RunFailed, Unsuitable
from solvers.methods.checks import check_count, check_loss, check_scalar, check_step
from solvers.methods.run import Bounds, DataRun, Strict
from solvers.oracles import Access
from solvers.problem import Problem, Vector
from solvers.regularizers import L2, NoRegularizer

MOST_STEPS = 100_000
_DETERMINANT, _MOST = 0.1, 0.9  # of epsilon, what the ratio of determinants costs by default, and may cost
_SHARE = 0.02  # of mu^2, for the noise on the solver's output
_RADIUS = 0.01  # how close the solver comes, in units of G / (n (L + m)), the least a record's gradient moves theta
_TAIL = math.sqrt(2000.0)  # ||b|| <= s (sqrt(d) + _TAIL) but for a chance of e^-1000
_AMPLE = 20  # times G / mu*, a bound on the std of b for choosing radius and steps where that ratio costs no more


@dataclass(frozen=True, slots=True)
class ObjectivePerturbation(Strict):
    """theta = argmin over R^d of F(w) + (m/2) ||w||^2 + <b, w> / n, b ~ N(0, s^2 I), found to within a radius r fixed
    beforehand; the answer is theta plus Gaussian noise of sensitivity 2 r, projected on C.

    Precondition: f smooth and convex, a function of one margin; r none or l2 of strength mu; m = mu + ridge > 0.
    Pseudo-code: draw b; T accelerated gradient steps from 0, enough to come within r; release w + noise.
    Postcondition: the composition of RowObjectivePerturbation(L / (n m)) at z = s / G, for persons of k rows
    ObjectivePerturbation((1 + L / (k n m))^k - 1), with one Gaussian release of per-record bound r. Proof:
    docs/proofs/objective_perturbation.md, row_objective_perturbation.md.

    Symbols: F is the mean loss, so the summed objective has Lambda = n m. The noise in the objective does not grow with
    1 / m in directions where the data is curved, which is why this is the strongest of the classical baselines.

    Parameters
    ----------
    steps : T, up to 100000. By default, and at least, as many as Nesterov's method needs to come within the radius
    ridge : Strength added to r, in [0, 1e6]. By default k ln(1 + L / (k n m)) is a tenth of epsilon. More than nine
        tenths are refused
    radius : Largest distance from the minimizer, positive. By default a hundredth of G / (n (L + m)), which is small
        against the noise, plus the steps of the lattice and of rounding

    Reference: Kifer, Smith and Thakurta 2012; Iyengar et al. 2019 (AMP); Redberg, Koskela and Wang 2023;
    docs/spec 10.
    Deviations: replace-one; a radius that holds for every dataset instead of a solver's tolerance; constraints by
    projection afterwards.
    """

    steps: int | None = None
    ridge: float | None = None
    radius: float | None = None
    name: Literal["objective_perturbation"] = "objective_perturbation"

    def __post_init__(self) -> None:
        check_count("objective_perturbation: steps", self.steps, MOST_STEPS)
        if self.ridge is not None and not 0 <= finite(self.ridge, "ridge") <= 1e6:
            raise Unsuitable("objective_perturbation: ridge must lie in [0, 1e6]")
        check_step("objective_perturbation: radius", self.radius)

    def resolve(self, problem: Problem, privacy: Privacy) -> "ObjectivePerturbationRun":
        """Return the run, with every open setting chosen from public facts.

        Raises
        ------
        Unsuitable
            if the loss is not smooth, not convex or of several margins, the regularizer is neither none nor l2, C lacks
            0, or delta is 0.
        """
        check_loss("objective_perturbation", problem, convex=True)
        check_scalar("objective_perturbation", problem)  # its proof needs gradients that keep their direction
        if privacy.is_pure:
            raise NeedsDelta("delta = 0 needs the exact minimizer in objective_perturbation, which no solver returns")
        if not isinstance(problem.regularizer, NoRegularizer | L2) or isinstance(problem.domain, Simplex):
            raise Unsuitable("objective_perturbation takes regularizer none or l2, and a domain around 0")
        ridge = _least_ridge(problem, privacy, _DETERMINANT) if self.ridge is None else self.ridge
        if problem.mu + ridge <= 0:
            raise Unsuitable("objective_perturbation needs a strongly convex objective: l2, or a ridge above 0")
        k = problem.unit.slots
        cost = k * math.log1p(problem.L / (k * problem.n * (problem.mu + ridge))) / privacy.epsilon
        if cost > _MOST:
            least = _least_ridge(problem, privacy, _MOST)
            raise Unsuitable(
                "objective_perturbation: beside so weak a ridge one record's curvature costs more than nine tenths of "
                f"epsilon: ask for ridge {least * 1.01:.3g} or more, or leave it out"
            )
        ample = _AMPLE * max(1.0, (1 - _DETERMINANT) / (1 - cost))
        std = ample * problem.G / gauss_mu(privacy.epsilon, privacy.delta)
        return self._filled_in(problem, problem.mu + ridge, ridge, std)

    def _filled_in(self, problem: Problem, strong: float, ridge: float, std: float) -> "ObjectivePerturbationRun":
        """Radius and steps, for a b whose std is at most `std`."""
        farthest = (problem.G + std * (math.sqrt(problem.d) + _TAIL) / problem.n) / strong
        lattice = 2.0**-mechanisms.objective_perturbation.FINE * std * math.sqrt(problem.d)
        least = 2 * (_rounding(problem, strong, farthest) + lattice / problem.n) / strong
        radius = self.radius or _RADIUS * problem.G / (problem.n * (problem.L + strong)) + least
        if radius < least:
            raise Unsuitable(f"objective_perturbation: radius must be at least {least:.3g}, or rounding exceeds it")
        # ||w_T - theta||^2 <= 2 Q (1 - Q^-1/2)^T ||theta||^2, and ||gradient|| / m <= Q ||w_T - theta|| must be r / 2
        condition = max((problem.L + strong) / strong, 1.01)  # a bound on it is enough, and 1 has no logarithm
        needed = 2 * math.log(3 * condition**1.5 * farthest / radius) / -math.log1p(-1 / math.sqrt(condition))
        if needed > MOST_STEPS:
            raise Unsuitable("objective_perturbation: the problem is too ill-conditioned: use more l2, or a ridge")
        steps = max(1, math.ceil(needed)) if self.steps is None else self.steps
        if steps < needed:
            raise Unsuitable(f"objective_perturbation: steps must be at least {math.ceil(needed)} here")
        return ObjectivePerturbationRun(steps, ridge, radius)


@dataclass(frozen=True, slots=True)
class ObjectivePerturbationRun(DataRun):
    """Resolved settings of `ObjectivePerturbation`."""

    steps: int
    ridge: float
    radius: float
    name: Literal["objective_perturbation"] = "objective_perturbation"

    def queries(self, problem: Problem) -> tuple[Query, ...]:
        """The minimizer, and the noise that hides the solver's distance from it."""
        k = problem.unit.slots
        rank_one = problem.L / (problem.n * self._strong(problem)) * (1 + 1e-9)
        if k == 1:
            minimizer: Mechanism = mechanisms.RowObjectivePerturbation(rank_one)
        else:
            exponent = min(k * math.log1p(rank_one / k), 100.0)  # beyond, the mechanism refuses it as too large
            minimizer = mechanisms.ObjectivePerturbation(math.expm1(exponent) * (1 + 1e-12))
        return Query("minimizer", 1, minimizer, 1 - _SHARE), Query("approximation", 1, Gaussian(), _SHARE)

    def bounds(self, problem: Problem) -> Bounds:
        """Each query's per-record bound and number of coordinates."""
        return {"minimizer": (_bound(problem), problem.d), "approximation": (self._off(problem), problem.d)}

    def gradient_evaluations(self, problem: Problem) -> float:
        """(T + 1) n."""
        return float(self.steps + 1) * problem.n

    def run(self, access: Access, problem: Problem) -> Vector:
        """Return the private model."""
        planned = access.planned("minimizer")
        if isinstance(planned.mechanism, mechanisms.RowObjectivePerturbation) and problem.unit.slots > 1:
            raise OutOfPlan("query 'minimizer' is planned for records of one row, and a person has several here")
        b = access.release("minimizer", np.zeros(problem.d), _bound(problem))
        std = planned.mechanism.std(planned.noise_multiplier, _bound(problem), problem.d)
        lattice = 2.0**-mechanisms.objective_perturbation.FINE * std * math.sqrt(problem.d)
        w = self._minimize(access, problem, b, lattice)
        return problem.domain.project(access.release("approximation", w, self._off(problem)))

    def _minimize(self, access: Access, problem: Problem, b: Vector, lattice: float) -> Vector:
        """A point within r of theta: the gradient's norm over m bounds the distance, whatever the steps did.

        T accelerated steps get there by their rate, on every dataset; how many more were needed would tell of the data.
        """
        strong, rows = self._strong(problem), range(problem.n)
        curvature = problem.L + strong
        momentum = (math.sqrt(curvature) - math.sqrt(strong)) / (math.sqrt(curvature) + math.sqrt(strong))

        def gradient(w: Vector) -> Vector:
            return access.mean_gradient(rows, w) + strong * w + b / problem.n

        w = v = np.zeros(problem.d)
        for _ in range(self.steps):
            before, w = w, v - gradient(v) / curvature
            v = w + momentum * (w - before)
        g = gradient(w)
        uncertain = _rounding(problem, strong, float(np.linalg.norm(w))) + lattice / problem.n
        if not (float(np.linalg.norm(g)) * (1 + 1e-9) + uncertain) / strong <= self.radius:
            raise RunFailed("the solver did not come as close as planned")
        return w

    def _strong(self, problem: Problem) -> float:
        return problem.mu + self.ridge

    def _off(self, problem: Problem) -> float:
        """The per-record bound of w given theta: both runs may miss it by r, whatever the neighbors are."""
        return 2 * self.radius / sensitivity_factor(problem.relation)


def _least_ridge(problem: Problem, privacy: Privacy, share: float) -> float:
    """The one with which the ratio of determinants, k ln(1 + L / (k n m)), costs at most this share of epsilon."""
    allowed = problem.unit.slots * math.expm1(share * privacy.epsilon / problem.unit.slots)
    return max(0.0, problem.L / (problem.n * allowed) - problem.mu)


def _bound(problem: Problem) -> float:
    """G, the row norm's rounding included."""
    return problem.G * (1 + 1e-9)


def _rounding(problem: Problem, strong: float, reach: float) -> float:
    """How far a computed gradient of the objective at a w of norm `reach` may be from the exact one."""
    own = 8 * (problem.d + 8) * UNIT * (problem.G + 2 * strong * reach)
    return gradient_error(problem, problem.n, reach) + own
