"""The exact privacy profile of the Gaussian mechanism, and the conversion from Renyi curves.

delta(epsilon) = Phi(mu/2 - epsilon/mu) - e^epsilon Phi(-mu/2 - epsilon/mu)   (Balle and Wang 2018; Dong, Roth, Su 2022)
"""

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr

from accounting.divergences.roots import root

# Tolerances of a root. Results are moved to the safe side by more than these and than the cancellation in
# delta(epsilon). The two margins differ, so that gauss_epsilon(gauss_mu(e, d), d) <= e.
_RELATIVE_TOLERANCE, _ABSOLUTE_TOLERANCE = 1e-12, 1e-18
_MU_MARGIN = 3e-9
_EPSILON_MARGIN = 1e-9
_CONVERSION_MARGIN = 1e-12  # more than a sum of at most 64 curves and its conversion can lose
_COVER_MARGIN = 1e-7  # of a cover, relatively, for the error of its root times its exponent
# Beyond these a cover counts as 0: it is below 1e-10, or floats do not resolve it.
_LARGEST_COVER_EXPONENT, _LARGEST_COVERING_ORDER = 50.0, 1e6
_CANCELLATION_MARGIN = 1e-12  # more than the error of log_b - log_a below, both at most 2,000 in absolute value
LARGEST_MU = 1e6  # epsilon is infinite beyond it
# Below these, cancellation exceeds the margin. A smaller mu costs no more than this; a smaller delta is not guaranteed.
SMALLEST_MU, SMALLEST_DELTA = 1e-5, 1e-12


def gauss_delta(mu: float, epsilon: float) -> float:
    """Return the smallest delta at which N(0, 1) and N(mu, 1) are (epsilon, delta)-indistinguishable."""
    if mu == 0:
        return 0.0
    log_a = float(log_ndtr(mu / 2 - epsilon / mu))
    log_b = float(log_ndtr(-mu / 2 - epsilon / mu)) + epsilon
    return math.exp(log_a) * -math.expm1(min(log_b - log_a, 0.0))


def gauss_deltas(mu: float | NDArray[np.float64], epsilons: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return that delta at each epsilon, which may be negative, rounded up; mu >= `SMALLEST_MU`, broadcast."""
    log_a = np.asarray(log_ndtr(mu / 2 - epsilons / mu))
    log_b = np.asarray(log_ndtr(-mu / 2 - epsilons / mu)) + epsilons
    return np.asarray(np.exp(log_a) * (_CANCELLATION_MARGIN - np.expm1(np.minimum(log_b - log_a, 0.0))))


def gauss_mu(epsilon: float, delta: float) -> float:
    """Return the largest mu whose Gaussian mechanism is (epsilon, delta)-DP, rounded down; delta in (0, 1)."""
    low, high = 1e-12, 1.0
    while gauss_delta(high, epsilon) < delta:
        high *= 2
    return _root(lambda mu: gauss_delta(mu, epsilon) - delta, low, high) * (1 - _MU_MARGIN)


def largest_shared_mu(epsilon: float, delta: float, total: float, counted: Callable[[float], float]) -> float:
    """Return the largest mu, rounded down, with delta(mu) <= `total` and counted(mu) delta(mu) <= `delta`.

    Parameters
    ----------
    counted : the share in [0, 1] of delta(mu) that counts; it grows with mu
    """
    low = gauss_mu(epsilon, delta)
    high = gauss_mu(epsilon, total)

    def excess(mu: float) -> float:
        return gauss_delta(mu, epsilon) * counted(mu) - delta

    return high if excess(high) <= 0 else _root(excess, low, high) * (1 - _MU_MARGIN)


def order_cover(order: float, time: float) -> float:
    """Return C / sup over x of V(x) e^(-(a-1) x), rounded down, for the order a > 1.

    V(x) = Phi(x/m + m/2) - e^-x Phi(x/m - m/2), with m^2 = `time`, is the value of E[(1 - e^-(x + loss))_+] for the
    loss of N(0, 1) against N(m, 1), and C is the supremum at m = 0. Proof: docs/proofs/filter.md.
    """
    if order > _LARGEST_COVERING_ORDER or order * (order - 1) * time > _LARGEST_COVER_EXPONENT:
        return 0.0
    if time <= 0:
        return 1.0
    m = math.sqrt(time)
    tangent = -math.log1p(-1 / order)

    def slope(x: float) -> float:
        """Return a value with the sign of the slope of V(x) e^(-(a-1) x). It falls from positive to negative."""
        return tangent - x + float(log_ndtr(x / m - m / 2)) - float(log_ndtr(x / m + m / 2))

    low = -order * time
    while slope(low) <= 0:
        low *= 2
    x = _root(slope, low, 2 * tangent)
    return math.exp((order - 1) * (x - tangent) - float(log_ndtr(x / m + m / 2))) * (1 - _COVER_MARGIN)


def gauss_epsilon(mu: float, delta: float) -> float:
    """Return the smallest epsilon >= 0 at which mu-GDP is (epsilon, delta)-DP, rounded up."""
    if mu > LARGEST_MU or delta < SMALLEST_DELTA:
        return math.inf
    mu = max(mu, SMALLEST_MU)
    if gauss_delta(mu, 0.0) <= delta:
        return 0.0
    high = mu * mu / 2 + 40 * mu + 1e-9
    while gauss_delta(mu, high) > delta:
        high *= 2
    return _root(lambda epsilon: gauss_delta(mu, epsilon) - delta, 0.0, high) * (1 + _EPSILON_MARGIN)


def _root(f: Callable[[float], float], low: float, high: float) -> float:
    return root(f, low, high, absolute=_ABSOLUTE_TOLERANCE, relative=_RELATIVE_TOLERANCE)


def rdp_epsilons(orders: Sequence[float], rho: NDArray[np.float64], delta: float) -> NDArray[np.float64]:
    """Return epsilon(a) = rho(a) + ln(1 - 1/a) - ln(a delta) / (a - 1), the guarantee of each order alone at delta.

    Reference: Canonne, Kamath, Steinke 2020, Proposition 12. Orders > 1.
    """
    a = np.asarray(orders, dtype=float)
    return np.asarray(rho + np.log1p(-1 / a) - np.log(a * delta) / (a - 1))


def rdp_epsilon(orders: Sequence[float], rho: NDArray[np.float64], delta: float) -> float:
    """Return the smallest guarantee of all orders, at least 0 and rounded up; infinite if one of them is NaN."""
    epsilon = float(rdp_epsilons(orders, rho, delta).min())
    return math.inf if math.isnan(epsilon) else max(0.0, epsilon) * (1 + _CONVERSION_MARGIN)
