"""Localization: regularized problems on disjoint rows, each pulled towards the last release (Asi, Levy, Duchi 2021)."""

import math
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np

from accounting.mechanisms import Gaussian, Parallel
from accounting.plan import Query
from accounting.privacy import Privacy, finite
from solvers.errors import Unsuitable
from solvers.losses.smoothing import smoothed
from solvers.methods.checks import check_count, check_step
from solvers.methods.tuning import distance
from solvers.perturbation.access import DataAccess
from solvers.perturbation.descent import Piece
from solvers.perturbation.phases import MOST_PHASES, Law, Phases, choose, risk, spread
from solvers.problem import Problem, Vector

LAW = Law(reach=1.0, drift=1.0, shift=1.0)
MOST_STEPS = 100_000
_MOST_DEFAULT_STEPS = 2_000
_BIAS = 0.25  # of the proven risk, how much of it smoothing may add
_QUERY = "phase"


@dataclass(frozen=True, slots=True)
class Localization:
    """min_w E f(w; z) + r(w) by k regularized problems of m = floor(n/k) rows each, no row in two of them:

        x^_i ~ argmin over C of F_i(w) + r(w) + ||w - x_(i-1)||^2 / (eta_i m),    x_i = project_C(x^_i + noise_i),

    eta_i = step ratio^(1-i), x_0 public; noise std z G eta_i / 2 per coordinate, rounding aside.

    Precondition: f convex with gradients bounded by proof. One that is not smooth is replaced by its envelope of width
    `smoothing`, which has the same bound.
    Pseudo-code: for i = 1..k: T_i proximal gradient steps on phase i from x_(i-1); release; project on C.
    Postcondition: replacing a record of phase i moves x^_i by at most G eta_i, whatever T_i, and moves no other, so the
    run costs one release: 2/z-GDP. Proof: docs/proofs/localization.md.

    Parameters
    ----------
    phases : k, in [1, 64]; each must hold 30 rows
    ratio : q >= 1.1, by which eta falls from phase to phase
    step : eta_1; phases, ratio and step minimize a proven bound by default
    smoothing : h, the width of the envelope, in the margin's unit; 0 for a smooth loss
    steps : the most T_i, in [1, 100000]

    Reference: Asi, Levy and Duchi 2021, Algorithm 1; PRIVACY-SPEC 5.
    Deviations: sensitivity G eta_i (printed 4 G eta_i); projection on C, not on the ball around x_(i-1), which never
    binds; x_i is projected before it is used; k, q and eta_1 from the bound in docs/proofs/phases.md in place of ceil(ln n),
    16 and constants left open; T_i fixed in place of "the output of the optimization algorithm".
    """

    __pydantic_config__: ClassVar = {"extra": "forbid", "strict": True, "allow_inf_nan": False}

    phases: int | None = None
    ratio: float | None = None
    step: float | None = None
    smoothing: float | None = None
    steps: int = _MOST_DEFAULT_STEPS
    name: Literal["localization"] = "localization"

    def __post_init__(self) -> None:
        check_count("localization: phases", self.phases, MOST_PHASES)
        check_count("localization: steps", self.steps, MOST_STEPS)
        check_step("localization: step", self.step)
        check_ratio("localization", self.ratio)
        check_smoothing("localization", self.smoothing)

    def resolve(self, problem: Problem, privacy: Privacy) -> "Localization":
        """Every open field filled from public facts.

        Raises
        ------
        Unsuitable
            if the loss is not convex or has no smooth form, a phase would hold fewer than 30 rows, or delta is 0.
        """
        check_convex("localization", problem, privacy)
        D, a = distance(problem), spread(privacy, problem.d)
        plan = choose(LAW, a, problem.n, D, problem.G, count=self.phases, ratio=self.ratio, step=self.step)
        width = self.smoothing
        if width is None:
            width = envelope(problem, risk(LAW, a, plan, D, problem.G))
        smoothed(problem.loss, width)
        return replace(self, phases=plan.count, ratio=plan.ratio, step=plan.step, smoothing=width)

    def queries(self, problem: Problem) -> tuple[Query, ...]:  # noqa: ARG002
        """One use of the Gaussian mechanism in parallel."""
        return (Query(_QUERY, 1, Parallel(Gaussian(), self._filled()[0])),)

    def releases(self, problem: Problem) -> dict[str, tuple[float, int]]:
        """The first phase's per-record bound, the largest, and its number of coordinates."""
        plan = self.schedule(problem)
        piece = piece_of(problem, plan, 0, self._filled()[3])
        return {_QUERY: (piece.sensitivity(float(np.linalg.norm(problem.start))) / 2, problem.d)}

    def gradient_evaluations(self, problem: Problem) -> float:
        """Sum of T_i m."""
        plan, width = self.schedule(problem), self._filled()[3]
        pieces = (piece_of(problem, plan, i, width) for i in range(plan.count))
        return float(sum(piece.steps(self.steps) * plan.rows for piece in pieces))

    def schedule(self, problem: Problem) -> Phases:
        """The phases."""
        k, q, h, _ = self._filled()
        return Phases(0, k, problem.n // k, q, h)

    def run(self, access: DataAccess, problem: Problem) -> Vector:
        """The private model."""
        return localize(access, problem, self.schedule(problem), _QUERY, problem.start, self._filled()[3], self.steps)

    def _filled(self) -> tuple[int, float, float, float]:
        if self.phases is None or self.ratio is None or self.step is None or self.smoothing is None:
            raise Unsuitable("localization: resolve the method first")
        return self.phases, self.ratio, self.step, self.smoothing


def localize(
    access: DataAccess, problem: Problem, plan: Phases, query: str, start: Vector, width: float, most: int
) -> Vector:
    """x_k of Algorithm 1 from the public x_0 = `start`; one part of the query a phase."""
    x = start
    for i in range(plan.count):
        piece = piece_of(problem, plan, i, width)
        w = piece.minimize(access, x, x, piece.steps(most))
        bound = piece.sensitivity(float(np.linalg.norm(x))) / 2
        x = problem.domain.project(access.release(query, w, bound))
    return x


def piece_of(problem: Problem, plan: Phases, i: int, width: float) -> Piece:
    """The regularized problem of phase i: (s/2) ||w - x||^2 with s = 2 / (eta_i m)."""
    smooth = replace(problem, loss=smoothed(problem.loss, width))
    return Piece(smooth, plan.positions(i), 2 / (plan.eta(i) * plan.rows))


def envelope(problem: Problem, proven: float) -> float:
    """h with which smoothing adds at most a quarter of the proven risk, h S^2 / 2 being its bias; 0 if f is smooth."""
    if problem.is_smooth:
        return 0.0
    return min(max(2 * _BIAS * proven / problem.loss.slope_bound**2, 1e-4), 100.0)


def check_convex(method: str, problem: Problem, privacy: Privacy) -> None:
    """`Unsuitable` unless the loss is convex and Gaussian noise can be had."""
    if not problem.is_convex:
        raise Unsuitable(f"{method} needs a convex loss; {problem.loss.name} is not: use dp_gd")
    if privacy.is_pure:
        raise Unsuitable(f"delta = 0 needs a pure mechanism; {method} adds Gaussian noise")


def check_ratio(method: str, ratio: float | None) -> None:
    """`Unsuitable` unless it is in [1.1, 1000] or still open."""
    if ratio is not None and not 1.1 <= finite(ratio, "ratio") <= 1000:
        raise Unsuitable(f"{method}: ratio must lie in [1.1, 1000]")


def check_smoothing(method: str, width: float | None) -> None:
    """`Unsuitable` unless it is 0, in [1e-4, 100] or still open."""
    if width is not None and width != 0 and not 1e-4 <= finite(width, "smoothing") <= 100:
        raise Unsuitable(f"{method}: smoothing must be 0 or lie in [1e-4, 100]")
