"""The Renyi divergence of Laplace noise in one coordinate that moves by epsilon scales: docs/proofs/laplace.md."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from accounting.divergences import randomized_response

_ROUNDING = 1 + 1e-9  # more than the error of the curve in floats
_TINY = 1e-3  # below this a epsilon, the curve's own formula loses digits; randomized response is then as good a bound


def renyi(epsilon: float, orders: Sequence[float]) -> NDArray[np.float64]:
    """rho(a) = ln(a/(2a-1) e^((a-1) epsilon) + (a-1)/(2a-1) e^(-a epsilon)) / (a-1), each a > 1."""
    a = np.asarray(orders, dtype=float)
    up, down = (a - 1) * epsilon, -a * epsilon
    w, v = a / (2 * a - 1), (a - 1) / (2 * a - 1)  # the mean of up and down is 0: taken out, it costs no digits
    clipped_up, clipped_down = np.minimum(up, 1.0), np.maximum(down, -1e3)
    near = np.log1p(w * (np.expm1(clipped_up) - clipped_up) + v * (np.expm1(clipped_down) - clipped_down))
    far = np.logaddexp(np.log(w) + up, np.log(v) + down)
    exact = np.where((up <= 1) & (down >= -1e3), near, far) / (a - 1) * _ROUNDING
    return np.where(-down < _TINY, np.inf, exact).clip(max=randomized_response.renyi(epsilon, orders))
