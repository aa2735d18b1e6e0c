"""The cost of Laplace noise in one coordinate that moves by epsilon scales, in Renyi divergence and mu.

Proofs: docs/proofs/laplace.md.
"""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr, ndtri_exp

from accounting.divergences import randomized_response

_ROUNDING = 1 + 1e-9  # more than the error of the formulas below in floats
_SMALLEST_EPSILON = 1e-5  # below it the formula of mu loses digits, and the slope at 0 bounds it as well
_SMALLEST_PRODUCT = 1e-3  # of a and epsilon: below it the formula loses digits, and randomized response bounds as well


def renyi(epsilon: float, orders: Sequence[float]) -> NDArray[np.float64]:
    """Return rho(a) = ln(a/(2a-1) e^((a-1) epsilon) + (a-1)/(2a-1) e^(-a epsilon)) / (a-1) at each a > 1."""
    a = np.asarray(orders, dtype=float)
    up, down = (a - 1) * epsilon, -a * epsilon
    w, v = a / (2 * a - 1), (a - 1) / (2 * a - 1)  # the mean of up and down is 0 and is taken out
    clipped_up = np.minimum(up, 1.0)
    clipped_down = np.maximum(down, -1e3)
    for_small = np.log1p(w * (np.expm1(clipped_up) - clipped_up) + v * (np.expm1(clipped_down) - clipped_down))
    for_large = np.logaddexp(np.log(w) + up, np.log(v) + down)
    exact = np.where((up <= 1) & (down >= -1e3), for_small, for_large) / (a - 1) * _ROUNDING
    return np.where(-down < _SMALLEST_PRODUCT, np.inf, exact).clip(max=randomized_response.renyi(epsilon, orders))


def gdp(epsilon: float) -> float:
    """Return mu = 2 Phi^-1(1 - e^(-epsilon / 2) / 2), for which the answer is mu-GDP, rounded up."""
    slope = epsilon * math.sqrt(math.pi / 2)  # never smaller
    if epsilon < _SMALLEST_EPSILON:
        return slope * _ROUNDING
    return min(slope, -2 * float(ndtri_exp(-epsilon / 2 - math.log(2)))) * _ROUNDING


def epsilon_of_gdp(mu: float) -> float:
    """Return the epsilon whose `gdp` is about mu: -2 ln(2 Phi(-mu / 2))."""
    if mu < 1:  # the logarithm of a number near 1 would lose the digits of a small mu
        return -2 * math.log1p(-math.erf(mu / math.sqrt(8)))
    return -2 * (float(log_ndtr(-mu / 2)) + math.log(2))
