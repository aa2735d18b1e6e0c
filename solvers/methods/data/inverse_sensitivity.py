"""Inverse sensitivity: a point of a public grid, chosen by how many records would have to change to make it optimal."""

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from accounting.mechanisms import Exponential
from accounting.mechanisms.exponential import MOST_CHOICES
from accounting.plan import Query
from accounting.privacy import Privacy
from solvers.bounds import UNIT
from solvers.domains import Free, Simplex
from solvers.errors import Unsuitable
from solvers.methods.checks import check_count, check_scalar
from solvers.methods.run import Bounds, DataRun, Strict
from solvers.oracles import Access
from solvers.problem import Problem, Vector
from solvers.rounded import lattice_error

Points = NDArray[np.float64]

MOST_DIMENSIONS = 3
_POINTS = 4096  # of a default grid
_EVALUATIONS = 2e9  # and the most that it may compute
_STEP_ROUNDING = 64  # as in descent: units of the last place that one proximal step may cost, per coordinate
_MOST_ROUNDING = 0.01  # of the sensitivity, that rounding may add


@dataclass(frozen=True, slots=True)
class InverseSensitivity(Strict):
    """min over C of F(w) + r(w), d <= 3, C bounded: P(w_j) in proportion to e^(-epsilon n |P_j| / (4 G)), on a grid.

    P_j = (w_j - prox_(t r, C)(w_j - t grad F(w_j))) / t is the gradient at w_j, less what r and the edge of C allow; it
    is 0 exactly at minimizers. n |P_j| / (2 G) is at most the number of records that must change to bring a minimizer
    to w_j. In one dimension the grid cuts C into cells, and a cell's score is the least over its points, found at its
    two ends, since the derivative does not decrease: a cell that holds a minimizer has score 0.

    Precondition: f convex; gradients bounded by proof (rows are scaled); grid and t are functions of public facts.
    Pseudo-code: scores q_j = n |P_j| / (2 G); choose j by the exponential mechanism; release w_j.
    Postcondition: replacing a record moves every score by at most 1 and a stated rounding, so the choice is 2/z-DP.
    Proof: docs/proofs/inverse_sensitivity.md.

    Parameters
    ----------
    grid : Number of cells (d = 1), or of points along each axis. By default about 4096 points, fewer for many rows

    Reference: Asi and Duchi 2020; Asi, Levy and Duchi 2021, equations (4) and (5). Deviations: half the printed
    exponent, which is 2 epsilon-DP; a grid; the proximal step's length for the gradient's norm, which also counts r
    and the edge of C, where a minimizer's gradient is not 0.
    """

    grid: int | None = None
    name: Literal["inverse_sensitivity"] = "inverse_sensitivity"

    def __post_init__(self) -> None:
        check_count("inverse_sensitivity: grid", self.grid, MOST_CHOICES)

    def resolve(self, problem: Problem, privacy: Privacy) -> "InverseSensitivityRun":
        """Return the run, with every open setting chosen from public facts.

        Raises
        ------
        Unsuitable
            if d > 3, a record has several rows, the domain is not bounded, the loss is not convex, or the grid is too
            large or too fine.
        """
        check_scalar("inverse_sensitivity", problem)
        if problem.unit.slots > 1:
            raise Unsuitable(
                "inverse_sensitivity counts records of one gradient each; here a record is a person of several rows, "
                "for whom its score is not proven"
            )
        if problem.d > MOST_DIMENSIONS:
            raise Unsuitable(
                f"inverse_sensitivity needs at most {MOST_DIMENSIONS} coefficients, the intercept included; here there "
                f"are {problem.d}, and a grid grows as a power of them"
            )
        if not problem.is_convex:
            raise Unsuitable(f"inverse_sensitivity needs a convex loss; {problem.loss.name} is not")
        _sides(problem)
        made = InverseSensitivityRun(self.grid or _default_grid(problem))
        if made._size(problem) > MOST_CHOICES:
            raise Unsuitable(f"inverse_sensitivity: the grid may hold at most {MOST_CHOICES} points in all")
        if made._rounding(problem) > _MOST_ROUNDING:
            raise Unsuitable("inverse_sensitivity: the grid is too fine to be told apart in floats at so many rows")
        return made


