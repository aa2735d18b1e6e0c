"""Inverse sensitivity: a grid point, chosen by how many records must change to make it optimal.

Review: The grid is public, and a score moves by at most its bound.
"""

import math
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from accounting.mechanisms import Exponential
from accounting.mechanisms.exponential import MOST_CHOICES
from accounting.plan import Query
from accounting.privacy import Privacy
from solvers.bounds import UNIT
from solvers.domains import Free, Simplex
from solvers.errors import Unsuitable
from solvers.methods.checks import check_convex, check_scalar
from solvers.methods.run import Bounds, DataRun, Strict
from solvers.oracles import Access
from solvers.problem import Problem, Vector
from solvers.ranges import Whole
from solvers.rounded import lattice_error

Points = NDArray[np.float64]

MOST_DIMENSIONS = 3
_DEFAULT_POINTS = 4096  # of a default grid
_MOST_DEFAULT_EVALUATIONS = 2e9  # per-record gradients of a default grid
_LEAST_DEFAULT_GRID = 8  # points along each axis
_STEP_ROUNDING = 64  # units in the last place that one proximal step costs at most, per coordinate
_MOST_ROUNDING = 0.01  # of the sensitivity, that rounding may add
_CURVATURE_FACTOR = 100  # makes steps so short that the curvature of r changes a score little


@dataclass(frozen=True, slots=True)
class InverseSensitivity(Strict):
    """A point of a public grid, chosen by the exponential mechanism; for at most three coefficients.

    min over C of F(w) + r(w), d <= 3, C bounded: P(w_j) is proportional to e^(-epsilon n |P_j| / (4 G)).

    P_j = (w_j - prox_(t r, C)(w_j - t grad F(w_j))) / t is the gradient at w_j, corrected for r and the boundary of C.
    It is 0 exactly at minimizers. n |P_j| / (2 G) is at most the number of records that must change to bring a
    minimizer to w_j. In one dimension, the grid divides C into cells. The score of a cell is the smallest of its
    points, and follows from its two ends, because the derivative does not decrease. A cell that contains a minimizer
    has score 0.

    Precondition: f convex; gradients bounded by proof (rows are scaled); grid and t are functions of public facts.
    Pseudo-code: scores q_j = n |P_j| / (2 G); choose j by the exponential mechanism; release w_j.
    Postcondition: replacing a record moves every score by at most 1 plus rounding, so the choice is 2/z-DP.
    Proof: docs/proofs/inverse_sensitivity.md.

    Parameters
    ----------
    grid : Number of cells (d = 1), or of points along each axis. By default about 4096 points, fewer for many rows

    Reference: Asi and Duchi 2020; Asi, Levy and Duchi 2021, equations (4) and (5). Deviations: half the printed
    exponent, which is only 2 epsilon-DP; a grid; the length of the proximal step instead of the norm of the gradient,
    so that r and the boundary of C count, where the gradient of a minimizer is not 0.
    """

    grid: Annotated[int | None, Whole(MOST_CHOICES)] = None
    name: Literal["inverse_sensitivity"] = "inverse_sensitivity"

    def resolve(self, problem: Problem, privacy: Privacy) -> "InverseSensitivityRun":
        """Return the run, with every open setting chosen from public facts.

        Raises
        ------
        Unsuitable
            if d > 3, a record has several rows, the domain is not bounded, the loss is not convex, or the grid has too
            many points.
        """
        check_scalar("inverse_sensitivity", problem)
        if problem.unit.slots > 1:
            raise Unsuitable(
                "inverse_sensitivity supports persons as records only if each has one row, because the proof of its "
                "score needs one gradient per record. Use another method"
            )
        if problem.d > MOST_DIMENSIONS:
            raise Unsuitable(
                f"inverse_sensitivity supports at most {MOST_DIMENSIONS} coefficients, the intercept included, because "
                f"a grid grows exponentially. There are {problem.d}. Use fewer features or another method"
            )
        check_convex("inverse_sensitivity", problem)
        _sides(problem)
        run = InverseSensitivityRun(self.grid or _default_grid(problem))
        if run.size(problem) > MOST_CHOICES:
            raise Unsuitable(
                f"inverse_sensitivity: grid is too large; at most {MOST_CHOICES} points in all are supported"
            )
        if run.rounding(problem) > _MOST_ROUNDING:
            raise Unsuitable(
                "inverse_sensitivity: grid is too fine for this number of rows, because rounding would change scores. "
                "Use a grid of fewer points"
            )
        return run


