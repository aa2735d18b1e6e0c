"""The normal law: Phi(b) - Phi(a) without loss in the tails; the Gaussian profile to fifty digits."""

import mpmath
import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

Vector = NDArray[np.float64]


def between(a: Vector, b: Vector) -> Vector:
    """Phi(b) - Phi(a) for a <= b, to a few units in the last place on either side of zero."""
    right = a > 0
    return np.asarray(ndtr(np.where(right, -a, b)) - ndtr(np.where(right, -b, a)))


def gaussian_delta(mu: float, epsilon: float) -> mpmath.mpf:
    """delta(epsilon) = Phi(mu/2 - epsilon/mu) - e^epsilon Phi(-mu/2 - epsilon/mu)."""
    with mpmath.workdps(50):
        mu, epsilon = mpmath.mpf(mu), mpmath.mpf(epsilon)
        return mpmath.ncdf(mu / 2 - epsilon / mu) - mpmath.exp(epsilon) * mpmath.ncdf(-mu / 2 - epsilon / mu)


def gaussian_shift(epsilon: float, delta: float) -> float:
    """The mu whose profile is delta at epsilon."""
    low, high = mpmath.mpf(1) / 1000, mpmath.mpf(100)
    with mpmath.workdps(50):
        for _ in range(120):  # 2^-120 of the interval is below any double
            middle = (low + high) / 2
            low, high = (middle, high) if gaussian_delta(middle, epsilon) < delta else (low, middle)
    return float(low)
