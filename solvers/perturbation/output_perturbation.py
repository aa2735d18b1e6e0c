"""Output perturbation: the minimizer of a strongly convex problem plus noise (Chaudhuri, Monteleoni, Sarwate 2011)."""

import math
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

from accounting.mechanisms import Gaussian, Laplace
from accounting.plan import Query
from accounting.privacy import Privacy
from solvers.errors import NeedsDelta, Unsuitable
from solvers.methods.checks import check_count, check_loss
from solvers.perturbation.access import DataAccess
from solvers.perturbation.descent import Piece
from solvers.problem import Problem, Vector

MOST_STEPS = 100_000
_MOST_DEFAULT_STEPS = 2_000


@dataclass(frozen=True, slots=True)
class OutputPerturbation:
    """min_w F(w) + r(w), r mu-strongly convex: T exact proximal gradient steps from a public start, then
    project_C(w_T + noise), noise of std z G / (n mu) per coordinate, rounding aside;
    at delta = 0 Laplace noise of scale z sqrt(d) G / (n mu).

    Precondition: f smooth and convex with gradients bounded by proof (rows are scaled, gradients never clipped).
    Pseudo-code: w <- prox_(eta r, C)(w - eta grad F(w)), T times; release w + noise; project on C.
    Postcondition: replacing a record moves w_T by at most 2 G / (n mu) for every T, so the release is
    2/z-GDP, or 2/z-DP: in l1 it is moved by at most sqrt(d) times as much.
    Proof: docs/proofs/output_perturbation.md.

    Parameters
    ----------
    steps : T, in [1, 100000]; by default as many as bring w_T within 0.05 sensitivities of the minimizer, up to 2000
    noise : "gaussian" or "laplace"; by default Gaussian, Laplace at delta = 0

    Reference: Chaudhuri, Monteleoni and Sarwate 2011, Algorithm 1; Zhang et al. 2017; PRIVACY-SPEC 10, T7', T8.
    Deviation: Gaussian or Laplace noise in place of a density that falls with the l2 norm, and a fixed number of steps
    in place of "the minimizer", which no solver returns.
    """

    __pydantic_config__: ClassVar = {"extra": "forbid", "strict": True, "allow_inf_nan": False}

    steps: int | None = None
    noise: Literal["gaussian", "laplace"] | None = None
    name: Literal["output_perturbation"] = "output_perturbation"

    def __post_init__(self) -> None:
        check_count("output_perturbation: steps", self.steps, MOST_STEPS)
        if self.noise not in (None, "gaussian", "laplace"):
            raise Unsuitable("output_perturbation: noise must be gaussian or laplace")

    def resolve(self, problem: Problem, privacy: Privacy) -> "OutputPerturbation":
        """Every open field filled from public facts.

        Raises
        ------
        Unsuitable
            if the loss is not smooth or not convex, r is not strongly convex, or delta is 0 and Gaussian noise
            was asked for.
        """
        check_loss("output_perturbation", problem, convex=True)
        if privacy.is_pure and self.noise == "gaussian":
            raise NeedsDelta("delta = 0 needs a pure mechanism: leave out `noise`, or make it laplace")
        if problem.mu <= 0:
            raise Unsuitable("output_perturbation needs a strongly convex regularizer: l2 or elastic_net")
        return replace(
            self,
            steps=self.steps or self._piece(problem).steps(_MOST_DEFAULT_STEPS),
            noise=self.noise or ("laplace" if privacy.is_pure else "gaussian"),
        )

    def queries(self, problem: Problem) -> tuple[Query, ...]:  # noqa: ARG002
        """One release."""
        return (Query("minimizer", 1, Laplace() if self.noise == "laplace" else Gaussian()),)

    def releases(self, problem: Problem) -> dict[str, tuple[float, int]]:
        """Each query's per-record bound in its mechanism's norm, half its sensitivity, and its coordinates."""
        return {"minimizer": (self._bound(problem), problem.size)}

    def gradient_evaluations(self, problem: Problem) -> float:
        """T n."""
        return float(self._filled()) * problem.n

    def run(self, access: DataAccess, problem: Problem) -> Vector:
        """The private model."""
        piece = self._piece(problem)
        w = piece.minimize(access, problem.start, problem.start, self._filled())
        return problem.domain.project(access.release("minimizer", w, self._bound(problem)))

    def _bound(self, problem: Problem) -> float:
        """Half the sensitivity; ||u||_1 <= sqrt(d) ||u||_2."""
        return self._piece(problem).sensitivity() / 2 * (math.sqrt(problem.size) if self.noise == "laplace" else 1.0)

    def _piece(self, problem: Problem) -> Piece:
        return Piece(problem, range(problem.n), 0.0)

    def _filled(self) -> int:
        if self.steps is None:
            raise Unsuitable("output_perturbation: resolve the method first")
        return self.steps