@dataclass(frozen=True, slots=True)
class InverseSensitivityRun(DataRun):
    """Resolved settings of `InverseSensitivity`."""

    grid: int
    name: Literal["inverse_sensitivity"] = "inverse_sensitivity"
    tabulates: ClassVar[bool] = True

    def queries(self, problem: Problem) -> tuple[Query, ...]:
        """Return one choice."""
        return (Query("point", 1, Exponential()),)

    def bounds(self, problem: Problem) -> Bounds:
        """Return the per-record bound, half the largest change of a score by one record, and the number of scores."""
        return {"point": (self.score_bound(problem), self.size(problem))}

    def gradient_evaluations(self, problem: Problem) -> float:
        """Return n times the number of points at which the gradient is computed."""
        return float(self.size(problem) + (problem.d == 1)) * problem.n

    def run(self, access: Access, problem: Problem) -> Vector:
        """Return the private model, a point of the grid."""
        nodes = self._nodes(problem)
        step = self._step(problem)
        means = access.mean_gradients(nodes)
        moves = np.array([_move(problem, w, g, step) for w, g in zip(nodes, means, strict=True)])
        scale = problem.n / (2 * problem.G)
        if problem.d == 1:
            nodes = (nodes[:-1] + nodes[1:]) / 2
            scores = np.maximum(0.0, np.maximum(moves[:-1, 0], -moves[1:, 0])) * scale
        else:
            scores = np.sqrt(np.vecdot(moves, moves)) * scale
        chosen: Vector = nodes[int(access.release("point", scores, self.score_bound(problem))[0])]
        return chosen

    def size(self, problem: Problem) -> int:
        """Return the number of choices."""
        return int(self.grid**problem.d)

    def _nodes(self, problem: Problem) -> Points:
        """Return the points of gradients, projected on C, shape (., d); these are the ends of the cells if d = 1."""
        low, high = _sides(problem)
        axis = np.linspace(low, high, self.grid + (problem.d == 1))
        box = np.stack(np.meshgrid(*[axis] * problem.d, indexing="ij"), axis=-1).reshape(-1, problem.d)
        return np.array([problem.domain.project(w) for w in box])

    def _step(self, problem: Problem) -> float:
        """Return t, so short that an inner point moves less than the spacing, and r's curvature changes little."""
        low, high = _sides(problem)
        spacing = (high - low) / self.grid
        return spacing / (2 * problem.G + _CURVATURE_FACTOR * spacing * problem.mu)

    def rounding(self, problem: Problem) -> float:
        """Return a bound on the rounding error of a score, given the same rounded gradients."""
        step = self._step(problem)
        size = math.sqrt(problem.d) * max(map(abs, _sides(problem))) + step * problem.G
        error = _STEP_ROUNDING * (problem.d + 8) * UNIT * size / step
        return error * problem.n / (2 * problem.G)

    def score_bound(self, problem: Problem) -> float:
        """Return a bound on how far a computed score moves if a record becomes null; twice that if it is replaced."""
        return (1 + lattice_error(problem)) / 2 + 2 * self.rounding(problem)


def _move(problem: Problem, w: Vector, g: Vector, step: float) -> Vector:
    """Return P at w, a 1-Lipschitz function of the gradient g, because the prox is 1-Lipschitz."""
    return (w - problem.prox(w - step * g, step)) / step


def _sides(problem: Problem) -> tuple[float, float]:
    """Return the interval of each coordinate in C."""
    if isinstance(problem.domain, Free):
        raise Unsuitable(
            "inverse_sensitivity: the domain must be bounded, because a grid must cover it. Use linf_ball, for example"
        )
    high = problem.domain.radius
    return (0.0 if isinstance(problem.domain, Simplex) else -high), high


def _default_grid(problem: Problem) -> int:
    """Return m with m^d points in all: 4096, or fewer for at most 2e9 gradients; at least 8 along each axis."""
    points = min(_DEFAULT_POINTS, _MOST_DEFAULT_EVALUATIONS / problem.n)
    return max(_LEAST_DEFAULT_GRID, math.floor(math.pow(points, 1 / problem.d) + 1e-9))
