"""The Renyi divergence of Laplace noise in one coordinate that moves by epsilon scales: docs/proofs/laplace.md."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from accounting.divergences import randomized_response

_ROUNDING = 1 + 1e-9  # more than the error of the curve in floats
_SMALLEST_PRODUCT = 1e-3  # of a and epsilon: below it the formula loses digits, and randomized response bounds as well


def renyi(epsilon: float, orders: Sequence[float]) -> NDArray[np.float64]:
    """Return rho(a) = ln(a/(2a-1) e^((a-1) epsilon) + (a-1)/(2a-1) e^(-a epsilon)) / (a-1) at each a > 1."""
    a = np.asarray(orders, dtype=float)
    up, down = (a - 1) * epsilon, -a * epsilon
    w, v = a / (2 * a - 1), (a - 1) / (2 * a - 1)  # the mean of up and down is 0 and is taken out
    clipped_up, clipped_down = np.minimum(up, 1.0), np.maximum(down, -1e3)
    for_small = np.log1p(w * (np.expm1(clipped_up) - clipped_up) + v * (np.expm1(clipped_down) - clipped_down))
    for_large = np.logaddexp(np.log(w) + up, np.log(v) + down)
    exact = np.where((up <= 1) & (down >= -1e3), for_small, for_large) / (a - 1) * _ROUNDING
    return np.where(-down < _SMALLEST_PRODUCT, np.inf, exact).clip(max=randomized_response.renyi(epsilon, orders))
