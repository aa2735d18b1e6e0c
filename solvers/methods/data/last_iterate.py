"""Noisy proximal gradient descent of which only the last iterate is released: how dp_gd runs with release "last"."""

from dataclasses import dataclass

import numpy as np

from accounting.errors import OutOfPlan
from accounting.mechanisms import LastIterate
from solvers.contraction import contraction
from solvers.data_access.access import DataAccess
from solvers.data_access.kernels import FARTHEST
from solvers.data_access.sums import UNIT, gradient_error
from solvers.domains import L1Ball, Simplex
from solvers.errors import Unsuitable
from solvers.problem import Problem, Vector

_ROOM = 4.0  # how many times farther than any minimizer iterates may go before they are pulled back


@dataclass(frozen=True, slots=True)
class LastIterateDescent:
    """T times: y = round_gamma(w - eta grad F(w)) + gamma round(N / gamma), N ~ N(0, std^2 I); w = P(y).

    P(y) = prox_(eta r, C)(y, pulled back to norm B), B public. Only w_T = P(y_T) is released.

    Precondition: f smooth and convex with gradients bounded by proof (rows are scaled, gradients never clipped);
    eta < 2/L; T, eta and the start are public. Iterates, not gradients, are put on the lattice: with rounded gradients
    the low bits of w_T would tell of the path (docs/spec 15).
    Postcondition: mu-GDP, mu = (2/z) sqrt(T_eff), for std >= z (b + gamma sqrt(d)), b = eta G / n + the rounding of one
    step. Proof: docs/proofs/last_iterate.md.

    Parameters
    ----------
    steps : T
    step : eta
    """

    steps: int
    step: float

    def releases(self, problem: Problem) -> dict[str, tuple[float, int]]:
        """The per-record bound of a step, half its sensitivity, and its number of coordinates."""
        return {"last_iterate": (self.bound(problem), problem.size)}

    def reach(self, problem: Problem) -> float:
        """B, a bound on ||w|| in the steps, beyond every minimizer: over C, which holds 0, those have norm G / mu."""
        farthest = problem.domain.diameter(problem.size)
        if not problem.start.any() and problem.mu > 0:
            farthest = min(farthest, problem.G / problem.mu)
        reach = _ROOM * (farthest + self.step * problem.G)
        if not reach <= FARTHEST:
            raise Unsuitable("dp_gd with release 'last': the l2 is too weak: iterates could leave the range of floats")
        return reach

    def bound(self, problem: Problem) -> float:
        """b, half of how far replacing one record moves a step from the same y, the rounding of both runs included."""
        reach = self.reach(problem)
        # The distance to the exact map, margins included: steps from different points are compared through it.
        gradient = self.step * (problem.G / problem.n + gradient_error(problem, problem.n, reach))
        own = (problem.size + 24) * UNIT * (reach + self.step * problem.G)
        if isinstance(problem.domain, L1Ball | Simplex):
            own += 16 * (problem.size + 8) ** 1.5 * UNIT * problem.domain.diameter(problem.size)
        return (gradient + own) * (1 + 1e-12)

    def run(self, access: DataAccess, problem: Problem) -> Vector:
        """w_T; nothing else derived from an iterate leaves this function."""
        planned = access.meter.take("last_iterate", LastIterate)
        if planned.mechanism != LastIterate(self.steps, contraction(problem, self.step)):
            raise OutOfPlan("the plan was made for other steps")
        z, bound, reach, rows = planned.noise_multiplier, self.bound(problem), self.reach(problem), range(problem.n)
        w = problem.start
        for _ in range(self.steps):
            m = w - self.step * access.mean_gradient(rows, w)
            y = planned.mechanism.perturb(m, z, bound, access.meter.noise)
            w = problem.prox(_pulled_back(y, reach), self.step)
        return access.meter.count(w)


def _pulled_back(y: Vector, reach: float) -> Vector:
    """The nearest point of the ball of radius `reach` around 0, by the same operations inside and outside."""
    return y * (reach / max(float(np.linalg.norm(y)), reach))
