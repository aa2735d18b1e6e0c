"""How much one proximal gradient step contracts, from public facts."""

from solvers.errors import Unsuitable
from solvers.problem import Problem

_ROUNDING = 1e-9  # granted to eta L <= 2: more than L's own rounding and that of the rows' norms


def contraction(problem: Problem, step: float) -> float:
    """c = 1 / (1 + eta mu), rounded up: a Lipschitz constant of w -> prox_(eta r, C)(w) - eta grad F(prox..(w)).

    For f convex and L-smooth and eta <= 2/L, the gradient step is 1-Lipschitz; the prox, r being mu-strongly convex, is
    1 / (1 + eta mu)-Lipschitz. Proof: docs/proofs/last_iterate.md.

    Raises
    ------
    Unsuitable
        if f is not convex, or eta exceeds 2/L.
    """
    if not problem.is_convex or not step * problem.L <= 2 * (1 - _ROUNDING):
        raise Unsuitable("a step contracts where the loss is convex and smooth and the step is below 2/L")
    return min(1.0, 1 / (1 + step * problem.mu) * (1 + 1e-15))
