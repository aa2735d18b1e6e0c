"""Growth reduction: rounds of output perturbation with a growing pull to the previous release (Asi et al. 2021).

Review: Each round releases a point with the proved sensitivity.
"""

import math
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np

from accounting.mechanisms import Gaussian, Laplace
from accounting.plan import Query
from accounting.privacy import Privacy
from solvers.methods.checks import check_loss
from solvers.methods.data.descent import CLOSE, Piece, released_in_turn
from solvers.methods.data.phases import NoiseName, bound, noise_for
from solvers.methods.defaults.descent import distance
from solvers.methods.defaults.phases import spread
from solvers.methods.run import UNFINISHED, Bounds, DataRun, Start, Strict
from solvers.oracles import Access
from solvers.problem import Problem, Vector
from solvers.ranges import Step, Whole
from solvers.regularizers import NoRegularizer

MOST_ROUNDS = 40
MOST_STEPS = 100_000
_MOST_DEFAULT_STEPS = 2_000
_QUERY = "round"


@dataclass(frozen=True, slots=True)
class GrowthReduction(Strict):
    """Growth reduction: a convex problem is solved by rounds of strongly convex problems, each over all rows.

    min_w F(w) + r(w) by k rounds of

        p_i ~ argmin over C of F(w) + r(w) + (s_i/2) ||w - x_(i-1)||^2,    x_i = project_C(p_i + noise_i),

    with s_i = 2^(i-1) strength and a public x_0. Rounding aside, the noise is Gaussian with std z G / (n s_i) in each
    coordinate, or Laplace with scale z sqrt(d) G / (n s_i).

    Precondition: f convex and smooth with gradients bounded by proof.
    Pseudo-code: for i = 1..k: T_i proximal gradient steps from x_(i-1); release; project on C.
    Postcondition: each round is output perturbation on all rows, with sensitivity 2 G / (n s_i) for every T_i, so the
    run is the composition of k releases. Proof: docs/proofs/growth_reduction.md.

    Parameters
    ----------
    rounds : Number of rounds (k), from 1 to 40. By default the proven bound on the empirical risk is minimized
    strength : Strength of the first round's penalty (s_1), above 0. By default the same bound is minimized
    steps : Largest number of steps in a round, from 1 to 100000
    noise : "gaussian", or "laplace", the default at delta = 0

    Reference: Asi, Levy and Duchi 2021, Proposition 3 at kappa = 2, with output perturbation as the inner method;
    docs/spec 8.
    Deviations: the pull grows (the printed sign makes it fall); rounds share mu^2 instead of (epsilon/k, delta/k); C
    replaces the ball around x_(i-1), which never binds.
    """

    rounds: Annotated[int | None, Whole(MOST_ROUNDS)] = None
    strength: Step = None
    steps: Annotated[int, Whole(MOST_STEPS)] = _MOST_DEFAULT_STEPS
    noise: NoiseName | None = None
    name: Literal["growth_reduction"] = "growth_reduction"

    def resolve(self, problem: Problem, privacy: Privacy) -> "GrowthReductionRun":
        """Return the run, with every open setting chosen from public facts.

        Raises
        ------
        Unsuitable
            if the loss is not smooth or not convex, or the noise is Gaussian at delta = 0.
        """
        check_loss("growth_reduction", problem, convex=True)
        noise = noise_for("growth_reduction", self.noise, privacy)
        D = distance(problem)
        whole_spread = spread(noise, privacy, problem)  # each round gets its share of mu^2, or of epsilon
        candidates = []
        for k in range(1, MOST_ROUNDS + 1) if self.rounds is None else (self.rounds,):
            errors = _errors(problem, whole_spread * (k**2 if noise == "laplace" else k), k)
            strength = math.sqrt(2 * errors) / D if self.strength is None else self.strength
            candidates.append((strength * D**2 / 2 + errors / strength, k, strength))
        _, rounds, strength = min(candidates)
        return GrowthReductionRun(rounds, strength, self.steps, noise)


@dataclass(frozen=True, slots=True)
class GrowthReductionRun(DataRun):
    """Resolved settings of `GrowthReduction`."""

    rounds: int
    strength: float
    steps: int
    noise: NoiseName
    name: Literal["growth_reduction"] = "growth_reduction"

    def queries(self, problem: Problem) -> tuple[Query, ...]:
        """Return a release for each round."""
        return (Query(_QUERY, self.rounds, Laplace() if self.noise == "laplace" else Gaussian()),)

    def bounds(self, problem: Problem) -> Bounds:
        """Return the per-record bound of the first round, which is the largest, and the number of coordinates."""
        moved = self._pieces(problem)[0].sensitivity(float(np.linalg.norm(problem.start)))
        return {_QUERY: (bound(self.noise, moved, problem.size), problem.size)}

    def gradient_evaluations(self, problem: Problem) -> float:
        """Return the sum of T_i n."""
        return float(sum(piece.steps(self.steps) for piece in self._pieces(problem))) * problem.n

    def excess_risk(self, problem: Problem, noise_std: float, start: Start) -> float | str:
        """Return a bound on E[F(w)] - min F without a regularizer, if `steps` is enough for every round."""
        k, s = self.rounds, self.strength
        is_cut_short = any(piece.steps(MOST_STEPS) > self.steps for piece in self._pieces(problem))
        if is_cut_short or not isinstance(problem.regularizer, NoRegularizer):
            return UNFINISHED
        a = problem.size * (noise_std * problem.n * s / (2 * problem.G)) ** 2 + (CLOSE / 2) ** 2
        return s * start.distance**2 / 2 + _errors(problem, a, k) / s

    def run(self, access: Access, problem: Problem) -> Vector:
        """Return the private model."""
        return released_in_turn(access, self._pieces(problem), problem.start, self.steps, _QUERY, self.noise)

    def _pieces(self, problem: Problem) -> list[Piece]:
        return [Piece(problem, range(problem.n), 2.0**i * self.strength) for i in range(self.rounds)]


def _errors(problem: Problem, a: float, rounds: int) -> float:
    """Return E in the bound s_1 D^2 / 2 + E / s_1, with a = E||noise||^2 of a round over its squared sensitivity."""
    per, last = 2 * problem.G / problem.n, 2.0 ** (1 - rounds)
    return a * per**2 * 2 * (1 - last) + problem.G * math.sqrt(a) * per * last
