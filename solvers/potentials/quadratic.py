"""The condition of the l1 potentials on the regularizer."""

from solvers.problem import Problem


def refusal_of_quadratic(problem: Problem) -> str | None:
    """Return why r is not covered; None if it has no quadratic part, so that mirror steps have a closed form."""
    if problem.mu > 0:
        return "its steps have no closed form with a quadratic regularizer. Use none or l1"
    return None