@dataclass(frozen=True, slots=True)
class InverseSensitivityRun(DataRun):
    """Resolved settings of `InverseSensitivity`."""

    grid: int
    name: Literal["inverse_sensitivity"] = "inverse_sensitivity"
    tabulates: ClassVar[bool] = True

    def queries(self, problem: Problem) -> tuple[Query, ...]:
        """One choice."""
        return (Query("point", 1, Exponential()),)

    def bounds(self, problem: Problem) -> Bounds:
        """The query's per-record bound, half of what a record may move a score, and its number of scores."""
        return {"point": (self._bound(problem), self._size(problem))}

    def gradient_evaluations(self, problem: Problem) -> float:
        """n for every point at which the gradient is computed."""
        return float(self._size(problem) + (problem.d == 1)) * problem.n

    def run(self, access: Access, problem: Problem) -> Vector:
        """The private model: a point of the grid."""
        nodes, step = self._nodes(problem), self._step(problem)
        means = access.mean_gradients(nodes)
        moves = np.array([_move(problem, w, g, step) for w, g in zip(nodes, means, strict=True)])
        scale = problem.n / (2 * problem.G)
        if problem.d == 1:
            nodes = (nodes[:-1] + nodes[1:]) / 2
            scores = np.maximum(0.0, np.maximum(moves[:-1, 0], -moves[1:, 0])) * scale
        else:
            scores = np.sqrt(np.vecdot(moves, moves)) * scale
        chosen: Vector = nodes[int(access.release("point", scores, self._bound(problem))[0])]
        return chosen

    def _size(self, problem: Problem) -> int:
        size: int = self.grid**problem.d
        return size

    def _nodes(self, problem: Problem) -> Points:
        """Where gradients are computed: the ends of the cells (d = 1), or the points, brought to C; shape (., d)."""
        low, high = _sides(problem)
        along = np.linspace(low, high, self.grid + (problem.d == 1))
        box = np.stack(np.meshgrid(*[along] * problem.d, indexing="ij"), axis=-1).reshape(-1, problem.d)
        return np.array([problem.domain.project(w) for w in box])

    def _spacing(self, problem: Problem) -> float:
        low, high = _sides(problem)
        return (high - low) / self.grid

    def _step(self, problem: Problem) -> float:
        """t: short enough that an inner point's step stays within the spacing, and r's curvature changes little."""
        spacing = self._spacing(problem)
        return spacing / (2 * problem.G + 100 * spacing * problem.mu)

    def _rounding(self, problem: Problem) -> float:
        """How far a score may be from what exact arithmetic makes of the same rounded gradients."""
        step = self._step(problem)
        size = math.sqrt(problem.d) * max(map(abs, _sides(problem))) + step * problem.G
        error = _STEP_ROUNDING * (problem.d + 8) * UNIT * size / step
        return error * problem.n / (2 * problem.G)

    def _bound(self, problem: Problem) -> float:
        """How far a computed score moves when a record becomes null; twice that when it is replaced."""
        return (1 + lattice_error(problem)) / 2 + 2 * self._rounding(problem)


def _move(problem: Problem, w: Vector, g: Vector, step: float) -> Vector:
    """P at w: a 1-Lipschitz function of the gradient g, since a proximal step is one of its argument."""
    return (w - problem.prox(w - step * g, step)) / step


def _sides(problem: Problem) -> tuple[float, float]:
    """The interval of each coordinate in C."""
    if isinstance(problem.domain, Free):
        raise Unsuitable("inverse_sensitivity chooses from a grid: it needs a bounded domain, linf_ball for one")
    high = problem.domain.radius
    return (0.0 if isinstance(problem.domain, Simplex) else -high), high


def _default_grid(problem: Problem) -> int:
    """m with m^d points in all: 4096, or as many as compute 2e9 gradients; at least 8 along each axis."""
    points = min(_POINTS, _EVALUATIONS / problem.n)
    return max(8, math.floor(math.pow(points, 1 / problem.d) + 1e-9))
