"""Objective perturbation with approximate minima (Iyengar et al. 2019; Redberg, Koskela and Wang 2023).

Review: The released point is within the fixed radius of the minimizer.
"""

import math
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np

from accounting import mechanisms
from accounting.divergences.gaussian import gauss_mu
from accounting.errors import OutOfPlan
from accounting.mechanisms import Gaussian, Mechanism
from accounting.plan import Query
from accounting.privacy import Privacy, sensitivity_factor
from solvers.bounds import UNIT, gradient_error
from solvers.domains import Simplex
from solvers.errors import NeedsDelta, RunFailed, Unsuitable
from solvers.methods.checks import check_loss, check_scalar
from solvers.methods.run import Bounds, DataRun, Strict
from solvers.oracles import Access
from solvers.problem import Problem, Vector
from solvers.ranges import Real, Step, Whole
from solvers.regularizers import L2, NoRegularizer

MOST_STEPS = 100_000
_DETERMINANT_SHARE, _MOST_DETERMINANT_SHARE = 0.1, 0.9  # of epsilon, for the ratio of determinants
_APPROXIMATION_SHARE = 0.02  # of mu^2, for the noise on the solver's output
_RADIUS = 0.01  # in units of G / (n (L + m)), by which a record's gradient moves theta at least
_TAIL = math.sqrt(2000.0)  # ||b|| <= s (sqrt(d) + _TAIL) except with probability e^-1000
_STD_BOUND = 20  # times G / mu*, an upper bound on the std of b if the determinants cost their default share
_ROUNDING = 1e-9  # relative margin for rounding of row norms, bounds and ratios


