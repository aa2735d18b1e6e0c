"""DP-AccMD: noisy accelerated mirror descent (Wang, Ye and Xu 2017, Algorithm 3, made private).

Review: The plan counts all gradients that the run requests.
"""

from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np

from accounting.mechanisms import Gaussian
from accounting.plan import Query
from accounting.privacy import Privacy
from solvers.bounds import gradient_bound
from solvers.errors import Unsuitable
from solvers.methods.checks import check_loss
from solvers.methods.defaults.descent import accelerated_step, accelerated_steps, descent_time, distance, mirror_time
from solvers.methods.run import Bounds, FullBatchRun, Start, Strict
from solvers.oracles import FullBatch
from solvers.potentials import POTENTIALS, HalfSquaredL2, Potential
from solvers.problem import Problem, Vector
from solvers.ranges import Step, Whole

MOST_STEPS = 100_000
_MOST_DEFAULT_STEPS = 500
_NOISE_COST = 4 / 3  # from the proven bound at eta = 1 / (2 L); that of `defaults` was measured


@dataclass(frozen=True, slots=True)
class DpAccMd(Strict):
    """Accelerated noisy mirror descent: min_w F(w) + r(w) by T noisy full gradients, each used for two steps.

    For k = 0..T-1, with tau = 2 / (k + 2):
        x = tau z + (1 - tau) y,  g = grad F(x) + noise,
        z = argmin_C B_w(u, z) + alpha (<g, u> + r(u)),  alpha = (k + 2) eta / 2,
        y = argmin_C ||u - x||^2 / (2 eta) + <g, u> + r(u) in l2, and tau z + (1 - tau) y in other norms.
    The result is y. Every gradient is a Gaussian mechanism, so mu^2 = T (2/z)^2. At eta = 1 / (2 L),
    alpha = (k + 2) / (4 L) and tau = 1 / (2 alpha L) are those of the paper.

    Defaults: the potential that covers the problem with the smallest proven bound on the excess risk. This bound is
    about B / s + (4/3) V sigma_1^2 s at s = eta T (T + 3) / 4, where B >= B_w(w*, w_0) and V >= E||N(0, I)||_*^2. s is
    `defaults.descent_time` in l2 and `defaults.mirror_time` in other norms; T <= 500 and eta <= 1 / (2 L). The privacy
    is the same for every potential. Proof: docs/proofs/dp_acc_md.md.

    Parameters
    ----------
    steps : Number of steps (T), from 1 to 100000. By default chosen from the sizes, the privacy and the loss
    step : Step size (eta), at most 1 / (2 L) for the smoothness L. By default chosen from the same facts
    potential : Potential of the mirror step. By default `half_squared_l2`, or `half_squared_lp` on an l1 ball and
        `negative_entropy` on a simplex of many coordinates

    Reference: Wang, Ye and Xu 2017, Algorithm 3; Allen-Zhu and Orecchia 2017; docs/spec 3. Deviations: the printed
    y-step uses the exact gradient and is released, so its first step is not private at any epsilon; here both steps use
    one noisy gradient. The y-step has constant 2 L instead of L, to pay for its noise. Both steps contain r.
    """

    steps: Annotated[int | None, Whole(MOST_STEPS)] = None
    step: Step = None
    potential: Potential | None = None
    name: Literal["dp_acc_md"] = "dp_acc_md"

    def resolve(self, problem: Problem, privacy: Privacy) -> "DpAccMdRun":
        """Return the run, with every open setting chosen from public facts.

        Raises
        ------
        Unsuitable
            if the loss is not smooth or not convex, the potential does not cover the domain or the regularizer, step
            exceeds 1 / (2 L), or delta is 0.
        """
        check_loss("dp_acc_md", problem, convex=True)
        potential = self.potential or _least_bound(problem)
        refusal = potential.refusal(problem)
        if refusal is not None:
            raise Unsuitable(f"dp_acc_md: potential {potential.name} does not cover this problem: {refusal}")
        if isinstance(potential, HalfSquaredL2):
            time = descent_time(problem, privacy, _NOISE_COST)
        else:
            start = potential.bregman(problem, distance(problem))
            noise = potential.noise_norm(problem)
            time = mirror_time(problem, privacy, start, noise)
        longest = 1 / (2 * problem.L)
        steps = self.steps or accelerated_steps(time, self.step or longest, _MOST_DEFAULT_STEPS)
        step = self.step or min(longest, accelerated_step(time, steps))
        if step > longest * (1 + 1e-12):
            raise Unsuitable(
                f"dp_acc_md: step must not exceed 1/(2L) = {longest:.6g} here, because longer steps may diverge"
            )
        return DpAccMdRun(steps, step, potential)


@dataclass(frozen=True, slots=True)
class DpAccMdRun(FullBatchRun):
    """Resolved settings of `DpAccMd`."""

    steps: int
    step: float
    potential: Potential
    name: Literal["dp_acc_md"] = "dp_acc_md"

    def queries(self, problem: Problem) -> tuple[Query, ...]:
        """Return T full gradients."""
        return (Query("gradient", self.steps, Gaussian()),)

    def bounds(self, problem: Problem) -> Bounds:
        """Return the largest effect of a record on a gradient, and the number of coordinates."""
        return {"gradient": (gradient_bound(problem), problem.size)}

    def gradient_evaluations(self, problem: Problem) -> float:
        """Return T n."""
        return float(self.steps) * problem.n

    def excess_risk(self, problem: Problem, noise_std: float, start: Start) -> float:
        """Return the proven bound.

        It is 4 B / (eta (T+1)^2) + sum_(j=2..T+1) j^2 / (T+1)^2 * noise_std^2 E||N(0, I)||_*^2 / (2 (1/eta - L)).
        """
        weights = float(np.sum(np.arange(2.0, self.steps + 2) ** 2)) / (self.steps + 1) ** 2
        noise = noise_std**2 * self.potential.noise_norm(problem)
        gap = 4 * self.potential.bregman(problem, start.distance) / (self.step * (self.steps + 1) ** 2)
        return gap + weights * noise / (2 * (1 / self.step - problem.L))

    def run(self, oracle: FullBatch, problem: Problem) -> Vector:
        """Return the private model."""
        y = z = problem.start
        for k in range(self.steps):
            tau = 2 / (k + 2)
            x = tau * z + (1 - tau) * y
            g = oracle.gradient("gradient", x)
            z = self.potential.mirror(problem, z, g, (k + 2) * self.step / 2)
            y = self.potential.descend(problem, x, g, self.step, tau * z + (1 - tau) * y)
        return y


def _least_bound(problem: Problem) -> Potential:
    """Return the covering potential with the smallest B V; at the best s, the bound grows with its square root."""
    reach = distance(problem)
    covering = [potential for potential in POTENTIALS if potential.refusal(problem) is None]
    return min(covering, key=lambda potential: potential.bregman(problem, reach) * potential.noise_norm(problem))
