"""How long to descend, from public facts alone."""

import math

import numpy as np

from accounting.accountants.gaussian import gauss_mu
from accounting.privacy import Privacy
from solvers.errors import Unsuitable
from solvers.problem import Problem

_MARGIN = 5.0  # the optimum is looked for at ||w|| up to _MARGIN sqrt(min(d, n)) sup|f'| / R where the domain is silent
_COST = 0.35  # what one unit of time costs, per direction, in units of the squared noise of a single answer
_BEARABLE = 0.25  # the share of the untrained model's largest loss that noise may cost


def answers_std(problem: Problem, privacy: Privacy) -> float:
    """sigma_1 = 2 G / (n mu*), the noise std of a mean gradient that is asked for once; T answers take sigma_1 sqrt(T).

    Raises
    ------
    Unsuitable
        at delta = 0, where Gaussian noise has no finite std.
    """
    if privacy.is_pure:
        raise Unsuitable("delta = 0 needs a pure mechanism; this method adds Gaussian noise, which needs delta > 0")
    return 2 * problem.G / (problem.n * gauss_mu(privacy.epsilon, privacy.delta))


def distance(problem: Problem) -> float:
    """D, how far from the start the minimizer is looked for: half the domain's diameter, or the margin's if less."""
    margin = _MARGIN * math.sqrt(min(problem.d, problem.n)) * problem.loss.slope_bound / problem.row_norm
    return min(problem.domain.diameter(problem.d) / 2, margin)


def untrained(problem: Problem, reach: float) -> float:
    """The most that F can be at the start above its least value within `reach`: G reach, or at 0 the largest f(0, y).

    The losses are >= 0; targets lie in [-1, 1].
    """
    slope = problem.G * reach
    if problem.start.any():
        return slope
    return min(slope, float(np.max(problem.loss.value(np.zeros(2), np.array([-1.0, 1.0])))))


def accelerated_steps(time: float, step: float, most: int) -> int:
    """T with step T (T + 3) / 4 = time: as far as T accelerated steps of that size go; in [1, most]."""
    return max(1, math.ceil(min(most, (math.sqrt(9 + 16 * time / step) - 3) / 2)))


def accelerated_step(time: float, steps: int) -> float:
    """The step with step T (T + 3) / 4 = time."""
    return 4 * time / (steps * (steps + 3))


def descent_time(
    problem: Problem, privacy: Privacy, cost: float = _COST, start: float | None = None, noise: float | None = None
) -> float:
    """s = argmin B / s + cost sigma_1^2 s min(V, L s), but so short that 0.35 sigma_1^2 s min(V, L s) <= U / 4.

    s is a sum of step sizes. Its noise does not depend on how many steps it is cut into, since T answers take a std of
    sigma_1 sqrt(T) each. B / s is what descent still misses after s. Noise acts in V directions, in each at most as
    long as curvature takes to forget it; curvatures sum to at most L. So V is all that counts where d is small beside
    n mu*, and L s where it is not. U is the most an untrained model can lose: a longer run risks more than it can win.
    A strongly convex r forgets exponentially: D^2 mu / (2 (e^(mu s) - 1)) comes as far within ln(1 + mu s) / mu.

    On a free domain, logistic, small d, this is s = 3 n mu* / R^2. The three constants were chosen once, on real data
    of four kinds and on rows without structure; docs/proofs/dp_gd.md has the reasons and the numbers.

    Parameters
    ----------
    cost : per direction
    start, noise : B and V; by default D^2 / 2, with `distance`, and d
    """
    variance, V = answers_std(problem, privacy) ** 2, problem.d if noise is None else noise
    B = distance(problem) ** 2 / 2 if start is None else start
    time = math.sqrt(B / (cost * V * variance))
    if problem.L * time < V:
        time = min(math.cbrt(B / (2 * cost * problem.L * variance)), V / problem.L)
    bearable = _BEARABLE * untrained(problem, distance(problem)) / (_COST * variance)
    time = min(time, max(bearable / V, math.sqrt(bearable / problem.L)))
    forgotten = problem.mu * time
    if forgotten <= 1e-9:  # the same to nine digits, and a strength too small to divide by is none
        return time
    return math.log1p(forgotten) / problem.mu
