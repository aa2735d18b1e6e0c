"""Descent on a strongly convex problem over some rows, with a sensitivity that is proven for every number of steps.

The problem is Phi(w) = (1/m) sum over m rows of f_i(w) + (s/2) ||w - center||^2 + r(w) over C, with a mu-strongly
convex r. T steps are w <- prox_(eta r, C)(w - eta (grad F(w) + s (w - center))), eta <= 2 / (L + 2 s), from a common
start. Replacing one record moves the result by at most 2 G / (m (s + mu)) for every T, or by half of that if one record
is null. The exact minimizer has the same bound; floating point adds to it. Proof: docs/proofs/descent.md (docs/spec
T7').
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from solvers.bounds import UNIT, gradient_error
from solvers.domains import Free, L1Ball, L2Ball, LinfBall, Simplex
from solvers.errors import Unsuitable
from solvers.methods.data.phases import NoiseName, bound
from solvers.oracles import Access
from solvers.problem import Problem, Vector

_STEP_MARGIN = 1 - 1e-9  # keeps eta below 2 / (L + 2 s) after rounding
_LEAST_GAP = 1e-12  # smaller gaps hardly contract, so rounding errors would accumulate without limit
CLOSE = 0.05  # a default number of steps ends within this share of half the sensitivity from the minimizer


def step_error(problem: Problem) -> float:
    """Return the l2 error of the arithmetic of one proximal step, relative to the largest norm of its vectors.

    It contains a few roundings in each coordinate, a norm on the l2 ball, and a cumulative sum on the l1 ball and the
    simplex.
    """
    match problem.domain:
        case Free() | LinfBall():
            return 32 * UNIT
        case L2Ball():
            return 4 * (problem.size + 16) * UNIT
        case L1Ball() | Simplex():
            return 8 * math.pow(problem.size + 8, 1.5) * UNIT


@dataclass(frozen=True, slots=True)
class Piece:
    """A regularized problem on consecutive rows.

    Parameters
    ----------
    problem : with a smooth and convex loss; the problem of the data, or one with another loss for the same targets
    rows : indices of the m rows, chosen independently of the data
    pull : s >= 0; s + mu must be positive
    """

    problem: Problem
    rows: range
    pull: float

    def __post_init__(self) -> None:
        if not self.gap >= _LEAST_GAP:
            raise Unsuitable(
                "the pull towards the center is too weak compared with the curvature of the loss, so steps hardly "
                "contract. Use a shorter step or a larger ridge"
            )

    @property
    def curvature(self) -> float:
        """Strong convexity of Phi, s + mu."""
        return self.pull + self.problem.mu

    @property
    def step(self) -> float:
        """Step size eta."""
        return 2 / (self.problem.L + 2 * self.pull) * _STEP_MARGIN

    @property
    def gap(self) -> float:
        """One minus the contraction k of a step: 1 - k = eta (s + mu) / (1 + eta mu)."""
        return self.step * self.curvature / (1 + self.step * self.problem.mu)

    def sensitivity(self, start_norm: float = 0.0) -> float:
        """Return a bound on how far replacing one record moves the result of `minimize`.

        The bound goes by way of the null record, so it contains the rounding of four runs.

        Parameters
        ----------
        start_norm : public upper bound on ||start|| and ||center||
        """
        exact = 2 * self.problem.G / (len(self.rows) * self.curvature)
        return exact * (1 + 1e-12) + 4 * self.rounding(start_norm)

    def reach(self, start_norm: float) -> float:
        """Return a bound on ||w|| for every iterate.

        With W the minimizer, ||w_t - W|| <= ||w_0 - W||, and ||W|| <= G / (s + mu) + the norm of the minimizer of
        (s/2) ||w - center||^2 + r over C.
        """
        problem = self.problem
        widest = problem.domain.diameter(problem.size) if problem.start.any() else 0.0  # the simplex, without 0
        return 3 * max(start_norm, widest) + 2 * self.problem.G / self.curvature

    def rounding(self, start_norm: float) -> float:
        """Return a bound on the distance between computed and exact iterates: the error of one step over 1 - k.

        The error is bounded at twice the reach of the exact iterates, because computed iterates stay within it.

        Raises
        ------
        Unsuitable
            if the bound exceeds half of that reach.
        """
        reach = 2 * self.reach(start_norm)
        gradient = self.step * gradient_error(self.problem, len(self.rows), reach)
        size = reach + self.step * (self.problem.G + self.pull * 2 * reach)
        own = step_error(self.problem) * size
        error = (gradient + own) / self.gap
        if not error <= reach / 2:
            raise Unsuitable(
                "steps contract too little for floating point, so rounding errors could exceed the iterates. Use a "
                "shorter step or a larger ridge"
            )
        return error

    def steps(self, largest: int) -> int:
        """Return the public T after which the minimizer is nearer than 0.025 sensitivities; at most `largest`."""
        count = math.log(len(self.rows) / CLOSE) / -math.log1p(-self.gap)
        return max(1, math.ceil(min(largest, count)))

    def minimize(self, access: Access, center: Vector, start: Vector, steps: int) -> Vector:
        """Return the T-th iterate, an exact function of the data, which only a release may make public."""
        w = start
        for _ in range(steps):
            g = access.mean_gradient(self.rows, w, self.problem)
            if self.pull > 0:
                g += self.pull * (w - center)
            w = self.problem.prox(w - self.step * g, self.step)
        return w


def released_in_turn(
    access: Access, pieces: Iterable[Piece], start: Vector, most_steps: int, query: str, noise: NoiseName
) -> Vector:
    """Return the last release x_k: each piece is minimized from x_(i-1), which is also its center, and released."""
    x = start
    for piece in pieces:
        w = piece.minimize(access, x, x, piece.steps(most_steps))
        moved = bound(noise, piece.sensitivity(float(np.linalg.norm(x))), piece.problem.size)
        # release the move instead of the point, because the fine lattices of late pieces do not reach from 0 to x
        x = piece.problem.domain.project(x + access.release(query, w - x, moved))
    return x
