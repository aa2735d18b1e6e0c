"""Noisy mirror descent in half passes, each record used at most once a pass (Arora, Marinov and Ullah 2020).

Review: Each half pass is one use of the allocation.
"""

import math
from dataclasses import dataclass
from typing import Annotated, Literal

from accounting.divergences.gaussian import gauss_mu
from accounting.mechanisms import RandomAllocation, WithoutReplacement
from accounting.mechanisms.random_allocation import MOST_SLOTS, Form
from accounting.plan import Query
from accounting.privacy import Privacy
from solvers.bounds import sampled_bound
from solvers.errors import Unsuitable
from solvers.methods.average import Average
from solvers.methods.checks import check_convex, check_delta
from solvers.methods.defaults.descent import distance
from solvers.methods.run import AllocatedRun, Bounds, Start, Strict
from solvers.oracles import Allocated
from solvers.potentials import POTENTIALS, Potential
from solvers.problem import Problem, Vector
from solvers.ranges import Batch, Step, Whole

MOST_PASSES = 1_000
_MOST_DEFAULT_SLOTS, _MOST_DEFAULT_PASSES = 2_000, 16
_ONE_PASS = (
    "No bound on the risk over these rows is proven: a half pass uses each row at most once, so theory bounds the risk "
    "on new rows of the same kind."
)
_SEVERAL_PASSES = "No bound on the risk is proven, because later half passes use the same rows again, in other slots."


