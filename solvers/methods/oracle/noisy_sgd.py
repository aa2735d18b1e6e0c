"""Noisy SGD: projected stochastic (sub)gradient steps on Poisson batches (Bassily, Smith and Thakurta 2014; DP-SGD).

Review: The plan counts all batches, at the planned rate.
"""

import math
from dataclasses import dataclass
from typing import Annotated, Literal

from accounting.mechanisms import PoissonGaussian
from accounting.plan import Query
from accounting.privacy import Privacy
from solvers.bounds import sampled_bound
from solvers.methods.average import Average
from solvers.methods.defaults import batches
from solvers.methods.defaults.descent import answers_std, distance
from solvers.methods.run import Bounds, SampledRun, Strict
from solvers.oracles import Sampled
from solvers.problem import Problem, Vector
from solvers.ranges import Batch, Step, Whole

MOST_STEPS = 1_000_000
_MOST_NON_SMOOTH_STEPS = 10_000
_LEAST_NON_SMOOTH_STEPS = 100


@dataclass(frozen=True, slots=True)
class NoisySgd(Strict):
    """Noisy SGD: proximal steps along noisy mean (sub)gradients over Poisson batches; losses need not be smooth.

    min_w F(w) + r(w): K times w <- prox_(eta r)(w - eta g). Every g is a Poisson-sampled Gaussian mechanism. The result
    is the mean of the second half of all w if F is convex, else the last w.

    Defaults: b = 1.5 n mu* / sqrt(K), at least 100. For smooth losses, the K step sizes sum to 0.4 of
    `defaults.descent_time`, with K <= 5000 and eta <= 1 / (L (1 + 11/b)). For other losses,
    K = G^2 / (2 d sigma_1^2) in [100, 10000], because with more steps the noise would exceed the slope, and
    eta = D / sqrt(K (G^2 + K d sigma_1^2)), which balances distance against slope and noise. Proof:
    docs/proofs/noisy_sgd.md.

    Parameters
    ----------
    steps : Number of steps (K), from 1 to 1000000. By default chosen from the sizes, the privacy and the loss
    batch : Expected size of a Poisson batch (b), at most the number of records. By default chosen from the same facts
    step : Step size (eta), at most 1/L if the loss has the smoothness L. By default chosen from the same facts

    Reference: Bassily, Smith and Thakurta 2014, Algorithm 1; Abadi et al. 2016 (DP-SGD). Deviations: Poisson batches of
    any size with exact accounting, a constant step, the average of the second half, proximal steps; the scalar slope is
    clipped at its proven bound.
    """

    steps: Annotated[int | None, Whole(MOST_STEPS)] = None
    batch: Batch = None
    step: Step = None
    name: Literal["noisy_sgd"] = "noisy_sgd"

    def resolve(self, problem: Problem, privacy: Privacy) -> "NoisySgdRun":
        """Return the run, with every open setting chosen from public facts.

        Raises
        ------
        Unsuitable
            if batch exceeds n, step exceeds 1/L of a smooth loss, or delta is 0.
        """
        noise = answers_std(problem, privacy)
        if problem.is_smooth:
            time = batches.step_time(problem, privacy)
            steps = self.steps or max(1, math.ceil(batches.step_count(problem, time, self.step)))
            longest = time / steps
        else:
            steps = self.steps or _non_smooth_steps(problem, noise)
            longest = distance(problem) / math.sqrt(steps * (problem.G**2 + steps * problem.size * noise**2))
        batch = batches.fill_batch("noisy_sgd", self.batch, problem, privacy, steps)
        step = self.step or longest
        if problem.is_smooth:
            step = batches.fill_step("noisy_sgd", self.step, problem, batch, longest)
        return NoisySgdRun(steps, batch, step)


@dataclass(frozen=True, slots=True)
class NoisySgdRun(SampledRun):
    """Resolved settings of `NoisySgd`."""

    steps: int
    batch: int
    step: float
    name: Literal["noisy_sgd"] = "noisy_sgd"

    def queries(self, problem: Problem) -> tuple[Query, ...]:
        """Return K sampled gradients at rate b / n."""
        return (Query("gradient", self.steps, PoissonGaussian(self.batch / problem.n)),)

    def bounds(self, problem: Problem) -> Bounds:
        """Return the largest effect of a record on the mean of a batch, and the number of coordinates."""
        return {"gradient": (sampled_bound(problem, self.batch, problem.G), problem.size)}

    def gradient_evaluations(self, problem: Problem) -> float:
        """Return K b."""
        return float(self.steps) * self.batch

    def run(self, oracle: Sampled, problem: Problem) -> Vector:
        """Return the private model."""
        w, mean = problem.start, Average()
        for t in range(self.steps):
            w = problem.prox(w - self.step * oracle.sampled_gradient("gradient", w), self.step)
            if 2 * (t + 1) > self.steps:
                mean.add(w)
        return mean.value if problem.is_convex else w


def _non_smooth_steps(problem: Problem, noise: float) -> int:
    """Return K at which the squared noise of a step, K d sigma_1^2, is half the squared slope."""
    steps = problem.G**2 / (2 * problem.size * noise**2)
    return math.ceil(min(_MOST_NON_SMOOTH_STEPS, max(_LEAST_NON_SMOOTH_STEPS, steps)))
