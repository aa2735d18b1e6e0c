"""Default descent times: sums of step sizes, from public facts alone."""

import math

import numpy as np

from accounting.divergences.gaussian import gauss_mu
from accounting.privacy import Privacy, sensitivity_factor
from solvers.methods.checks import check_delta
from solvers.problem import Problem

_MARGIN = 5.0  # on a free domain, the minimizer is assumed at ||w|| <= _MARGIN sqrt(min(d, n)) sup|f'| / R
NOISE_COST = 0.35  # of one unit of time in one direction, in units of the squared noise of a single answer
_BEARABLE_SHARE = 0.25  # noise may cost this share of the untrained model's loss
_NEGLIGIBLE = 1e-9  # below it, ln(1 + x) is x to nine digits, and mu may be too small to divide by


def budget_mu(problem: Problem, privacy: Privacy) -> float:
    """Return mu*, which is 2 / z of one Gaussian answer at the whole budget; under zero_out, twice the budget's mu."""
    return gauss_mu(privacy.epsilon, privacy.delta) * 2 / sensitivity_factor(problem.relation)


def answers_std(problem: Problem, privacy: Privacy) -> float:
    """Return sigma_1 = 2 G / (n mu*), the noise std of a single mean gradient; each of T answers has sigma_1 sqrt(T).

    Raises
    ------
    NeedsDelta
        at delta = 0, where Gaussian noise has no finite std.
    """
    check_delta("this method", privacy)
    return 2 * problem.G / (problem.n * budget_mu(problem, privacy))


def distance(problem: Problem) -> float:
    """Return D, the assumed distance of the minimizer from the start: at most half the domain's diameter."""
    spanned = min(problem.size, problem.slots * problem.outputs)
    margin = _MARGIN * math.sqrt(spanned) * problem.loss.slope_bound / problem.row_norm
    return min(problem.domain.diameter(problem.size) / 2, margin)


def at_stake(problem: Problem) -> float:
    """Return U, an estimate of the untrained model's excess loss: at most G D.

    If the start is 0, U is at most the mean of f(0, y) over the targets: the classes -1 and 1, or numbers spread evenly
    over [-1, 1].
    """
    if problem.start.any():
        return problem.G * distance(problem)
    y = problem.loss.targets(np.array([-1.0, 1.0]) if problem.loss.takes == "class" else np.linspace(-1.0, 1.0, 101))
    losses = problem.loss.value(np.zeros((*problem.shape[:-1], len(y))), y)
    return min(problem.G * distance(problem), float(np.mean(losses)))


def accelerated_steps(time: float, step: float, largest: int) -> int:
    """Return T with step T (T + 3) / 4 = time, which is as far as T accelerated steps go; in [1, largest]."""
    return max(1, math.ceil(min(largest, (math.sqrt(9 + 16 * time / step) - 3) / 2)))


def accelerated_step(time: float, steps: int) -> float:
    """Return the step with step T (T + 3) / 4 = time."""
    return 4 * time / (steps * (steps + 3))


def descent_time(problem: Problem, privacy: Privacy, cost: float = NOISE_COST) -> float:
    """Return s, the sum of step sizes that balances the remaining distance against noise.

    s = argmin D^2 / (2 s) + cost sigma_1^2 s min(d, L s), but so short that 0.35 sigma_1^2 s min(d, L s) <= U / 4.

    D^2 / (2 s) is the excess after descent for s, with D from `distance`. The noise depends on s and not on the number
    of steps, because each of T answers has std sigma_1 sqrt(T). Noise acts in d directions, in each at most for as long
    as curvature takes to forget it, and the curvatures sum to at most L. So d counts if it is small compared with
    n mu*, and L s otherwise. U is the value of `at_stake`: a longer run risks more than it can gain. With a
    mu-strongly convex r, the bound D^2 mu / (2 (e^(mu s) - 1)) falls exponentially, so ln(1 + mu s) / mu is enough.

    For the logistic loss on a free domain with d below n mu* / 25, s = 3 n mu* / R^2; for large d, it is a quarter of
    that. The constants were chosen once, on real data of four kinds and on rows without structure.
    docs/proofs/dp_gd.md has the reasons and the numbers.
    """
    variance, d, L = answers_std(problem, privacy) ** 2, problem.size, problem.L
    gap = distance(problem) ** 2 / 2
    time = math.sqrt(gap / (cost * d * variance))
    if L * time < d:
        time = min(math.cbrt(gap / (2 * cost * L * variance)), d / L)
    bearable = _BEARABLE_SHARE * at_stake(problem) / (NOISE_COST * variance)
    time = min(time, max(bearable / d, math.sqrt(bearable / L)))
    decay = problem.mu * time
    return time if decay <= _NEGLIGIBLE else math.log1p(decay) / problem.mu


def mirror_time(problem: Problem, privacy: Privacy, start: float, noise: float) -> float:
    """Return s = argmin B / s + 0.35 V sigma_1^2 s, with B = `start` >= B_w(w*, w_0), V = `noise` >= E||N(0, I)||_*^2.

    This is for potentials whose domain is bounded in their norm. Noise cannot carry a point out of the domain, so no
    time is too long. The proof has 4/3 instead of 0.35, as for d directions, and assumes rows with all their length in
    one coordinate; docs/proofs/potentials.md.
    """
    return math.sqrt(start / (NOISE_COST * noise)) / answers_std(problem, privacy)
