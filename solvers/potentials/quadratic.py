"""What the potentials of l1 geometry ask of the regularizer."""

from solvers.problem import Problem


def refusal_of_quadratic(problem: Problem) -> str | None:
    """Why r is not covered: a quadratic part leaves their mirror steps without a closed form. None if it has none."""
    if problem.mu > 0:
        return "its steps have no closed form beside a quadratic regularizer: take none or l1"
    return None