@dataclass(frozen=True, slots=True)
class ObjectivePerturbation(Strict):
    """Objective perturbation: an approximate minimizer of a randomly tilted objective, plus noise.

    theta = argmin over R^d of F(w) + (m/2) ||w||^2 + <b, w> / n, with b ~ N(0, s^2 I), is computed to within a radius r
    that is fixed beforehand. The result is this point plus Gaussian noise of sensitivity 2 r, projected on C.

    Precondition: f smooth and convex, a function of one margin; r none or l2 of strength mu; m = mu + ridge > 0.
    Pseudo-code: draw b; T accelerated gradient steps from 0, enough to come within r; release w + noise.
    Postcondition: the composition of RowObjectivePerturbation(L / (n m)) at z = s / G with one Gaussian release of
    per-record bound r. For persons with k rows, the first is ObjectivePerturbation((1 + L / (k n m))^k - 1). Proof:
    docs/proofs/objective_perturbation.md, row_objective_perturbation.md.

    Symbols: F is the mean loss, so the summed objective has Lambda = n m. The noise in the objective does not grow with
    1 / m in directions in which F is strongly curved, so this is the strongest of the classical baselines.

    Parameters
    ----------
    steps : Number of steps (T), at most 100000 and at least the default: the number that Nesterov's method needs to
        come within the radius
    ridge : Strength added to the regularizer (s), from 0 to 1e6. By default the s at which
        k ln(1 + L / (k n (mu + s))), for k rows in a record, is a tenth of epsilon. An s at which it exceeds nine
        tenths of epsilon is refused
    radius : Largest distance from the minimizer, positive. By default a hundredth of G / (n (L + mu + s)), which is
        small against the noise, plus an allowance for the lattice and for rounding

    Reference: Kifer, Smith and Thakurta 2012; Iyengar et al. 2019 (AMP); Redberg, Koskela and Wang 2023;
    docs/spec 10.
    Deviations: replace-one; a radius that holds for every dataset instead of a solver's tolerance; constraints by
    projection afterwards.
    """

    steps: Annotated[int | None, Whole(MOST_STEPS)] = None
    ridge: Annotated[float | None, Real(0, 1e6)] = None
    radius: Step = None
    name: Literal["objective_perturbation"] = "objective_perturbation"

    def resolve(self, problem: Problem, privacy: Privacy) -> "ObjectivePerturbationRun":
        """Return the run, with every open setting chosen from public facts.

        Raises
        ------
        Unsuitable
            if the loss is not smooth, not convex or has several margins, the regularizer is neither none nor l2, C does
            not contain 0, or delta is 0.
        """
        check_loss("objective_perturbation", problem, convex=True)
        check_scalar("objective_perturbation", problem)  # the proof needs gradients with a fixed direction
        if privacy.is_pure:
            raise NeedsDelta(
                "objective_perturbation: delta must be above 0, because delta = 0 needs the exact minimizer, which no "
                "solver returns. Use output_perturbation"
            )
        if not isinstance(problem.regularizer, NoRegularizer | L2) or isinstance(problem.domain, Simplex):
            raise Unsuitable(
                "objective_perturbation: the regularizer must be none or l2, and the domain must contain 0, because "
                "the proof covers no others"
            )
        ridge = _least_ridge(problem, privacy, _DETERMINANT_SHARE) if self.ridge is None else self.ridge
        if problem.mu + ridge <= 0:
            raise Unsuitable(
                "objective_perturbation: ridge must be above 0, or the regularizer l2, because the proof needs a "
                "strongly convex objective"
            )
        k = problem.unit.slots
        cost = k * math.log1p(problem.L / (k * problem.n * (problem.mu + ridge))) / privacy.epsilon
        if cost > _MOST_DETERMINANT_SHARE:
            smallest = _least_ridge(problem, privacy, _MOST_DETERMINANT_SHARE)
            raise Unsuitable(
                "objective_perturbation: ridge is too small, because the curvature of one record costs more than "
                f"{_MOST_DETERMINANT_SHARE:.0%} of epsilon. Set ridge to {smallest * 1.01:.3g} or more, or leave it out"
            )
        std_bound = _STD_BOUND * max(1.0, (1 - _DETERMINANT_SHARE) / (1 - cost))
        std = std_bound * problem.G / gauss_mu(privacy.epsilon, privacy.delta)
        return self.with_radius_and_steps(problem, ridge, std)

    def with_radius_and_steps(self, problem: Problem, ridge: float, std: float) -> "ObjectivePerturbationRun":
        """Return the run with this ridge, for a b whose std is at most `std`."""
        strong = problem.mu + ridge
        reach = (problem.G + std * (math.sqrt(problem.d) + _TAIL) / problem.n) / strong
        lattice = 2.0**-mechanisms.objective_perturbation.LATTICE_BITS * std * math.sqrt(problem.d)
        smallest = 2 * (_rounding(problem, strong, reach) + lattice / problem.n) / strong
        radius = self.radius or _RADIUS * problem.G / (problem.n * (problem.L + strong)) + smallest
        if radius < smallest:
            raise Unsuitable(f"objective_perturbation: radius must be at least {smallest:.3g}, or rounding exceeds it")
        # ||w_T - theta||^2 <= 2 Q (1 - Q^-1/2)^T ||theta||^2, and ||gradient|| / m <= Q ||w_T - theta|| must be r / 2
        condition = max((problem.L + strong) / strong, 1.01)  # a bound is enough, and the formula fails at 1
        needed = 2 * math.log(3 * condition**1.5 * reach / radius) / -math.log1p(-1 / math.sqrt(condition))
        if needed > MOST_STEPS:
            raise Unsuitable(
                f"objective_perturbation: the problem is too ill-conditioned, because it needs more than {MOST_STEPS} "
                "steps. Use a larger l2 or ridge"
            )
        steps = max(1, math.ceil(needed)) if self.steps is None else self.steps
        if steps < needed:
            raise Unsuitable(
                f"objective_perturbation: steps must be at least {math.ceil(needed)} here to come within the radius"
            )
        return ObjectivePerturbationRun(steps, ridge, radius)


