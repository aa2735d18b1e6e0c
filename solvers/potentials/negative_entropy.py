"""The potential of the simplex, w(x) = rho sum of x_i ln x_i."""

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from solvers.domains import Simplex
from solvers.potentials.quadratic import refusal_of_quadratic
from solvers.problem import Problem, Vector

_LEAST = 1e-290  # of the radius: a coordinate that rounding made 0 would stay 0 for ever


@dataclass(frozen=True, slots=True)
class NegativeEntropy:
    """w(x) = rho sum of x_i ln x_i on the simplex of radius rho: 1-strongly convex in the l1 norm (Pinsker).

    B_w(u, x) = rho sum of u_i ln(u_i / x_i), at most rho^2 ln d from the start, the middle of the simplex. r may be
    none or lambda ||.||_1, which is constant there. Proofs: docs/proofs/potentials.md.

    Reference: Kivinen and Warmuth 1997 (exponentiated gradient); Beck and Teboulle 2003.
    """

    __pydantic_config__: ClassVar = {"extra": "forbid", "strict": True, "allow_inf_nan": False}

    name: Literal["negative_entropy"] = "negative_entropy"

    def refusal(self, problem: Problem) -> str | None:
        """Which assumption fails on this problem; None if it is covered."""
        if not isinstance(problem.domain, Simplex):
            return "it is strongly convex on the simplex, and the domain is another"
        return refusal_of_quadratic(problem)

    def smoothness(self, problem: Problem) -> float:
        """L of F in l1: |<x, u>| <= max |x_j| ||u||_1, and max |x_j| <= ||x||_2 <= R."""
        return problem.L

    def noise_norm(self, problem: Problem) -> float:
        """A bound on E max b_j^2, b ~ N(0, I): 2 (1 + ln d)."""
        return 2 * (1 + math.log(problem.size))

    def bregman(self, problem: Problem, distance: float) -> float:  # noqa: ARG002
        """The largest B_w(u, start) over u in C: rho^2 ln d, at a vertex, however near they are in l2."""
        assert isinstance(problem.domain, Simplex)
        return problem.domain.radius**2 * math.log(problem.size)

    def mirror(self, problem: Problem, z: Vector, g: Vector, step: float) -> Vector:
        """argmin over u in C of B_w(u, z) + step (<g, u> + r(u)): u_i proportional to z_i exp(-step g_i / rho)."""
        assert isinstance(problem.domain, Simplex)
        radius = problem.domain.radius
        logs = np.log(np.maximum(z, _LEAST * radius)) - g * (step / radius)
        u: Vector = np.exp(logs - logs.max())
        u *= radius / u.sum()
        return u

    def descend(self, problem: Problem, x: Vector, g: Vector, step: float, ahead: Vector) -> Vector:  # noqa: ARG002
        """A point of C where ||u - x||_1^2 / 2 + step (<g, u> + r(u)) is no higher than at `ahead`: `ahead` itself."""
        return ahead
