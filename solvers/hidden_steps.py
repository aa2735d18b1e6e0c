"""Contraction, reach and bound of a hidden step, including rounding: docs/proofs/last_iterate.md."""

from solvers.bounds import FARTHEST, UNIT, gradient_error
from solvers.domains import L1Ball, Simplex
from solvers.errors import Unsuitable
from solvers.problem import Problem

_ROUNDING = 1e-9  # margin in eta L <= 2: more than the rounding of L and of the rows' norms
_REACH_FACTOR = 4.0  # steps are pulled back if they are this many times farther than any minimizer


def contraction(problem: Problem, step: float) -> float:
    """Return c = 1 / (1 + eta mu), rounded up: a Lipschitz constant of w -> prox_(eta r, C)(w) - eta grad F(prox..(w)).

    For f convex and L-smooth and eta <= 2/L, the gradient step is 1-Lipschitz; the prox, r being mu-strongly convex, is
    1 / (1 + eta mu)-Lipschitz. Proof: docs/proofs/last_iterate.md.

    Raises
    ------
    Unsuitable
        if f is not convex, or eta is not in (0, 2/L]; a step backwards does not contract
    """
    if not problem.is_convex or not 0 < step * problem.L <= 2 * (1 - _ROUNDING):
        raise Unsuitable("step: hidden steps must contract. Use a convex and smooth loss and a positive step below 2/L")
    return min(1.0, 1 / (1 + step * problem.mu) * (1 + 1e-15))


def step_bound(problem: Problem, step: float) -> float:
    """Return b, how far a record that becomes null moves a step from the same y, including both roundings."""
    limit = reach(problem, step)
    # The error relative to the exact map, because steps from different points are compared through it.
    gradient = step * (problem.G / problem.n + 2 * gradient_error(problem, problem.n, limit))
    own = (problem.size + 24) * UNIT * (limit + step * problem.G)
    if isinstance(problem.domain, L1Ball | Simplex):
        own += 16 * (problem.size + 8) ** 1.5 * UNIT * problem.domain.diameter(problem.size)
    return (gradient + 2 * own) * (1 + 1e-12)


def reach(problem: Problem, step: float) -> float:
    """Return B, a bound on ||w|| in the steps, larger than the norm of every minimizer.

    If C contains 0, minimizers have at most the norm G / mu.
    """
    farthest = problem.domain.diameter(problem.size)
    if not problem.start.any() and problem.mu > 0:
        farthest = min(farthest, problem.G / problem.mu)
    limit = _REACH_FACTOR * (farthest + step * problem.G)
    if not limit <= FARTHEST:
        raise Unsuitable(
            "regularizer: l2 is too weak for hidden steps, whose points could overflow. Use a larger strength"
        )
    return limit
