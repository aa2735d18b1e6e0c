"""Contraction, reach and bound of a step that stays hidden, rounding included: docs/proofs/last_iterate.md."""

from solvers.bounds import FARTHEST, UNIT, gradient_error
from solvers.domains import L1Ball, Simplex
from solvers.errors import Unsuitable
from solvers.problem import Problem

_ROUNDING = 1e-9  # granted to eta L <= 2: more than L's own rounding and that of the rows' norms
_ROOM = 4.0  # how many times farther than any minimizer hidden steps may go before they are pulled back


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


def step_bound(problem: Problem, step: float) -> float:
    """b, how far a record that becomes null moves a step from the same y, the rounding of both runs included."""
    limit = reach(problem, step)
    # The distance to the exact map, margins included: steps from different points are compared through it.
    gradient = step * (problem.G / problem.n + 2 * gradient_error(problem, problem.n, limit))
    own = (problem.size + 24) * UNIT * (limit + step * problem.G)
    if isinstance(problem.domain, L1Ball | Simplex):
        own += 16 * (problem.size + 8) ** 1.5 * UNIT * problem.domain.diameter(problem.size)
    return (gradient + 2 * own) * (1 + 1e-12)


def reach(problem: Problem, step: float) -> float:
    """B, a bound on ||w|| in the steps, beyond every minimizer: over C, which holds 0, those have norm G / mu."""
    farthest = problem.domain.diameter(problem.size)
    if not problem.start.any() and problem.mu > 0:
        farthest = min(farthest, problem.G / problem.mu)
    limit = _ROOM * (farthest + step * problem.G)
    if not limit <= FARTHEST:
        raise Unsuitable("hidden steps: the l2 is too weak: points could leave the range of floats")
    return limit
