"""Output perturbation: the minimizer of a strongly convex problem plus noise (Chaudhuri, Monteleoni, Sarwate 2011)."""

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

from accounting.mechanisms import Gaussian
from accounting.plan import Query
from accounting.privacy import Privacy
from solvers.errors import Unsuitable
from solvers.methods.checks import check_count, check_loss
from solvers.perturbation.access import DataAccess
from solvers.perturbation.descent import Piece
from solvers.problem import Problem, Vector

MOST_STEPS = 100_000
_MOST_DEFAULT_STEPS = 2_000


@dataclass(frozen=True, slots=True)
class OutputPerturbation:
    """min_w F(w) + r(w), r mu-strongly convex: T exact proximal gradient steps from a public start, then
    project_C(w_T + noise), noise of std z G / (n mu) per coordinate, rounding aside.

    Precondition: f smooth and convex with gradients bounded by proof (rows are scaled, gradients never clipped).
    Pseudo-code: w <- prox_(eta r, C)(w - eta grad F(w)), T times; release w + N(0, s^2 I); project on C.
    Postcondition: replacing a record moves w_T by at most 2 G / (n mu) for every T, so the release is 2/z-GDP.
    Proof: docs/proofs/output_perturbation.md.

    Parameters
    ----------
    steps : T, in [1, 100000]; by default as many as bring w_T within 0.05 sensitivities of the minimizer, up to 2000

    Reference: Chaudhuri, Monteleoni and Sarwate 2011, Algorithm 1; Zhang et al. 2017; PRIVACY-SPEC 10, T7'.
    Deviation: Gaussian noise, and a fixed number of steps in place of "the minimizer", which no solver returns.
    """

    __pydantic_config__: ClassVar = {"extra": "forbid", "strict": True, "allow_inf_nan": False}

    steps: int | None = None
    name: Literal["output_perturbation"] = "output_perturbation"

    def __post_init__(self) -> None:
        check_count("output_perturbation: steps", self.steps, MOST_STEPS)

    def resolve(self, problem: Problem, privacy: Privacy) -> "OutputPerturbation":
        """Every open field filled from public facts.

        Raises
        ------
        Unsuitable
            if the loss is not smooth or not convex, r is not strongly convex, or delta is 0.
        """
        check_loss("output_perturbation", problem, convex=True)
        if privacy.is_pure:
            raise Unsuitable("delta = 0 needs a pure mechanism; output_perturbation adds Gaussian noise")
        if problem.mu <= 0:
            raise Unsuitable("output_perturbation needs a strongly convex regularizer: l2 or elastic_net")
        return replace(self, steps=self.steps or self._piece(problem).steps(_MOST_DEFAULT_STEPS))

    def queries(self, problem: Problem) -> tuple[Query, ...]:  # noqa: ARG002
        """One release."""
        return (Query("minimizer", 1, Gaussian()),)

    def releases(self, problem: Problem) -> dict[str, tuple[float, int]]:
        """Each query's per-record bound, half its sensitivity, and its number of coordinates."""
        return {"minimizer": (self._piece(problem).sensitivity() / 2, problem.d)}

    def gradient_evaluations(self, problem: Problem) -> float:
        """T n."""
        return float(self._filled()) * problem.n

    def run(self, access: DataAccess, problem: Problem) -> Vector:
        """The private model."""
        piece = self._piece(problem)
        w = piece.minimize(access, problem.start, problem.start, self._filled())
        return problem.domain.project(access.release("minimizer", w, piece.sensitivity() / 2))

    def _piece(self, problem: Problem) -> Piece:
        return Piece(problem, range(problem.n), 0.0)

    def _filled(self) -> int:
        if self.steps is None:
            raise Unsuitable("output_perturbation: resolve the method first")
        return self.steps
