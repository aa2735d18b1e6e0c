"""The cost of an epsilon-DP answer in other currencies: that of randomized response, which dominates every such answer.

    Renyi       rho(a) = ln(cosh((a - 1/2) epsilon) / cosh(epsilon / 2)) / (a - 1)
    Gaussian    mu     = 2 Phi^-1(e^epsilon / (1 + e^epsilon))

Proofs: docs/proofs/laplace.md. Reference: Kairouz, Oh and Viswanath 2015; Dong, Roth and Su 2022; docs/spec 9.
"""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr, ndtri_exp

_ROUNDING = 1 + 1e-9  # more than the error of the formulas below in floats
_SMALLEST_EPSILON = 1e-3  # below it the formula of mu loses digits, and the bound by the slope at 0 is as good


def renyi(epsilon: float, orders: Sequence[float]) -> NDArray[np.float64]:
    """Return the largest Renyi divergence of an epsilon-DP answer at each order a > 1; at most epsilon."""
    a = np.asarray(orders, dtype=float)
    if epsilon == math.inf:
        return np.full(a.shape, math.inf)
    # cosh(x) / cosh(y) = 1 + 2 sinh((x + y) / 2) sinh((x - y) / 2) / cosh(y) keeps the digits of a small epsilon
    is_small = np.minimum(a * epsilon, 1.0) == a * epsilon
    x = np.where(is_small, a, 1.0) * min(epsilon, 1.0)
    y = (np.where(is_small, a, 1.0) - 1) * min(epsilon, 1.0)
    for_small = np.log1p(2 * np.sinh(x / 2) * np.sinh(y / 2) / math.cosh(min(epsilon, 1.0) / 2))
    for_large = log_cosh((a - 0.5) * epsilon) - log_cosh(np.asarray(epsilon / 2))
    return np.asarray(np.minimum(np.where(is_small, for_small, for_large) / (a - 1) * _ROUNDING, epsilon))


def gdp(epsilon: float) -> float:
    """Return the mu for which every epsilon-DP answer is mu-GDP."""
    slope = epsilon * math.sqrt(math.pi / 2)  # never smaller
    if epsilon < _SMALLEST_EPSILON:
        return slope * _ROUNDING
    return min(slope, -2 * float(ndtri_exp(-np.logaddexp(0.0, epsilon)))) * _ROUNDING


def epsilon_of_gdp(mu: float) -> float:
    """Return the epsilon whose `gdp` is about mu: ln(Phi(mu/2) / Phi(-mu/2))."""
    if mu < 1:  # the difference of logarithms would lose the digits of a small mu
        return 2 * math.atanh(math.erf(mu / math.sqrt(8)))
    return float(log_ndtr(mu / 2) - log_ndtr(-mu / 2))


def log_cosh(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return ln cosh x without overflow."""
    return np.asarray(np.abs(x) + np.log1p(np.exp(-2 * np.abs(x))) - math.log(2))
