"""Localization: regularized problems on disjoint rows, each pulled to the previous release (Asi, Levy, Duchi 2021).

Review: Phases read disjoint rows, and each release has the proved sensitivity.
"""

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import Annotated, Literal, final

import numpy as np

from accounting.plan import Query
from accounting.privacy import Privacy
from solvers.losses.smoothing import bias, smoothed
from solvers.methods.checks import check_convex
from solvers.methods.data import phases as cuts
from solvers.methods.data.descent import CLOSE, Piece, released_in_turn
from solvers.methods.data.phases import NoiseName
from solvers.methods.defaults import phases as schedule
from solvers.methods.run import Bounds, DataRun, Start, Strict
from solvers.oracles import Access
from solvers.problem import Problem, Vector
from solvers.ranges import Ratio, Real, Step, Whole

LAW = schedule.Law(reach=1.0, drift=1.0, shift=1.0)
MOST_STEPS = 100_000
_MOST_DEFAULT_STEPS = 2_000


@dataclass(frozen=True, slots=True)
class Localized(Strict):
    """Settings of a localization, or of several in epochs."""

    phases: Annotated[int | None, Whole(cuts.MOST_PHASES)] = None
    ratio: Ratio = None
    step: Step = None
    smoothing: Annotated[float | None, Real(1e-4, 100, or_zero=True)] = None
    steps: Annotated[int, Whole(MOST_STEPS)] = _MOST_DEFAULT_STEPS
    noise: NoiseName | None = None