@dataclass(frozen=True, slots=True)
class NoisyMirrorDescent(Strict):
    """Noisy mirror descent in half passes, whose random allocation of records to slots stays secret.

    min_w F(w) + r(w): in each of P half passes, about N = floor(n/2) + 1 of the n records are spread over T = N // b
    secret slots, no record in two. Then, for t = 1..T,
        g = (1/b) sum over slot t of grad f_i(w) + noise,  w = argmin over u in C of B_Phi(u, w) + eta (<g, u> + r(u)).
    The result is the mean of the second half of the P T points w at which a gradient was requested.

    A half pass is one random allocation and is accounted for as a whole. Hiding the slots reduces the noise by a factor
    of up to 13. f must be convex, and need not be smooth.

    Defaults: let D be `defaults.distance`, B the largest B_Phi(u, start) within D of the start, and
    V = G^2 + sigma^2 E||N(0, I)||_*^2, with sigma the noise std in the limit of many slots. b is the larger of sqrt(d)
    and N / 2000, rounded up. P is the largest number of passes, up to 16, with sigma^2 d <= G^2, so that the noise does
    not exceed the largest gradient (measured: docs/benchmarks/nonsmooth.md). eta = sqrt(2 B / (P T V)) balances B / eta
    against P T eta V / 2. Phi has the smallest B V. Proof: docs/proofs/noisy_mirror_descent.md.

    Parameters
    ----------
    passes : Number of half passes (P), from 1 to 1000. By default chosen from the sizes and the privacy
    batch : Number of records in a slot (b), expected or exact, at most half of the records. By default chosen from the
        numbers of records and coefficients
    step : Step size (eta), above 0. By default chosen from the sizes, the privacy, the loss and the domain
    form : "independent" or "ordered". Independent draws a slot for each record, and needs about half the noise.
        Ordered follows the paper, with exactly b records in each slot and a random order
    potential : Potential of the mirror step. By default the one with the smallest bound

    Reference: Arora, Marinov and Ullah 2020, Algorithm 1 and its mini-batch form; docs/spec 4, T5. Deviations: steps
    on a stale record, which consist of noise, are omitted; the sum is divided by b instead of the random number of
    fresh records; steps are proximal; the mean is over the second half (Rakhlin, Shamir and Sridharan 2012); the noise
    does not follow the paper's composition over q = 1/n, which is not proved.
    """

    passes: Annotated[int | None, Whole(MOST_PASSES)] = None
    batch: Batch = None
    step: Step = None
    form: Form = "independent"
    potential: Potential | None = None
    name: Literal["noisy_mirror_descent"] = "noisy_mirror_descent"

    def resolve(self, problem: Problem, privacy: Privacy) -> "NoisyMirrorDescentRun":
        """Return the run, with every open setting chosen from public facts.

        Raises
        ------
        Unsuitable
            if the loss is not convex, delta is 0, batch exceeds n / 2 or makes too many slots, or the potential does
            not cover the domain or the regularizer.
        """
        check_convex("noisy_mirror_descent", problem)
        check_delta("noisy_mirror_descent", privacy)
        half = problem.n // 2 + 1
        largest = max(1, problem.n // 2)
        batch = self.batch or min(largest, max(math.ceil(math.sqrt(problem.size)), -(-half // _MOST_DEFAULT_SLOTS)))
        if batch > largest:
            raise Unsuitable(f"noisy_mirror_descent: batch must not exceed n / 2 = {problem.n / 2:g}")
        if half // batch > MOST_SLOTS:
            raise Unsuitable(
                f"noisy_mirror_descent: batch must be at least n / {2 * MOST_SLOTS}, because more than {MOST_SLOTS} "
                "slots are not supported"
            )
        passes = self.passes or _passes(problem, privacy, batch)
        phi, step = self._potential_and_step(problem, privacy, batch, passes)
        return NoisyMirrorDescentRun(passes, batch, step, phi, self.form)

    def _potential_and_step(
        self, problem: Problem, privacy: Privacy, batch: int, passes: int
    ) -> tuple[Potential, float]:
        """Return both as requested, or with the smallest bound at about the planned noise, which depends on neither."""
        refusals = {phi: phi.refusal(problem) for phi in ((self.potential,) if self.potential else POTENTIALS)}
        covered = [phi for phi, refusal in refusals.items() if refusal is None]
        if not covered:
            phi, refusal = next(iter(refusals.items()))
            raise Unsuitable(f"noisy_mirror_descent: potential {phi.name} does not cover this problem: {refusal}")
        if self.step is not None and self.potential is not None:
            return self.potential, self.step
        half = _half_pass(problem, batch, self.form)
        reach = distance(problem)
        std = _multiplier(problem, privacy, batch, passes, half) * problem.G / batch
        divergences = {phi: phi.bregman(problem, reach) for phi in covered}
        square_norms = {phi: problem.G**2 + std**2 * phi.noise_norm(problem) for phi in covered}
        phi = min(covered, key=lambda phi: divergences[phi] * square_norms[phi])
        return phi, self.step or math.sqrt(2 * divergences[phi] / (passes * half.slots * square_norms[phi]))


@dataclass(frozen=True, slots=True)
class NoisyMirrorDescentRun(AllocatedRun):
    """Resolved settings of `NoisyMirrorDescent`."""

    passes: int
    batch: int
    step: float
    potential: Potential
    form: Form = "independent"
    name: Literal["noisy_mirror_descent"] = "noisy_mirror_descent"

    def queries(self, problem: Problem) -> tuple[Query, ...]:
        """Return P allocations of T answers each."""
        return (Query("half_pass", self.passes, _half_pass(problem, self.batch, self.form)),)

    def bounds(self, problem: Problem) -> Bounds:
        """Return the largest effect of a record on the mean of a slot, and the number of coordinates."""
        size = _half_pass(problem, self.batch, self.form).normalizer(problem.n)
        return {"half_pass": (sampled_bound(problem, size, problem.G), problem.size)}

    def gradient_evaluations(self, problem: Problem) -> float:
        """Return P T b, in expectation or exactly."""
        return float(self.queries(problem)[0].answers) * self.batch

    def excess_risk(self, problem: Problem, noise_std: float, start: Start) -> str:
        """Return why no bound is proven."""
        return _ONE_PASS if self.passes == 1 else _SEVERAL_PASSES

    def run(self, oracle: Allocated, problem: Problem) -> Vector:
        """Return the private model."""
        w = problem.start
        mean = Average()
        steps = self.queries(problem)[0].answers
        for t in range(steps):
            if 2 * (t + 1) > steps:
                mean.add(w)
            w = self.potential.mirror(problem, w, oracle.allocated_gradient("half_pass", w), self.step)
        return mean.value


def _passes(problem: Problem, privacy: Privacy, batch: int) -> int:
    """Return P = floor(mu^2 / (4 q^2 sinh(1 / z^2) / T)) in [1, 16], with z = b / sqrt(d), where sigma^2 d = G^2.

    mu is that of the target. Under zero_out, a half pass costs q^2 (e^(1 / z^2) - 1) / T.
    """
    half = _half_pass(problem, batch, "independent")
    square = min(problem.size / batch**2, 100.0)
    slot = math.expm1(square) if problem.relation == "zero_out" else 4 * math.sinh(square)
    cost = half.rate**2 * slot / half.slots
    return min(max(int(gauss_mu(privacy.epsilon, privacy.delta) ** 2 / cost), 1), _MOST_DEFAULT_PASSES)


def _multiplier(problem: Problem, privacy: Privacy, batch: int, passes: int, half: RandomAllocation) -> float:
    """Return z in the limit of many slots and passes: 4 q^2 sinh(1 / z^2) / T = mu^2 / P; if ordered, of T batches."""
    share = gauss_mu(privacy.epsilon, privacy.delta) ** 2 / passes
    if half.form == "ordered":
        return WithoutReplacement(batch, problem.n).multiplier(share / half.slots, problem.relation)
    return half.multiplier(share, problem.relation)


def _half_pass(problem: Problem, batch: int, form: Form) -> RandomAllocation:
    """Return the allocation to T slots of b records."""
    slots = (problem.n // 2 + 1) // batch
    return RandomAllocation(min(1.0, slots * batch / problem.n), slots, form)
