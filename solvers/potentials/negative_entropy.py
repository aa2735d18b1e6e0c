"""The potential of the simplex, w(x) = rho sum of x_i ln x_i."""

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from solvers.domains import Simplex
from solvers.potentials.l1_potential import L1Potential
from solvers.problem import Problem, Vector

_SMALLEST_COORDINATE = 1e-290  # of the radius; a coordinate that rounding made 0 would stay 0


@dataclass(frozen=True, slots=True)
class NegativeEntropy(L1Potential):
    """Negative entropy, w(x) = rho sum of x_i ln x_i, for the simplex of radius rho.

    It is 1-strongly convex in the l1 norm (Pinsker). B_w(u, x) = rho sum of u_i ln(u_i / x_i) is at most rho^2 ln d
    from the start, the center of the simplex. r may be none or lambda ||.||_1, which is constant there. Proofs:
    docs/proofs/potentials.md.

    Reference: Kivinen and Warmuth 1997 (exponentiated gradient); Beck and Teboulle 2003.
    """

    name: Literal["negative_entropy"] = "negative_entropy"

    def refusal(self, problem: Problem) -> str | None:
        """Return the assumption that fails on this problem, or None if it is covered."""
        if not isinstance(problem.domain, Simplex):
            return "it needs the simplex as the domain, on which it is strongly convex"
        return self.refusal_of_quadratic(problem)

    def noise_norm(self, problem: Problem) -> float:
        """Return a bound on E max b_j^2, b ~ N(0, I): 2 (1 + ln d)."""
        return 2 * (1 + math.log(problem.size))

    def bregman(self, problem: Problem, distance: float) -> float:  # noqa: ARG002
        """Return the largest B_w(u, start) over u in C: rho^2 ln d, at a vertex, however near they are in l2."""
        assert isinstance(problem.domain, Simplex)
        return problem.domain.radius**2 * math.log(problem.size)

    def mirror(self, problem: Problem, z: Vector, g: Vector, step: float) -> Vector:
        """Return argmin over u in C of B_w(u, z) + step (<g, u> + r(u)), u_i = z_i exp(-step g_i / rho), normalized."""
        assert isinstance(problem.domain, Simplex)
        radius = problem.domain.radius
        logs = np.log(np.maximum(z, _SMALLEST_COORDINATE * radius)) - g * (step / radius)
        u: Vector = np.exp(logs - logs.max())
        u *= radius / u.sum()
        return u
