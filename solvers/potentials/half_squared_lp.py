"""The potential of the l1 ball, w(x) = ||x||_p^2 / (2 (p - 1)) with p near 1."""

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from solvers.domains import L1Ball
from solvers.potentials.l1_potential import L1Potential
from solvers.problem import Problem, Vector
from solvers.regularizers import L1, ElasticNet

_HALVINGS = 60  # more than rounding can resolve, because the ratio of the bracket is at most e^2


@dataclass(frozen=True, slots=True)
class HalfSquaredLp(L1Potential):
    """Half the squared l_p norm, w(x) = ||x||_p^2 / (2 (p - 1)): 1-strongly convex in the l_p norm.

    1/p + 1/q = 1 with q = max(2, 1 + ln d). It is for the l1 ball of radius rho, where w <= rho^2 (q - 1) / 2, with
    r = 0 or r = lambda ||.||_1. Noise counts by its l_q norm, about ln d instead of d. The norm is l_p itself, so there
    is no loss from a comparison with l1.
    Proofs: docs/proofs/potentials.md.

    Reference: Ben-Tal, Margalit and Nemirovski 2001; Gentile 2003 (p-norms); Duchi et al. 2010 (with projection).
    """

    name: Literal["half_squared_lp"] = "half_squared_lp"

    def refusal(self, problem: Problem) -> str | None:
        """Return the assumption that fails on this problem, or None if it is covered."""
        if not isinstance(problem.domain, L1Ball):
            return "it needs an l1 ball as the domain, whose radius bounds distances"
        return self.refusal_of_quadratic(problem)

    def noise_norm(self, problem: Problem) -> float:
        """Return a bound on E ||b||_q^2 for b ~ N(0, I).

        It is (d E |b_1|^q)^(2/q), with E |b_1|^q = 2^(q/2) Gamma((q+1)/2) / sqrt(pi).
        """
        q = _dual_exponent(problem.size)
        moment = q / 2 * math.log(2) + math.lgamma((q + 1) / 2) - math.log(math.pi) / 2
        return math.exp(2 / q * (math.log(problem.size) + moment))

    def bregman(self, problem: Problem, distance: float) -> float:
        """Return a bound on B_w(u, 0) = w(u) for ||u||_1 <= rho and ||u||_2 <= distance.

        It uses ||u||_p <= d^(1/p - 1/2) ||u||_2.
        """
        assert isinstance(problem.domain, L1Ball)
        q = _dual_exponent(problem.size)
        norm = min(problem.domain.radius, math.pow(problem.size, 0.5 - 1 / q) * distance)
        return norm**2 * (q - 1) / 2

    def mirror(self, problem: Problem, z: Vector, g: Vector, step: float) -> Vector:
        """Return argmin over u in C of B_w(u, z) + step (<g, u> + r(u)), by 60 halvings of a bracket.

        With theta = grad w(z) - step g, u = grad w*(shrink(theta, s)), where s >= step lambda is the smallest number
        with ||u||_1 <= rho.
        """
        assert isinstance(problem.domain, L1Ball)
        q, r = _dual_exponent(problem.size), problem.regularizer
        dual = _gradient(z, q / (q - 1)) * (q - 1) - step * g
        sizes = np.abs(dual)
        largest = float(sizes.max())
        shrunk = step * (r.strength if isinstance(r, L1) else r.l1 if isinstance(r, ElasticNet) else 0.0)
        if largest <= shrunk:
            return np.zeros_like(z)
        below = sizes - largest  # relative to the top, for precision if s is near it
        # t = max |theta| - s; ||u||_1 >= ||u||_p = (p - 1) ||shrink(theta, s)||_q >= (p - 1) t.
        top = min(largest - shrunk, problem.domain.radius * (q - 1))
        t = _largest_reach(below[below > -top], top, q, problem.domain.radius)
        return np.sign(dual) * _gradient(np.maximum(below + t, 0.0), q) / (q - 1)


def _dual_exponent(d: int) -> float:
    """Return q = max(2, 1 + ln d), so that p - 1 = 1 / (q - 1) = 1 / ln d."""
    return max(2.0, 1 + math.log(d))


def _gradient(x: Vector, p: float) -> Vector:
    """Return the gradient of ||x||_p^2 / 2: sign(x) |x|^(p-1) ||x||_p^(2-p), without overflow."""
    sizes = np.abs(x)
    largest = float(sizes.max())
    if largest == 0:
        return np.zeros_like(x)
    sizes /= largest
    powers = sizes ** (p - 1)
    norm = float(powers @ sizes) ** (1 / p)
    gradient: Vector = np.sign(x) * powers * (largest * norm ** (2 - p))
    return gradient


def _largest_reach(below: Vector, top: float, q: float, radius: float) -> float:
    """Return the largest t <= top at which u of the dual max(below + t, 0) has ||u||_1 <= radius."""

    def fits(t: float) -> bool:
        return float(_gradient(np.maximum(below + t, 0.0), q).sum()) <= radius * (q - 1)

    if fits(top):
        return top
    low, high = 0.0, top
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if fits(middle):
            low = middle
        else:
            high = middle
    return low
