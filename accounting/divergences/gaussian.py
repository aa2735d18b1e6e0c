"""The exact privacy profile of the Gaussian mechanism, and the conversion from Renyi curves.

delta(epsilon) = Phi(mu/2 - epsilon/mu) - e^epsilon Phi(-mu/2 - epsilon/mu)   (Balle and Wang 2018; Dong, Roth, Su 2022)
"""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr

from accounting.divergences.roots import root

# The root is found within this relative distance of the root; results are moved to the safe side by more than that and
# than the cancellation in delta(epsilon); the two differ so that gauss_epsilon(gauss_mu(e, d), d) <= e.
_ROOT, _LEAST_ROOT = 1e-12, 1e-18
_SAFE_MU = 3e-9
_SAFE_EPSILON = 1e-9
_NO_PRIVACY = 1e6  # beyond this mu, epsilon is said to be infinite
# Below these, cancellation would eat the margin. A smaller mu costs no more than this; no smaller delta is promised.
_LEAST_MU, _LEAST_DELTA = 1e-5, 1e-12


def gauss_delta(mu: float, epsilon: float) -> float:
    """The least delta at which N(0, 1) against N(mu, 1) is (epsilon, delta)-indistinguishable."""
    if mu == 0:
        return 0.0
    log_a = float(log_ndtr(mu / 2 - epsilon / mu))
    log_b = float(log_ndtr(-mu / 2 - epsilon / mu)) + epsilon
    return math.exp(log_a) * -math.expm1(min(log_b - log_a, 0.0))


def gauss_mu(epsilon: float, delta: float) -> float:
    """The largest mu whose Gaussian mechanism is (epsilon, delta)-DP, rounded down; delta in (0, 1)."""
    low, high = 1e-12, 1.0
    while gauss_delta(high, epsilon) < delta:
        high *= 2
    found = root(lambda mu: gauss_delta(mu, epsilon) - delta, low, high, absolute=_LEAST_ROOT, relative=_ROOT)
    return found * (1 - _SAFE_MU)


def gauss_epsilon(mu: float, delta: float) -> float:
    """The least epsilon >= 0 at which mu-GDP is (epsilon, delta)-DP, rounded up."""
    if mu > _NO_PRIVACY or delta < _LEAST_DELTA:
        return math.inf
    mu = max(mu, _LEAST_MU)
    if gauss_delta(mu, 0.0) <= delta:
        return 0.0
    high = mu * mu / 2 + 40 * mu + 1e-9
    while gauss_delta(mu, high) > delta:
        high *= 2
    found = root(lambda epsilon: gauss_delta(mu, epsilon) - delta, 0.0, high, absolute=_LEAST_ROOT, relative=_ROOT)
    return found * (1 + _SAFE_EPSILON)


def rdp_epsilons(orders: Sequence[float], rho: NDArray[np.float64], delta: float) -> NDArray[np.float64]:
    """epsilon(a) = rho(a) + ln(1 - 1/a) - ln(a delta) / (a - 1): what each order alone guarantees at delta.

    Reference: Canonne, Kamath, Steinke 2020, Proposition 12. Orders > 1.
    """
    a = np.asarray(orders, dtype=float)
    return np.asarray(rho + np.log1p(-1 / a) - np.log(a * delta) / (a - 1))