@dataclass(frozen=True, slots=True)
class ObjectivePerturbationRun(DataRun):
    """Resolved settings of `ObjectivePerturbation`."""

    steps: int
    ridge: float
    radius: float
    name: Literal["objective_perturbation"] = "objective_perturbation"

    def queries(self, problem: Problem) -> tuple[Query, ...]:
        """Return the minimizer, and the noise that hides the solver's distance from it."""
        k = problem.unit.slots
        rank_one = problem.L / (problem.n * self._strong(problem)) * (1 + _ROUNDING)
        if k == 1:
            minimizer: Mechanism = mechanisms.RowObjectivePerturbation(rank_one)
        else:
            exponent = min(k * math.log1p(rank_one / k), 100.0)  # the mechanism refuses larger ones
            minimizer = mechanisms.ObjectivePerturbation(math.expm1(exponent) * (1 + 1e-12))
        return Query("minimizer", 1, minimizer, 1 - _APPROXIMATION_SHARE), Query(
            "approximation", 1, Gaussian(), _APPROXIMATION_SHARE
        )

    def bounds(self, problem: Problem) -> Bounds:
        """Return the per-record bound of each query, and its number of coordinates."""
        return {
            "minimizer": (_bound(problem), problem.d),
            "approximation": (self._approximation_bound(problem), problem.d),
        }

    def gradient_evaluations(self, problem: Problem) -> float:
        """Return (T + 1) n."""
        return float(self.steps + 1) * problem.n

    def run(self, access: Access, problem: Problem) -> Vector:
        """Return the private model."""
        planned = access.planned("minimizer")
        if isinstance(planned.mechanism, mechanisms.RowObjectivePerturbation) and problem.unit.slots > 1:
            raise OutOfPlan(
                "query 'minimizer' is planned for records of one row, but a person has several rows here. Plan it again"
            )
        b = access.release("minimizer", np.zeros(problem.d), _bound(problem))
        std = planned.mechanism.std(planned.noise_multiplier, _bound(problem), problem.d)
        lattice = 2.0**-mechanisms.objective_perturbation.LATTICE_BITS * std * math.sqrt(problem.d)
        w = self.minimize(access, problem, b, lattice)
        return problem.domain.project(access.release("approximation", w, self._approximation_bound(problem)))

    def minimize(self, access: Access, problem: Problem, b: Vector, lattice: float) -> Vector:
        """Return a point within r of theta, an exact function of the data that only a release may make public.

        The norm of its gradient over m proves the distance; `lattice` bounds the error of b.

        T accelerated steps suffice on every dataset. A number of steps that depends on the progress would reveal data.
        """
        strong = self._strong(problem)
        rows = range(problem.n)
        curvature = problem.L + strong
        momentum = (math.sqrt(curvature) - math.sqrt(strong)) / (math.sqrt(curvature) + math.sqrt(strong))

        def gradient(w: Vector) -> Vector:
            return access.mean_gradient(rows, w) + strong * w + b / problem.n

        w = v = np.zeros(problem.d)
        for _ in range(self.steps):
            previous, w = w, v - gradient(v) / curvature
            v = w + momentum * (w - previous)
        g = gradient(w)
        error = _rounding(problem, strong, float(np.linalg.norm(w))) + lattice / problem.n
        if not (float(np.linalg.norm(g)) * (1 + _ROUNDING) + error) / strong <= self.radius:
            raise RunFailed("the solver did not come within the planned radius, so nothing is released")
        return w

    def _strong(self, problem: Problem) -> float:
        return problem.mu + self.ridge

    def _approximation_bound(self, problem: Problem) -> float:
        """Return the per-record bound of w given theta: the runs on both neighbors may miss theta by r."""
        return 2 * self.radius / sensitivity_factor(problem.relation)


def _least_ridge(problem: Problem, privacy: Privacy, share: float) -> float:
    """Return the ridge at which the ratio of determinants, k ln(1 + L / (k n m)), costs this share of epsilon."""
    allowed = problem.unit.slots * math.expm1(share * privacy.epsilon / problem.unit.slots)
    return max(0.0, problem.L / (problem.n * allowed) - problem.mu)


def _bound(problem: Problem) -> float:
    """Return G, including the rounding of row norms."""
    return problem.G * (1 + _ROUNDING)


def _rounding(problem: Problem, strong: float, reach: float) -> float:
    """Return a bound on the error of a computed gradient of the objective, at a w of norm `reach`."""
    own = 8 * (problem.d + 8) * UNIT * (problem.G + 2 * strong * reach)
    return gradient_error(problem, problem.n, reach) + own
