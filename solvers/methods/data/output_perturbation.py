"""Output perturbation: the minimizer of a strongly convex problem plus noise (Chaudhuri, Monteleoni, Sarwate 2011).

Review: Noise covers the sensitivity of the computed point.
"""

import math
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np

from accounting.mechanisms import Gaussian, Laplace
from accounting.plan import Query
from accounting.privacy import Privacy
from solvers.errors import Unsuitable
from solvers.methods.checks import check_loss
from solvers.methods.data.descent import Piece
from solvers.methods.data.phases import NoiseName, bound, noise_for
from solvers.methods.defaults.phases import MOST_RIDGE, balanced_ridge
from solvers.methods.run import Bounds, DataRun, Strict
from solvers.oracles import Access
from solvers.problem import Problem, Vector
from solvers.ranges import Real, Whole

MOST_STEPS = 100_000
_MOST_DEFAULT_STEPS = 2_000


@dataclass(frozen=True, slots=True)
class OutputPerturbation(Strict):
    """Output perturbation: an approximate minimizer of a strongly convex problem, plus noise.

    min_w F(w) + (s/2) ||w - w_0||^2 + r(w), with a mu-strongly convex r and m = s + mu > 0: T exact proximal gradient
    steps from the public start w_0, then project_C(w_T + noise). Rounding aside, the noise has std z G / (n m) in each
    coordinate; at delta = 0 it is Laplace noise of scale z sqrt(d) G / (n m).

    Precondition: f smooth and convex with gradients bounded by proof (rows are scaled, gradients never clipped).
    Pseudo-code: w <- prox_(eta r, C)(w - eta (grad F(w) + s (w - w_0))), T times; release w + noise; project on C.
    Postcondition: replacing a record moves w_T by at most 2 G / (n m) for every T, so the release is
    2/z-GDP, or 2/z-DP: in l1 it is moved by at most sqrt(d) times as much.
    Proof: docs/proofs/output_perturbation.md.

    Parameters
    ----------
    steps : Number of steps (T), from 1 to 100000. By default enough to come within 0.025 sensitivities of the
        minimizer, up to 2000
    ridge : Strength added to the regularizer (s), from 0 to 1e6. By default m - mu for the m that minimizes m D^2 / 2
        + L E||noise||^2 / 2, the bias plus the effect of the noise, or 0 if mu exceeds m
    noise : "gaussian", or "laplace", the default at delta = 0

    Reference: Chaudhuri, Monteleoni and Sarwate 2011, Algorithm 1; Zhang et al. 2017; docs/spec 10, T7', T8.
    Deviation: Gaussian or Laplace noise instead of a density that falls with the l2 norm, and a fixed number of steps
    instead of "the minimizer", which no solver returns.
    """

    steps: Annotated[int | None, Whole(MOST_STEPS)] = None
    ridge: Annotated[float | None, Real(0, MOST_RIDGE)] = None
    noise: NoiseName | None = None
    name: Literal["output_perturbation"] = "output_perturbation"

    def resolve(self, problem: Problem, privacy: Privacy) -> "OutputPerturbationRun":
        """Return the run, with every open setting chosen from public facts.

        Raises
        ------
        Unsuitable
            if the loss is not smooth or not convex, r is not strongly convex and the ridge is 0, or Gaussian noise is
            requested at delta = 0.
        """
        check_loss("output_perturbation", problem, convex=True)
        noise = noise_for("output_perturbation", self.noise, privacy)
        ridge = balanced_ridge(problem, privacy, noise) if self.ridge is None else self.ridge
        if problem.mu + ridge <= 0:
            raise Unsuitable(
                "output_perturbation: ridge must be above 0, or the regularizer l2 or elastic_net, because the noise "
                "is chosen from the strong convexity of the objective"
            )
        steps = self.steps or Piece(problem, range(problem.n), ridge).steps(_MOST_DEFAULT_STEPS)
        return OutputPerturbationRun(steps, ridge, noise)


@dataclass(frozen=True, slots=True)
class OutputPerturbationRun(DataRun):
    """Resolved settings of `OutputPerturbation`."""

    steps: int
    ridge: float
    noise: NoiseName
    name: Literal["output_perturbation"] = "output_perturbation"

    def queries(self, problem: Problem) -> tuple[Query, ...]:
        """Return one release."""
        return (Query("minimizer", 1, Laplace() if self.noise == "laplace" else Gaussian()),)

    def bounds(self, problem: Problem) -> Bounds:
        """Return half the sensitivity, in the mechanism's norm, and the number of coordinates."""
        return {"minimizer": (bound(self.noise, self._piece(problem).sensitivity(), problem.size), problem.size)}

    def gradient_evaluations(self, problem: Problem) -> float:
        """Return T n."""
        return float(self.steps) * problem.n

    def off_minimizer(self, problem: Problem) -> float:
        """Return k^T times a bound on ||w_0 - W||, with k the contraction of a step, plus rounding."""
        piece = self._piece(problem)
        start = float(np.linalg.norm(problem.start))
        return math.exp(self.steps * math.log1p(-piece.gap)) * piece.reach(start) + piece.rounding(start)

    def run(self, access: Access, problem: Problem) -> Vector:
        """Return the private model."""
        w = self._piece(problem).minimize(access, problem.start, problem.start, self.steps)
        return problem.domain.project(access.release("minimizer", w, self.bounds(problem)["minimizer"][0]))

    def _piece(self, problem: Problem) -> Piece:
        return Piece(problem, range(problem.n), self.ridge)
