"""The delta that an adversary reaches against filter `gdp_rdp`, and the mu^2 that no proof can leave to Gaussian jobs.

The adversary first runs a job that reveals everything with a probability of the whole slack. Then it runs short
Gaussian jobs and watches the sum of losses. It may stop them at any time to run one job with two outcomes, which uses
up what an order has left and need not be Gaussian-DP:

    p = (e^((a-1) r) - 1) / (e^((a-1) g) - 1),   q = p e^-g,   p^a q^(1-a) + (1-p)^a (1-q)^(1-a) <= e^((a-1) r),

for any loss g > r, where r is the remainder of the order a. Otherwise the Gaussian jobs go on up to the threshold of
mu^2. The best time to stop is found backwards on a grid of losses.
"""

import numpy as np
from numpy.typing import NDArray

from accounting import Privacy
from accounting.charges import UNIT
from accounting.divergences.gaussian import gauss_deltas, gauss_mu
from accounting.divergences.roots import root
from accounting.filter import Filter

Vector = NDArray[np.float64]

BUDGETS = tuple(Privacy(1.0, delta) for delta in (1e-9, 1e-6, 1e-5, 1e-3))
_STEPS, _CELLS = 60, 5  # Gaussian jobs until the last order is used up; cells of the grid for the deviation of a job
_REACH = 8  # of the grid, in deviations
_GAPS = np.geomspace(0.03, 30.0, 200)  # (a - 1) (g - r) of the jobs with two outcomes


def largest_delta(rule: Filter, square: float) -> float:
    """Return the adversary's P(S) - e^epsilon Q(S) if Gaussian jobs may use this mu^2 instead of the threshold's.

    Parameters
    ----------
    square : at least the mu^2 of Gaussian jobs that use up the last order
    """
    epsilon = rule.privacy.epsilon
    orders = [(a, top / UNIT) for a, top in zip(rule.orders, rule.thresholds[1:], strict=False)]
    used = max(2 * top / a for a, top in orders)
    time = used / _STEPS
    cell = float(np.sqrt(time)) / _CELLS
    start = int(_REACH * np.sqrt(square) / cell)
    cells = np.arange(-start, start + int(epsilon / cell) + 1, dtype=np.float64)
    x: Vector = cell * cells - epsilon  # the loss so far, less epsilon
    shifts = cell * np.arange(-_REACH * _CELLS, _REACH * _CELLS + 1)
    masses = np.exp(-((shifts - time / 2) ** 2) / (2 * time))
    above = x[-1] + shifts[shifts > 0]
    value = gauss_deltas(float(np.sqrt(square - used)), -x)
    for step in reversed(range(_STEPS)):
        padded = np.concatenate([np.zeros(len(above)), value, -np.expm1(-above)])
        value = np.convolve(padded, masses[::-1] / masses.sum(), "valid")
        for a, top in orders:
            value = np.maximum(value, _two_outcomes(x, a, top - a * time * step / 2))
    return rule.slack + (1 - rule.slack) * float(value[start])


def _two_outcomes(x: Vector, a: float, remainder: float) -> Vector:
    """Return the largest E[(1 - e^-(x + loss))_+] of a job with two outcomes, or of none, for each x."""
    best = np.maximum(-np.expm1(-x), 0.0)
    if remainder > 0:
        for gap, p in zip(*jobs_of_two_outcomes(a, remainder), strict=True):
            best = np.maximum(best, p * -np.expm1(-x - gap))
    return best


def jobs_of_two_outcomes(a: float, remainder: float) -> tuple[Vector, Vector]:
    """Return the losses g and the probabilities p of jobs that use up the order, in both orders of neighbors."""
    gaps = remainder + _GAPS / (a - 1)
    p = np.expm1((a - 1) * remainder) / np.expm1((a - 1) * gaps)
    q = p * np.exp(-gaps)
    reverse = np.logaddexp(a * np.log(q) + (1 - a) * np.log(p), a * np.log1p(-q) + (1 - a) * np.log1p(-p))
    is_within = reverse <= (a - 1) * remainder
    return gaps[is_within], p[is_within]


def most_kept(rule: Filter) -> float:
    """Return the share of mu*(epsilon, delta)^2 with which Gaussian jobs would give the adversary all of delta."""
    most = gauss_mu(rule.privacy.epsilon, rule.privacy.delta) ** 2
    return root(lambda share: largest_delta(rule, share * most) - rule.privacy.delta, 0.9, 1.0, absolute=1e-4)


def report() -> None:
    """Print the table."""
    print("\nmu^2 of Gaussian jobs under gdp_rdp over mu*(epsilon, delta)^2, and what an adversary reaches of delta")
    print("epsilon  delta   certified  reached  at most  ratio")
    for budget in BUDGETS:
        rule = Filter.open("gdp_rdp", budget)
        square, most = rule.thresholds[0] / UNIT, gauss_mu(budget.epsilon, budget.delta) ** 2
        reached, limit = largest_delta(rule, square) / budget.delta, most_kept(rule)
        print(
            f"{budget.epsilon:7g}  {budget.delta:<7g} {square / most:9.3f} {reached:8.3f} {limit:8.3f}"
            f" {limit * most / square:6.3f}"
        )
