"""DP-GD: noisy proximal gradient descent (Wang, Ye and Xu 2017, Algorithm 4), with momentum or without.

Review: The plan matches `release`, and hidden steps are contracting.
"""

import math
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal, assert_never

import numpy as np

from accounting.mechanisms import Gaussian, LastIterate, RandomIterate
from accounting.plan import Query
from accounting.privacy import Privacy
from solvers.bounds import gradient_bound
from solvers.domains import Free
from solvers.errors import Unsuitable
from solvers.hidden_steps import contraction, step_bound
from solvers.methods.average import Average
from solvers.methods.checks import check_loss, check_smooth
from solvers.methods.defaults.descent import accelerated_step, accelerated_steps, descent_time
from solvers.methods.run import Bounds, FullBatchRun, Start, Strict
from solvers.oracles import FullBatch
from solvers.potentials.half_squared_l2 import directions
from solvers.problem import Problem, Vector
from solvers.ranges import Step, Whole
from solvers.regularizers import L2

MOST_STEPS = 100_000
_MOST_DEFAULT_STEPS = 500
_LAST_TIME_SHARE = 0.5  # of s: the points of an average lie there, in their weighted mean
_MOST_LAST_STEPS = 2_000  # steps without momentum go less far, and their number costs hidden iterates nothing
_DOMAIN_WITHOUT_ZERO = "No bound is proven for dp_gd on a domain without 0, because runs start elsewhere there."
_ONE_POINT = (
    "No bound on the excess risk is proven for this release: a random iterate is nearly stationary in expectation "
    "(docs/proofs/prox.md); the last iterate has a bound on a free domain with l2 alone."
)

Release = Literal["average", "last", "random"]


@dataclass(frozen=True, slots=True)
class DpGd(Strict):
    """Noisy gradient descent: min_w F(w) + r(w) by T noisy full gradients.

    Release "average" (the default): v_t = w_t + t/(t+3) (w_t - w_(t-1)) and
    w_(t+1) = prox_(eta r)(v_t - eta (grad F(v_t) + noise)). The result is the mean of w_1..w_T with weights 1..T. Every
    gradient is a Gaussian mechanism, so mu^2 = T (2/z)^2, and any function of the gradients may be returned. Momentum
    and the average therefore have no privacy cost. Defaults: T and eta spend the descent time s of
    `defaults.descent_time` in as few steps as smoothness allows, eta T (T+3) / 4 = s with eta <= 1/L and T <= 500.
    Proof: docs/proofs/dp_gd.md.

    Release "last": plain steps w <- prox_(eta r)(w - eta (grad F(w) + noise)), of which only w_T is released. If F is
    convex and r mu-strongly convex, a step contracts by c = 1 / (1 + eta mu). Then mu^2 = T_eff (2/z)^2 with T_eff < T,
    at most 1 + 2 / (eta mu) for any number of steps. The oracle takes the steps, because iterates must stay hidden
    and on a lattice. Defaults: eta T = s/2, T <= 2000. This release needs as much data as "average" and many more
    gradients (docs/proofs/last_iterate.md). Use it for the last point, or for its proven bound.

    Release "random": plain steps, of which w_m is released. m is uniform on {0..T-1} and drawn before the run. The m
    noisy gradients cost a little less than T - 1 (docs/proofs/random_iterate.md). Defaults: eta T = s, T <= 500.

    If f is not convex, neither momentum nor a mean of points is justified: v_t = w_t, the result is w_T, and eta T = s.
    The privacy is the same. With Phi = F + r and noise of variance sigma^2 per coordinate,
        E Phi(w_T) <= Phi(w_0) - sum over t of E||w_(t+1) - w_t||^2 / (2 eta) + T eta d sigma^2.
    So the steps become short on average, down to the noise: (1/T) sum of E||w_(t+1) - w_t||^2 / eta^2
    <= 2 (Phi(w_0) - min Phi) / (eta T) + 2 d sigma^2. No bound holds for the distance to the minimum of Phi, and w_T
    itself need not be nearly stationary. A uniformly random w_t is nearly stationary in expectation, which is release
    "random": with D'_m the step from w_m without noise, E||D'_m / eta||^2 <= 4 (Phi(w_0) - min Phi) / (eta T)
    + 6 d sigma^2. Proof: docs/proofs/prox.md.

    Parameters
    ----------
    steps : Number of steps (T), from 1 to 100000. By default chosen from the sizes, the privacy and the loss
    step : Step size (eta), at most 1/L for the smoothness L. By default chosen from the same facts
    release : Points that the run returns, `average` (the default), `last` or `random`

    Reference: Wang, Ye and Xu 2017, Algorithm 4 and Theorem 6.1 (noise); Su, Boyd and Candes 2016 (momentum).
    Bok, Su and Altschuler 2024 (last). Deviations: proximal and with momentum, so that T gradients go as far as about
    T^2/4 plain steps; a weighted mean unless a random iterate is requested; exact noise instead of an unspecified
    constant.
    """

    steps: Annotated[int | None, Whole(MOST_STEPS)] = None
    step: Step = None
    release: Release | None = None
    name: Literal["dp_gd"] = "dp_gd"

    def check_own(self) -> None:
        """Raise `Unsuitable` if there is no step from which to choose a random iterate."""
        if self.release == "random" and self.steps == 1:
            raise Unsuitable("dp_gd: a random iterate needs at least 2 steps to choose from")

    def resolve(self, problem: Problem, privacy: Privacy) -> "DpGdRun":
        """Return the run, with every open setting chosen from public facts.

        Raises
        ------
        Unsuitable
            if the loss is not smooth, step exceeds 1/L, or delta is 0; for release "last", if the loss is not convex or
            r not strongly convex.
        """
        check_loss("dp_gd", problem)
        release = self.release or "average"
        if release == "last" and not (problem.is_convex and problem.mu > 0):
            raise Unsuitable(
                "dp_gd: release 'last' needs a convex loss and a strongly convex regularizer, l2 or elastic_net, "
                "because hidden steps have a bounded cost only if steps contract. Use release 'average'"
            )
        time, steps, step = descent_time(problem, privacy), self.steps, self.step
        if release == "last":
            time *= _LAST_TIME_SHARE
        momentum = release == "average" and problem.is_convex
        if steps is None:
            longest = step or 1 / problem.L
            largest = _MOST_LAST_STEPS if release == "last" else _MOST_DEFAULT_STEPS
            plain_steps = max(2 if release == "random" else 1, math.ceil(min(largest, time / longest)))
            steps = accelerated_steps(time, longest, largest) if momentum else plain_steps
        if step is None:
            step = min(1 / problem.L, accelerated_step(time, steps) if momentum else time / steps)
        check_smooth("dp_gd: step", step, problem)
        return DpGdRun(steps, step, release)


