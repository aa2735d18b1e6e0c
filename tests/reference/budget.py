"""Reference computation of the jobs that a budget of Renyi divergences admits."""

from fractions import Fraction

import mpmath


def renyi_budget(epsilon: float, delta: float, order: float, weight: float) -> float:
    """D_a <= epsilon - ln(1 - 1/a) + ln(a weight delta) / (a-1) gives (epsilon, weight delta)."""
    with mpmath.workdps(50):
        a, share = mpmath.mpf(order), mpmath.mpf(weight) * mpmath.mpf(delta)
        return float(mpmath.mpf(epsilon) - mpmath.log(1 - 1 / a) + mpmath.log(a * share) / (a - 1))


def uses(cost: float, budget: float) -> int:
    """The largest k with k * cost <= budget."""
    return int(Fraction(budget) / Fraction(cost))