@dataclass(frozen=True, slots=True)
class LocalizedRun(DataRun):
    """Resolved settings of `Localized`."""

    phases: int
    ratio: float
    step: float
    smoothing: float
    steps: int
    noise: NoiseName

    @property
    @abstractmethod
    def localizations(self) -> int:
        """T, the number of epochs, each a localization on rows of its own with half the previous step."""

    @final
    def queries(self, problem: Problem) -> tuple[Query, ...]:
        """Return one query with a release for each phase, at the cost of one release."""
        return cuts.parallel(self.noise, self.localizations * self.phases)

    @final
    def bounds(self, problem: Problem) -> Bounds:
        """Return the per-record bound of the first phase, which is the largest, and the number of coordinates."""
        moved = self.pieces(problem)[0].sensitivity(float(np.linalg.norm(problem.start)))
        return {cuts.QUERY: (cuts.bound(self.noise, moved, problem.size), problem.size)}

    @final
    def gradient_evaluations(self, problem: Problem) -> float:
        """Return the sum of T_i m over all phases."""
        pieces = (piece for e in range(self.localizations) for piece in self.pieces(problem, e))
        return float(sum(piece.steps(self.steps) * len(piece.rows) for piece in pieces))

    @final
    def schedule(self, problem: Problem, epoch: int = 0) -> cuts.Phases:
        """Return the phases of an epoch = 0..T-1."""
        rows = problem.n // self.localizations
        return cuts.Phases(epoch * rows, self.phases, rows // self.phases, self.ratio, 2.0**-epoch * self.step)

    @final
    def pieces(self, problem: Problem, epoch: int = 0) -> list[Piece]:
        """Return the regularized problem of each phase i of an epoch, with (s/2) ||w - x||^2 and s = 2 / (eta_i m)."""
        plan = self.schedule(problem, epoch)
        smooth = replace(problem, loss=smoothed(problem.loss, 2.0**-epoch * self.smoothing))
        return [Piece(smooth, plan.positions(i), 2 / (plan.eta(i) * plan.rows)) for i in range(plan.count)]

    @final
    def bias(self, problem: Problem) -> float:
        """Return the largest difference between the loss and its smooth form in the first epoch."""
        return bias(problem.loss, smoothed(problem.loss, self.smoothing))

    @final
    def run(self, access: Access, problem: Problem) -> Vector:
        """Return the private model; each phase is one part of the parallel query."""
        x = problem.start
        for e in range(self.localizations):
            x = released_in_turn(access, self.pieces(problem, e), x, self.steps, cuts.QUERY, self.noise)
        return x


@dataclass(frozen=True, slots=True)
class Localization(Localized):
    """Localization: regularized problems on disjoint rows, each pulled to the previous release.

    min_w E f(w; z) + r(w) by k problems of m = floor(n/k) rows each, no row in two of them:

        x^_i ~ argmin over C of F_i(w) + r(w) + ||w - x_(i-1)||^2 / (eta_i m),    x_i = project_C(x^_i + noise_i),

    with eta_i = step ratio^(1-i) and a public x_0. Rounding aside, the noise is Gaussian with std z G eta_i / 2 in each
    coordinate, or Laplace with scale z sqrt(d) G eta_i / 2.

    Precondition: f convex with gradients bounded by proof. If f is not smooth, its envelope of width `smoothing`
    replaces it, which has the same bound.
    Pseudo-code: for i = 1..k: T_i proximal gradient steps on phase i from x_(i-1); release; project on C.
    Postcondition: replacing a record of phase i moves x^_i by at most G eta_i for every T_i, and moves no other point.
    So the run costs one release: 2/z-GDP, or 2/z-DP with Laplace noise. Proof: docs/proofs/localization.md.

    Parameters
    ----------
    phases : Number of phases (k), from 1 to 64. Each needs at least 30 rows. By default the proven bound is minimized
    ratio : Factor by which the step size decreases in each phase (q), at least 1.1. By default the same bound is
        minimized
    step : Step size of the first phase (eta_1). By default the same bound is minimized
    smoothing : Width of the envelope in units of the margin (h). 0 for a smooth loss
    steps : Largest number of steps in a phase, from 1 to 100000
    noise : "gaussian", or "laplace", the default at delta = 0

    Reference: Asi, Levy and Duchi 2021, Algorithm 1; docs/spec 5.
    Deviations: sensitivity G eta_i (printed 4 G eta_i); projection on C instead of the ball around x_(i-1), which never
    binds; x_i is projected before it is used; k, q and eta_1 from the bound in docs/proofs/phases.md instead of
    ceil(ln n), 16 and unspecified constants; a fixed T_i instead of "the output of the optimization algorithm".
    """

    name: Literal["localization"] = "localization"

    def resolve(self, problem: Problem, privacy: Privacy) -> "LocalizationRun":
        """Return the run, with every open setting chosen from public facts.

        Raises
        ------
        Unsuitable
            if the loss is not convex or has no smooth form, a phase would hold fewer than 30 rows, or the noise is
            Gaussian at delta = 0.
        """
        check_convex("localization", problem)
        noise = cuts.noise_for("localization", self.noise, privacy)
        bound = schedule.risk_bound(LAW, noise, privacy, problem)
        plan = bound.best_phases(problem.n, self.phases, self.ratio, self.step)
        width = schedule.envelope("localization", problem, self.smoothing, bound.risk(plan))
        return LocalizationRun(plan.count, plan.ratio, plan.step, width, self.steps, noise)


@dataclass(frozen=True, slots=True)
class LocalizationRun(LocalizedRun):
    """Resolved settings of `Localization`."""

    name: Literal["localization"] = "localization"

    @property
    def localizations(self) -> int:
        """T = 1."""
        return 1

    def excess_risk(self, problem: Problem, noise_std: float, start: Start) -> str:
        """Return in words the bound over the distribution of the rows; none over these rows is proven."""
        return schedule.forecast(LAW, self.schedule(problem), problem, noise_std, start.distance, self.bias(problem))

    def expected_risk(self, problem: Problem, noise_std: float, distance: float) -> float | None:
        """Return a bound on the excess of the expected loss over the distribution of the rows.

        The bound is None with a regularizer, or if `steps` is too small for a phase.
        """
        if any(piece.steps(MOST_STEPS) > self.steps for piece in self.pieces(problem)):
            return None
        plan = self.schedule(problem)
        risk = schedule.expected_risk(LAW, plan, problem, noise_std, distance, self.bias(problem))
        unfinished = CLOSE / 2 * problem.G**2 * sum(plan.eta(i) for i in range(plan.count))
        return None if risk is None else risk + unfinished
