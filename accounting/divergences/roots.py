"""Roots of functions of one number.

SciPy's `brentq` does the same, but importing it takes a fifth of a CPU second, and every price needs a root. It is the
reference in the tests, and mechanisms that few plans use call it here.
"""

import math
from collections.abc import Callable
from typing import Any


def root(
    f: Callable[[float], float], low: float, high: float, *, absolute: float = 0.0, relative: float = 0.0
) -> float:
    """Return a point within absolute + relative |x| of an x between the ends at which f changes its sign.

    Reference: Chandrupatla 1997: inverse quadratic interpolation if three values allow it, otherwise bisection.

    Raises
    ------
    ValueError
        if f has one sign at both ends, or is NaN.
    """
    a = low
    fa = f(low)
    b = high
    fb = f(high)
    if not min(fa, fb) <= 0 <= max(fa, fb):
        raise ValueError("f must have values of different signs at low and high")
    share = 0.5
    while True:
        if 0 in (fa, fb):
            return a if fa == 0 else b
        nearest = a if abs(fa) < abs(fb) else b
        margin = max((absolute + relative * abs(nearest)) / 2, math.ulp(nearest)) / abs(b - a)
        if margin > 0.5:
            return nearest
        x = a + min(max(share, margin), 1 - margin) * (b - a)
        fx = f(x)
        if math.isnan(fx):
            raise ValueError("f is NaN inside the bracket")
        if (fx > 0) == (fa > 0):
            c, fc = a, fa
        else:
            c, fc, b, fb = b, fb, a, fa
        a, fa = x, fx
        xi, phi = (a - b) / (c - b), (fa - fb) / (fc - fb)
        share = 0.5
        if phi * phi < xi and (1 - phi) ** 2 < 1 - xi:
            share = fa / (fb - fa) * fc / (fb - fc) + (c - a) / (b - a) * fa / (fc - fa) * fb / (fc - fb)


def brent(f: Callable[[float], float], low: float, high: float, **tolerances: Any) -> float:
    """Return the root of SciPy's `brentq`, with its keywords xtol and rtol."""
    from scipy.optimize import brentq  # late: few plans need it, and it is slow to load

    return float(brentq(f, low, high, **tolerances))
