"""How long to descend, from public facts alone."""

import math

from accounting.accountants.gaussian import gauss_mu
from accounting.privacy import Privacy
from solvers.errors import NeedsDelta
from solvers.problem import Problem

_MARGIN = 5.0  # the optimum is looked for at ||w|| up to _MARGIN sqrt(d) sup|f'| / R where the domain says nothing
_COST = 0.35  # what one unit of time costs, per coordinate, in units of the squared noise of a single answer


def answers_std(problem: Problem, privacy: Privacy) -> float:
    """sigma_1 = 2 G / (n mu*), the noise std of a mean gradient that is asked for once; T answers take sigma_1 sqrt(T).

    Raises
    ------
    NeedsDelta
        at delta = 0, where Gaussian noise has no finite std.
    """
    if privacy.is_pure:
        raise NeedsDelta("delta = 0 needs a pure mechanism; this method adds Gaussian noise, which needs delta > 0")
    return 2 * problem.G / (problem.n * gauss_mu(privacy.epsilon, privacy.delta))


def distance(problem: Problem) -> float:
    """D, how far from the start the minimizer is looked for: half the domain's diameter, or the margin's if less."""
    margin = _MARGIN * math.sqrt(problem.d) * problem.loss.slope_bound / problem.row_norm
    return min(problem.domain.diameter(problem.d) / 2, margin)


def accelerated_steps(time: float, step: float, most: int) -> int:
    """T with step T (T + 3) / 4 = time: as far as T accelerated steps of that size go; in [1, most]."""
    return max(1, math.ceil(min(most, (math.sqrt(9 + 16 * time / step) - 3) / 2)))


def accelerated_step(time: float, steps: int) -> float:
    """The step with step T (T + 3) / 4 = time."""
    return 4 * time / (steps * (steps + 3))


def descent_time(problem: Problem, privacy: Privacy, cost: float = _COST) -> float:
    """s = argmin D^2 / (2 s) + cost d sigma_1^2 s = D / (sigma_1 sqrt(2 cost d)): gradient flow's bound and noise.

    s is a sum of step sizes. Its noise does not depend on how many steps it is cut into, since T answers take a std of
    sigma_1 sqrt(T) each. D is `distance`; on a free domain this makes s = 3 n mu* / R^2. A strongly convex r forgets
    exponentially: its own bound, D^2 mu / (2 (e^(mu s) - 1)), comes as far within ln(1 + mu s) / mu.

    The two constants were chosen once, on real data of four kinds; docs/proofs/dp_gd.md has the numbers.
    """
    time = distance(problem) / (answers_std(problem, privacy) * math.sqrt(2 * cost * problem.d))
    forgotten = problem.mu * time
    if forgotten <= 1e-9:  # the same to nine digits, and a strength too small to divide by is none
        return time
    return math.log1p(forgotten) / problem.mu