@dataclass(frozen=True, slots=True)
class DpGdRun(FullBatchRun):
    """Resolved settings of `DpGd`."""

    steps: int
    step: float
    release: Release = "average"
    name: Literal["dp_gd"] = "dp_gd"
    hides: ClassVar[bool] = True

    def queries(self, problem: Problem) -> tuple[Query, ...]:
        """Return T full gradients, one last iterate, or a random number of full gradients."""
        match self.release:
            case "average":
                return (Query("gradient", self.steps, Gaussian()),)
            case "last":
                return (Query("last_iterate", 1, LastIterate(self.steps, contraction(problem, self.step))),)
            case "random":
                return (Query("gradient", 1, RandomIterate(self.steps)),)
            case _:
                assert_never(self.release)

    def bounds(self, problem: Problem) -> Bounds:
        """Return the largest effect of a record on a gradient or a hidden step, and the number of coordinates."""
        if self.release == "last":
            return {"last_iterate": (step_bound(problem, self.step), problem.size)}
        return {"gradient": (gradient_bound(problem), problem.size)}

    def gradient_evaluations(self, problem: Problem) -> float:
        """Return T n; for release "random", an upper bound, because m is random."""
        return float(self.steps) * problem.n

    def excess_risk(self, problem: Problem, noise_std: float, start: Start) -> float | str:
        """Return a bound for runs that start at 0, with a minimizer within D, or why there is none.

        Release "average": the mean over t = 1..T with weights t of
        4 / (t+2)^2 (D^2 / (2 eta) + (3/4) G D + eta m noise_std^2 sum_(i=1..t) (i+2)^2 / 4), with m from `directions`.
        Release "last", on a free domain with l2 and K outputs, where noise_std is that of the iterate:
        c^T untrained + (c noise_std)^2 (K L + mu d) / (2 (1 - c)).
        """
        if problem.start.any():
            return _DOMAIN_WITHOUT_ZERO
        if self.release == "last" and isinstance(problem.domain, Free) and isinstance(problem.regularizer, L2):
            shrink = self.step * problem.mu / (1 + self.step * problem.mu)
            curvatures = problem.outputs * problem.L + problem.mu * problem.size
            spread = ((1 - shrink) * noise_std) ** 2 * curvatures / (2 * shrink)
            return (1 - shrink) ** self.steps * start.untrained + spread
        if self.release != "average":
            return _ONE_POINT
        t = np.arange(1.0, self.steps + 1)
        gap = start.distance**2 / (2 * self.step) + 0.75 * problem.G * start.distance
        noise = self.step * directions(problem) * noise_std**2 * np.cumsum((t + 2) ** 2 / 4)
        return float(np.average(4 / (t + 2) ** 2 * (gap + noise), weights=t))

    def run(self, oracle: FullBatch, problem: Problem) -> Vector:
        """Return the private model."""
        if self.release == "last":
            return oracle.last_iterate("last_iterate", self.steps, self.step)
        steps, step = oracle.horizon("gradient") if self.release == "random" else self.steps, self.step
        momentum = self.release == "average" and problem.is_convex
        w = previous = problem.start
        mean = Average()
        for t in range(steps):
            v = w + t / (t + 3) * (w - previous) if momentum else w
            previous, w = w, problem.prox(v - step * oracle.gradient("gradient", v), step)
            mean.add(w, t + 1)
        return mean.value if momentum else w
