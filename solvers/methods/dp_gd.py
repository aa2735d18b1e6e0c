"""DP-GD: noisy proximal gradient descent (Wang, Ye and Xu 2017, Algorithm 4), with Nesterov's momentum."""

import math
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np

from accounting.mechanisms import Gaussian
from accounting.plan import Query
from accounting.privacy import Privacy
from solvers.errors import Unsuitable
from solvers.methods.average import Average
from solvers.methods.checks import check_count, check_loss, check_smooth, check_step
from solvers.methods.tuning import accelerated_step, accelerated_steps, descent_time
from solvers.oracle_protocol import Oracle
from solvers.problem import Problem, Vector

MOST_STEPS = 100_000
_MOST_DEFAULT_STEPS = 500


@dataclass(frozen=True, slots=True)
class DpGd:
    """min_w F(w) + r(w) by T noisy full gradients: v_t = w_t + t/(t+3) (w_t - w_(t-1)),
    w_(t+1) = prox_(eta r)(v_t - eta (grad F(v_t) + noise)); the answer is the mean of w_1..w_T with weights 1..T.

    Every gradient is a Gaussian mechanism, so mu^2 = T (2/z)^2, and any function of the gradients may be returned: the
    momentum and the average cost nothing. Defaults: T and eta spend the descent time s of `tuning.descent_time` in as
    few steps as smoothness allows, eta T (T+3) / 4 = s with eta <= 1/L and T <= 500. Proof: docs/proofs/dp_gd.md.

    Where f is not convex, neither momentum nor a mean of points is justified: v_t = w_t, the answer is w_T, and s is
    spent as eta T = s. The privacy is the same. With Phi = F + r and noise of variance sigma^2 per coordinate,
        E Phi(w_T) <= Phi(w_0) - sum over t of E||w_(t+1) - w_t||^2 / (2 eta) + T eta d sigma^2,
    hence the steps become short on average, down to the noise: (1/T) sum of E||w_(t+1) - w_t||^2 / eta^2
    <= 2 (Phi(w_0) - min Phi) / (eta T) + 2 d sigma^2. Nothing is promised about the distance to the least Phi, nor that
    w_T itself is nearly stationary (a uniformly random w_t is, in expectation). Proof: docs/proofs/prox.md.

    Parameters
    ----------
    steps : T, in [1, 100000]; by default from n, d, epsilon, delta, G, L, mu
    step : eta, in (0, 1/L]; by default from the same

    Reference: Wang, Ye and Xu 2017, Algorithm 4 and Theorem 6.1 (noise); Su, Boyd and Candes 2016 (momentum).
    Deviations: proximal and with momentum, so that T gradients go as far as about T^2/4 plain steps; a weighted mean
    instead of a random iterate; exact noise instead of an unspecified constant.
    """

    __pydantic_config__: ClassVar = {"extra": "forbid", "strict": True, "allow_inf_nan": False}

    steps: int | None = None
    step: float | None = None
    name: Literal["dp_gd"] = "dp_gd"

    def __post_init__(self) -> None:
        check_count("dp_gd: steps", self.steps, MOST_STEPS)
        check_step("dp_gd: step", self.step)

    def resolve(self, problem: Problem, privacy: Privacy) -> "DpGd":
        """Every open field filled from public facts.

        Raises
        ------
        Unsuitable
            if the loss is not smooth, step exceeds 1/L, or delta is 0.
        """
        check_loss("dp_gd", problem)
        time, steps, step = descent_time(problem, privacy), self.steps, self.step
        if steps is None:
            longest = step or 1 / problem.L
            if problem.is_convex:
                steps = accelerated_steps(time, longest, _MOST_DEFAULT_STEPS)
            else:
                steps = max(1, math.ceil(min(_MOST_DEFAULT_STEPS, time / longest)))
        if step is None:
            step = min(1 / problem.L, accelerated_step(time, steps) if problem.is_convex else time / steps)
        check_smooth("dp_gd: step", step, problem)
        return replace(self, steps=steps, step=step)

    def queries(self, problem: Problem) -> tuple[Query, ...]:  # noqa: ARG002
        """T full gradients."""
        return (Query("gradient", self._filled()[0], Gaussian()),)

    def gradient_evaluations(self, problem: Problem) -> float:
        """T n."""
        return float(self._filled()[0]) * problem.n

    def excess_risk(self, problem: Problem, noise_std: float, distance: float) -> float:
        """A bound on E[F + r] at the answer minus its least value, for a minimizer within `distance` of the start 0.

        The weighted mean, over t = 1..T with weights t, of
        4 / (t+2)^2 (distance^2 / (2 eta) + (3/4) G distance + eta m noise_std^2 sum_(i=1..t) (i+2)^2 / 4), where m is
        `Problem.directions`, d at most.
        """
        steps, step = self._filled()
        t = np.arange(1.0, steps + 1)
        start = distance**2 / (2 * step) + 0.75 * problem.G * distance
        noise = step * problem.directions * noise_std**2 * np.cumsum((t + 2) ** 2 / 4)
        return float(np.average(4 / (t + 2) ** 2 * (start + noise), weights=t))

    def run(self, oracle: Oracle, problem: Problem) -> Vector:
        """The private model."""
        steps, step = self._filled()
        w = before = problem.start
        mean = Average()
        for t in range(steps):
            v = w + t / (t + 3) * (w - before) if problem.is_convex else w
            before, w = w, problem.prox(v - step * oracle.gradient("gradient", v), step)
            mean.add(w, t + 1)
        return mean.value if problem.is_convex else w

    def _filled(self) -> tuple[int, float]:
        if self.steps is None or self.step is None:
            raise Unsuitable("dp_gd: resolve the method first")
        return self.steps, self.step
