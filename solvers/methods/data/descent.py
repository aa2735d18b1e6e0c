"""Descent on a strongly convex piece of the data: a minimizer whose sensitivity is proven for every number of steps.

Phi(w) = (1/m) sum over the m positions of f_i(w) + (s/2) ||w - center||^2 + r(w) over C, r being mu-strongly convex.
T steps w <- prox_(eta r, C)(w - eta (grad F(w) + s (w - center))), eta <= 2 / (L + 2 s), from a common start: replacing
one record moves the result by at most 2 G / (m (s + mu)), half of it where one of the two is null, for every T, which
is also the bound for the exact minimizer; floating point adds to it. Proof: docs/proofs/descent.md (docs/spec T7').
"""

import math
from dataclasses import dataclass

from solvers.bounds import UNIT, gradient_error
from solvers.domains import Free, L1Ball, L2Ball, LinfBall, Simplex
from solvers.errors import Unsuitable
from solvers.oracles import Access
from solvers.problem import Problem, Vector

_SHORTER = 1 - 1e-9  # eta stays below 2 / (L + 2 s) however it is rounded
_LEAST_GAP = 1e-12  # below this, steps hardly contract, and rounding would add up without end
CLOSE = 0.05  # of the sensitivity, how far from the minimizer a default number of steps may end


def step_error(problem: Problem) -> float:
    """The l2 error of one proximal step's own arithmetic, relative to the largest norm of an intermediate vector.

    Coordinate by coordinate a few roundings; a norm on the l2 ball; a running sum on the l1 ball and the simplex.
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
    """One regularized problem on consecutive positions.

    Parameters
    ----------
    problem : its loss must be smooth and convex; the data's problem, or that with another loss for the same targets
    rows : the m positions, fixed independently of the data
    pull : s >= 0; s + mu must be positive
    """

    problem: Problem
    rows: range
    pull: float

    def __post_init__(self) -> None:
        if not self.gap >= _LEAST_GAP:
            raise Unsuitable("the pull towards the center is too weak beside the loss's curvature: take a shorter step")

    @property
    def curvature(self) -> float:
        """s + mu, the strong convexity of Phi."""
        return self.pull + self.problem.mu

    @property
    def step(self) -> float:
        """eta."""
        return 2 / (self.problem.L + 2 * self.pull) * _SHORTER

    @property
    def gap(self) -> float:
        """1 - k = eta (s + mu) / (1 + eta mu), k being the contraction of one step."""
        return self.step * self.curvature / (1 + self.step * self.problem.mu)

    def sensitivity(self, start_norm: float = 0.0) -> float:
        """How far replacing one record moves what `minimize` returns: two steps by way of the null record, and in each
        the rounding of two runs.

        Parameters
        ----------
        start_norm : ||start|| and ||center||, or more; public
        """
        exact = 2 * self.problem.G / (len(self.rows) * self.curvature)
        return exact * (1 + 1e-12) + 4 * self.rounding(start_norm)

    def reach(self, start_norm: float) -> float:
        """A bound on ||w|| at every iterate: with W the minimizer, ||w_t - W|| <= ||w_0 - W||, and
        ||W|| <= G / (s + mu) + the norm of the minimizer of (s/2) ||w - center||^2 + r over C.
        """
        problem = self.problem
        widest = problem.domain.diameter(problem.size) if problem.start.any() else 0.0  # the simplex, without 0
        return 3 * max(start_norm, widest) + 2 * self.problem.G / self.curvature

    def rounding(self, start_norm: float) -> float:
        """How far the computed iterates may be from the exact ones: one step's error, over 1 - k.

        The error is that at twice the exact iterates' reach, to which the computed ones keep.
        """
        reach = 2 * self.reach(start_norm)
        gradient = self.step * gradient_error(self.problem, len(self.rows), reach)
        size = reach + self.step * (self.problem.G + self.pull * 2 * reach)
        own = step_error(self.problem) * size
        off = (gradient + own) / self.gap
        if not off <= reach / 2:
            raise Unsuitable("steps contract too little for floating point: rounding could outgrow the iterates")
        return off

    def steps(self, most: int) -> int:
        """T with which the distance to the minimizer falls below 0.05 sensitivities, at most `most`; public."""
        wanted = math.log(len(self.rows) / CLOSE) / -math.log1p(-self.gap)
        return max(1, math.ceil(min(most, wanted)))

    def minimize(self, access: Access, center: Vector, start: Vector, steps: int) -> Vector:
        """The T-th iterate: a function of the data that must not leave but through a release."""
        w = start
        for _ in range(steps):
            g = access.mean_gradient(self.rows, w, self.problem)
            if self.pull > 0:
                g += self.pull * (w - center)
            w = self.problem.prox(w - self.step * g, self.step)
        return w
