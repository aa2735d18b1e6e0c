"""e^x by additions and multiplications only, so that a loop can compute several values at once with the same bits.

Guarantee: exp is a function of x, bit for bit, on every machine and at every position of a loop, because each operation
is rounded by itself and there is no branch. The result is within 1 ulp of e^x for |x| <= 300, and e^(+-300) beyond; NaN
stays NaN. So no probability computed from it, nor its square, nor its product with a code (0, or at least 2^-300) is a
subnormal number. Subnormal numbers would slow the processor down, and the time would reveal something about a record.
5e-131 is below the rounding of every sum.

x = k ln 2 + r with k whole and |r| slightly above ln(2)/2 at most. Then e^x = 2^k e^r, by the Taylor sum up to r^13,
whose remainder is below .35^14 / 14! < 5e-18. ln 2 is a sum of two numbers. The first ends in 11 zero bits, so its
product with k is exact.
"""

import math

import numpy as np

from solvers.kernels.build import called

_LARGEST_EXPONENT = 300.0
_LOG2_E = 1.0 / math.log(2.0)
_LOG_2 = float.fromhex("0x1.62e42fee00000p-1")
_LOG_2_CORRECTION = float.fromhex("0x1.a39ef35793c76p-33")
_ROUNDING_SHIFT = 1.5 * 2.0**52 + 1023.0  # t + this is rounded to a whole number with k + 1023 in its last bits


@called
def exp(x: float) -> float:
    """Return e^x."""
    x = min(max(x, -_LARGEST_EXPONENT), _LARGEST_EXPONENT)  # `if` would compile to jumps, whose time depends on x
    t = x * _LOG2_E + _ROUNDING_SHIFT
    k = t - _ROUNDING_SHIFT
    r = (x - k * _LOG_2) - k * _LOG_2_CORRECTION
    p = 1 / 6227020800
    p = p * r + 1 / 479001600
    p = p * r + 1 / 39916800
    p = p * r + 1 / 3628800
    p = p * r + 1 / 362880
    p = p * r + 1 / 40320
    p = p * r + 1 / 5040
    p = p * r + 1 / 720
    p = p * r + 1 / 120
    p = p * r + 1 / 24
    p = p * r + 1 / 6
    p = p * r + 1 / 2
    p = p * r * r + r + 1.0
    exponent = np.float64(t).view(np.int64) << 52  # of 2^k: the last 11 bits of t, moved to where doubles have theirs
    return p * np.int64(exponent).view(np.float64)
