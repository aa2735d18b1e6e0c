"""Phased SGD: one pass of single-record steps a phase, averaged (Feldman, Koren, Talwar 2020).

Review: Each row is used in one step, and step sizes are at most 2 / L.
"""

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import numpy as np

from accounting.plan import Query
from accounting.privacy import Privacy
from solvers.bounds import UNIT, gradient_error
from solvers.errors import Unsuitable
from solvers.methods.checks import check_loss, check_scalar
from solvers.methods.data import phases as cuts
from solvers.methods.data.descent import step_error
from solvers.methods.data.phases import NoiseName
from solvers.methods.defaults import phases as schedule
from solvers.methods.run import Bounds, DataRun, Start, Strict
from solvers.oracles import Access
from solvers.problem import Problem, Vector
from solvers.ranges import Ratio, Step, Whole

LAW = schedule.Law(reach=0.5, drift=0.5, shift=2.0)
_STEP_MARGIN = 1 - 1e-9  # keeps eta below 2 / L after rounding


@dataclass(frozen=True, slots=True)
class PhasedSgd(Strict):
    """Phased SGD: one pass of single-record steps in each phase, averaged and released.

    min_w E f(w; z) + r(w) by k passes over m = floor(n/k) rows each, no row in two of them:

        w_j = prox_(eta_i r, C)(w_(j-1) - eta_i grad f_j(w_(j-1))),   x_i = project_C(mean of w_0..w_(m-1) + noise_i),

    from w_0 = x_(i-1), with eta_i = step ratio^(1-i) <= 2/L. Rounding aside, the noise is Gaussian with std z G eta_i
    in each coordinate, or Laplace with scale z sqrt(d) G eta_i.

    Precondition: f convex and smooth with gradients bounded by proof.
    Pseudo-code: for i = 1..k: one step for each row of phase i, in order; release the mean of the points; project on C.
    Postcondition: replacing a record of phase i moves the mean by at most 2 G eta_i, and moves no other. So the run
    costs one release: 2/z-GDP, or 2/z-DP with Laplace noise. Proof: docs/proofs/phased_sgd.md. The bound is false for
    losses that are not smooth.

    Parameters
    ----------
    phases : Number of phases (k), from 1 to 64. Each needs at least 30 rows. By default a proven bound is minimized
    ratio : Factor by which the step size decreases in each phase (q), at least 1.1. By default the same bound is
        minimized
    step : Step size of the first phase (eta_1), at most 2/L for the smoothness L. By default the same bound is
        minimized
    noise : "gaussian", or "laplace", the default at delta = 0

    Reference: Feldman, Koren and Talwar 2020, Algorithm 1 (Phased-SGD); docs/spec 10.
    Deviations: equal phases, with k, q and eta_1 from the bound in docs/proofs/phases.md (the paper: n/2^i rows and
    q = 4); proximal steps, which allow a regularizer.
    """

    phases: Annotated[int | None, Whole(cuts.MOST_PHASES)] = None
    ratio: Ratio = None
    step: Step = None
    noise: NoiseName | None = None
    name: Literal["phased_sgd"] = "phased_sgd"

    def resolve(self, problem: Problem, privacy: Privacy) -> "PhasedSgdRun":
        """Return the run, with every open setting chosen from public facts.

        Raises
        ------
        Unsuitable
            if the loss is not smooth or not convex, eta_1 > 2/L, a phase would hold fewer than 30 rows, or the
            noise is Gaussian at delta = 0.
        """
        check_scalar("phased_sgd", problem)
        check_loss("phased_sgd", problem, convex=True)
        noise = cuts.noise_for("phased_sgd", self.noise, privacy)
        longest = 2 / problem.L * _STEP_MARGIN
        if self.step is not None and self.step > longest:
            raise Unsuitable(
                f"phased_sgd: step must be below 2/L = {2 / problem.L:.6g} here, because the proof of privacy needs it"
            )
        bound = schedule.risk_bound(LAW, noise, privacy, problem)
        plan = bound.best_phases(problem.n, self.phases, self.ratio, self.step, longest)
        return PhasedSgdRun(plan.count, plan.ratio, plan.step, noise)


@dataclass(frozen=True, slots=True)
class PhasedSgdRun(DataRun):
    """Resolved settings of `PhasedSgd`."""

    phases: int
    ratio: float
    step: float
    noise: NoiseName
    name: Literal["phased_sgd"] = "phased_sgd"
    in_order: ClassVar[bool] = True

    def queries(self, problem: Problem) -> tuple[Query, ...]:
        """Return one query with a release for each phase, at the cost of one release."""
        return cuts.parallel(self.noise, self.phases)

    def bounds(self, problem: Problem) -> Bounds:
        """Return the per-record bound of the first phase, which is the largest, and the number of coordinates."""
        plan = self.schedule(problem)
        moved = sensitivity(problem, plan.rows, plan.eta(0), problem.start)
        return {cuts.QUERY: (cuts.bound(self.noise, moved, problem.d), problem.d)}

    def gradient_evaluations(self, problem: Problem) -> float:
        """Return k m."""
        plan = self.schedule(problem)
        return float(plan.count * plan.rows)

    def schedule(self, problem: Problem) -> cuts.Phases:
        """Return the schedule of the phases."""
        return cuts.Phases(0, self.phases, problem.n // self.phases, self.ratio, self.step)

    def excess_risk(self, problem: Problem, noise_std: float, start: Start) -> str:
        """Return in words the bound over the distribution of the rows; none over these rows is proven."""
        return schedule.forecast(LAW, self.schedule(problem), problem, noise_std, start.distance)

    def run(self, access: Access, problem: Problem) -> Vector:
        """Return the private model."""
        plan, x = self.schedule(problem), problem.start
        for i in range(plan.count):
            mean = access.one_pass(plan.positions(i), x, plan.eta(i))
            moved = sensitivity(problem, plan.rows, plan.eta(i), x)
            # release the move instead of the point, because the fine lattices of late phases do not reach from 0 to x
            x = problem.domain.project(
                x + access.release(cuts.QUERY, mean - x, cuts.bound(self.noise, moved, problem.d))
            )
        return x


def sensitivity(problem: Problem, rows: int, eta: float, start: Vector) -> float:
    """Return a bound on how far replacing one record moves the mean of one pass: 2 G eta plus rounding.

    The bound goes from either record to the null record, so it contains the rounding of `rows` steps four times. The
    points stay within ||start|| + eta G m of 0, or in C, because the prox keeps 0 if C contains it.
    """
    reach = problem.domain.diameter(problem.d)
    if not problem.start.any():
        reach = min(reach, float(np.linalg.norm(start)) + eta * problem.G * rows)
    size = reach + eta * problem.G
    error_of_step = eta * gradient_error(problem, 1, reach) + step_error(problem) * size
    error_of_mean = (rows + problem.d + 8) * UNIT * size
    return 2 * problem.G * eta * (1 + 1e-12) + 4 * (rows * error_of_step + error_of_mean)
