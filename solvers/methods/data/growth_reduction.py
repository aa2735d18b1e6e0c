"""From growth to none: rounds of output perturbation whose pull towards the last one grows (Asi, Levy, Duchi 2021)."""

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from accounting.mechanisms import Gaussian, Laplace
from accounting.plan import Query
from accounting.privacy import Privacy
from solvers.methods.checks import check_count, check_loss, check_step
from solvers.methods.data.descent import CLOSE, Piece
from solvers.methods.data.phases import NoiseName, bound, noise_for
from solvers.methods.defaults import distance
from solvers.methods.defaults.phases import spread
from solvers.methods.run import UNFINISHED, Bounds, DataRun, Start, Strict
from solvers.oracles import Access
from solvers.problem import Problem, Vector
from solvers.regularizers import NoRegularizer

MOST_ROUNDS = 40
MOST_STEPS = 100_000
_MOST_DEFAULT_STEPS = 2_000
_QUERY = "round"


@dataclass(frozen=True, slots=True)
class GrowthReduction(Strict):
    """min_w F(w) + r(w), convex, by k problems that have growth, each over all rows:

        p_i ~ argmin over C of F(w) + r(w) + (s_i/2) ||w - x_(i-1)||^2,    x_i = project_C(p_i + noise_i),

    s_i = 2^(i-1) strength, x_0 public; Gaussian noise of std z G / (n s_i) in each coordinate, or Laplace noise of
    scale z sqrt(d) G / (n s_i), rounding aside.

    Precondition: f convex and smooth with gradients bounded by proof.
    Pseudo-code: for i = 1..k: T_i proximal gradient steps from x_(i-1); release; project on C.
    Postcondition: each round is output perturbation, of sensitivity 2 G / (n s_i) whatever T_i, on all rows: the run is
    the composition of k releases. Proof: docs/proofs/growth_reduction.md.

    Parameters
    ----------
    rounds : k, in [1, 40]. By default the proven bound on the empirical risk is minimized
    strength : s_1, positive. By default the same bound is minimized
    steps : Largest number of steps in a round, in [1, 100000]
    noise : "gaussian", or "laplace", the default at delta = 0

    Reference: Asi, Levy and Duchi 2021, Proposition 3 at kappa = 2, the method within being output perturbation;
    docs/spec 8.
    Deviations: the pull grows (the printed sign makes it fall); mu^2 is shared, in place of (epsilon/k, delta/k); C in
    place of the ball around x_(i-1), which never binds.
    """

    rounds: int | None = None
    strength: float | None = None
    steps: int = _MOST_DEFAULT_STEPS
    noise: NoiseName | None = None
    name: Literal["growth_reduction"] = "growth_reduction"

    def __post_init__(self) -> None:
        check_count("growth_reduction: rounds", self.rounds, MOST_ROUNDS)
        check_count("growth_reduction: steps", self.steps, MOST_STEPS)
        check_step("growth_reduction: strength", self.strength)

    def resolve(self, problem: Problem, privacy: Privacy) -> "GrowthReductionRun":
        """Return the run, with every open setting chosen from public facts.

        Raises
        ------
        Unsuitable
            if the loss is not smooth or not convex, or the noise is Gaussian at delta = 0.
        """
        check_loss("growth_reduction", problem, convex=True)
        noise, D = noise_for("growth_reduction", self.noise, privacy), distance(problem)
        found = []
        for k in range(1, MOST_ROUNDS + 1) if self.rounds is None else (self.rounds,):
            errors = _errors(problem, _spread(noise, privacy, problem, k), k)
            best = math.sqrt(2 * errors) / D if self.strength is None else self.strength
            found.append((best * D**2 / 2 + errors / best, k, best))
        _, rounds, strength = min(found)
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
        """A release a round."""
        return (Query(_QUERY, self.rounds, Laplace() if self.noise == "laplace" else Gaussian()),)

    def bounds(self, problem: Problem) -> Bounds:
        """The first round's per-record bound, the largest, and its number of coordinates."""
        moved = self._piece(problem, 0).sensitivity(float(np.linalg.norm(problem.start)))
        return {_QUERY: (bound(self.noise, moved, problem.size), problem.size)}

    def gradient_evaluations(self, problem: Problem) -> float:
        """Sum of T_i n."""
        return float(sum(self._piece(problem, i).steps(self.steps) for i in range(self.rounds))) * problem.n

    def excess_risk(self, problem: Problem, noise_std: float, start: Start) -> float | str:
        """On E[F(w)] - min F, without a regularizer, where `steps` cuts no round short."""
        k, s = self.rounds, self.strength
        short = any(self._piece(problem, i).steps(MOST_STEPS) > self.steps for i in range(k))
        if short or not isinstance(problem.regularizer, NoRegularizer):
            return UNFINISHED
        a = problem.size * (noise_std * problem.n * s / (2 * problem.G)) ** 2 + (CLOSE / 2) ** 2
        return s * start.distance**2 / 2 + _errors(problem, a, k) / s

    def run(self, access: Access, problem: Problem) -> Vector:
        """Return the private model."""
        x = problem.start
        for i in range(self.rounds):
            piece = self._piece(problem, i)
            w = piece.minimize(access, x, x, piece.steps(self.steps))
            moved = piece.sensitivity(float(np.linalg.norm(x)))
            # the move and not the point: late rounds' lattices are too fine to reach as far as x is from 0
            x = problem.domain.project(x + access.release(_QUERY, w - x, bound(self.noise, moved, problem.size)))
        return x

    def _piece(self, problem: Problem, i: int) -> Piece:
        return Piece(problem, range(problem.n), 2.0**i * self.strength)


def _spread(noise: NoiseName, privacy: Privacy, problem: Problem, rounds: int) -> float:
    """a = E||noise||^2 over the squared sensitivity when each of the rounds gets its share of mu^2, or of epsilon."""
    return spread(noise, privacy, problem) * (rounds**2 if noise == "laplace" else rounds)


def _errors(problem: Problem, a: float, rounds: int) -> float:
    """E in the bound s_1 D^2 / 2 + E / s_1."""
    per, last = 2 * problem.G / problem.n, 2.0 ** (1 - rounds)
    return a * per**2 * 2 * (1 - last) + problem.G * math.sqrt(a) * per * last
