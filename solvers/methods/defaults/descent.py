"""How long to descend, from public facts alone."""

import math

import numpy as np

from accounting.divergences.gaussian import gauss_mu
from accounting.privacy import Privacy, sensitivity_factor
from solvers.methods.checks import check_delta
from solvers.problem import Problem

_MARGIN = 5.0  # the optimum is looked for at ||w|| up to _MARGIN sqrt(min(d, n)) sup|f'| / R where the domain is silent
_COST = 0.35  # what one unit of time costs, per direction, in units of the squared noise of a single answer
_BEARABLE = 0.25  # the share of the untrained model's loss that noise may cost


def budget_mu(problem: Problem, privacy: Privacy) -> float:
    """mu* as noise has it: 2 / z of one Gaussian answer at the whole budget; under zero_out twice the budget's own."""
    return gauss_mu(privacy.epsilon, privacy.delta) * 2 / sensitivity_factor(problem.relation)


def answers_std(problem: Problem, privacy: Privacy) -> float:
    """sigma_1 = 2 G / (n mu*), the noise std of a mean gradient that is asked for once; T answers take sigma_1 sqrt(T).

    Raises
    ------
    NeedsDelta
        at delta = 0, where Gaussian noise has no finite std.
    """
    check_delta("this method", privacy)
    return 2 * problem.G / (problem.n * budget_mu(problem, privacy))


def distance(problem: Problem) -> float:
    """D, how far from the start the minimizer is looked for: half the domain's diameter, or the margin's if less."""
    spanned = min(problem.size, problem.places * problem.outputs)
    margin = _MARGIN * math.sqrt(spanned) * problem.loss.slope_bound / problem.row_norm
    return min(problem.domain.diameter(problem.size) / 2, margin)


def at_stake(problem: Problem) -> float:
    """U, about what the untrained model can lose: G D, or f(0, y) on average over all targets if it is 0 and this less.

    Classes are -1 and 1; numbers lie in [-1, 1], here evenly.
    """
    if problem.start.any():
        return problem.G * distance(problem)
    y = problem.loss.targets(np.array([-1.0, 1.0]) if problem.loss.takes == "class" else np.linspace(-1.0, 1.0, 101))
    losses = problem.loss.value(np.zeros((*problem.shape[:-1], len(y))), y)
    return min(problem.G * distance(problem), float(np.mean(losses)))


def accelerated_steps(time: float, step: float, most: int) -> int:
    """T with step T (T + 3) / 4 = time: as far as T accelerated steps of that size go; in [1, most]."""
    return max(1, math.ceil(min(most, (math.sqrt(9 + 16 * time / step) - 3) / 2)))


def accelerated_step(time: float, steps: int) -> float:
    """The step with step T (T + 3) / 4 = time."""
    return 4 * time / (steps * (steps + 3))


def descent_time(problem: Problem, privacy: Privacy, cost: float = _COST) -> float:
    """s = argmin D^2 / (2 s) + cost sigma_1^2 s min(d, L s), but so short that 0.35 sigma_1^2 s min(d, L s) <= U / 4.

    s is a sum of step sizes. Its noise does not depend on how many steps it is cut into, since T answers take a std of
    sigma_1 sqrt(T) each. D^2 / (2 s) is what descent still misses after s, D being `distance`. Noise acts in d
    directions, in each for at most as long as curvature takes to forget it; the curvatures sum to at most L. So d
    counts where it is small beside n mu*, and L s where it is not. U is what is `at_stake`: a longer run risks more
    than it can win. A strongly convex r forgets exponentially: its own bound, D^2 mu / (2 (e^(mu s) - 1)), comes as far
    within ln(1 + mu s) / mu.

    On a free domain with d below n mu* / 25 this is s = 3 n mu* / R^2 for the logistic loss, and a quarter of it with d
    large. The constants were chosen once, on real data of four kinds and on rows without structure;
    docs/proofs/dp_gd.md has the reasons and the numbers.
    """
    variance, d, L = answers_std(problem, privacy) ** 2, problem.size, problem.L
    missed = distance(problem) ** 2 / 2
    time = math.sqrt(missed / (cost * d * variance))
    if L * time < d:
        time = min(math.cbrt(missed / (2 * cost * L * variance)), d / L)
    bearable = _BEARABLE * at_stake(problem) / (_COST * variance)
    time = min(time, max(bearable / d, math.sqrt(bearable / L)))
    forgotten = problem.mu * time
    if forgotten <= 1e-9:  # the same to nine digits, and a strength too small to divide by is none
        return time
    return math.log1p(forgotten) / problem.mu


def mirror_time(problem: Problem, privacy: Privacy, start: float, noise: float) -> float:
    """s = argmin B / s + 0.35 V sigma_1^2 s, with B = `start` >= B_w(w*, w_0) and V = `noise` >= E||N(0, I)||_*^2.

    For potentials whose domain is bounded in their norm: noise cannot carry a point out of it, so that no time is too
    long to bear. The proof has 4/3 for 0.35, as for d directions, and supposes rows with all their length in one
    coordinate; docs/proofs/potentials.md.
    """
    return math.sqrt(start / (_COST * noise)) / answers_std(problem, privacy)
