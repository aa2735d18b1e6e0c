"""Checks of settings that several methods share."""

from accounting.privacy import Privacy
from solvers.errors import NeedsDelta, Unsuitable
from solvers.problem import Problem


def check_loss(method: str, problem: Problem, *, convex: bool = False) -> None:
    """Raise `Unsuitable` unless the loss is smooth and, if `convex`, convex."""
    loss = problem.loss
    if not problem.is_smooth:
        instead = {"class": "huber_hinge", "number": "huber, or quantile or power with smoothing above 0"}[loss.takes]
        raise Unsuitable(
            f"{method} needs a smooth loss, and {loss.name} with these settings is not smooth. Use {instead}, or the "
            "method noisy_mirror_descent"
        )
    if convex:
        check_convex(method, problem)


def not_convex(problem: Problem) -> str:
    """Return the beginning of the sentence that a loss is not convex."""
    limited = "" if problem.slope_limit == 1 else " of limited slopes"
    return f"{problem.loss.name}{limited} is not"


def check_scalar(method: str, problem: Problem) -> None:
    """Raise `Unsuitable` unless a record has one margin."""
    if problem.outputs > 1:
        raise Unsuitable(
            f"{method} needs a loss with one margin; {problem.loss.name} has one for each class. Use dp_gd"
        )


def check_smooth(name: str, step: float, problem: Problem) -> None:
    """Raise `Unsuitable` if the step is longer than the smoothness of F allows."""
    if step * problem.L > 1 + 1e-12:
        raise Unsuitable(f"{name} must not exceed 1/L = {1 / problem.L:.6g} here, because longer steps may diverge")


def check_convex(method: str, problem: Problem) -> None:
    """Raise `Unsuitable` unless the loss is convex."""
    if not problem.is_convex:
        raise Unsuitable(f"{method} needs a convex loss; {not_convex(problem)}. Use dp_gd")


def check_delta(method: str, privacy: Privacy) -> None:
    """Raise `NeedsDelta` at delta = 0, where Gaussian noise has no finite std."""
    if privacy.is_pure:
        raise NeedsDelta(f"{method} adds Gaussian noise. Request delta > 0, or use output_perturbation or localization")
