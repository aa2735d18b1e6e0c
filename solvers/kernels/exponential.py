"""e^x in additions and multiplications alone, so that a loop takes it of several numbers at once, with the same bits.

Promise: a function of x, bit for bit, on every machine and in every place of a loop: each operation is rounded by
itself, and there is no branch. Within 1 ulp of e^x for |x| <= 300, and e^(+-300) beyond; NaN for NaN. So no probability
that is made of it, nor its square, nor its product with a code (0, or at least 2^-300), is a subnormal number, which
would take a processor many times as long and tell of a record by the time; 5e-131 is below every sum's rounding.

x = k ln 2 + r, |r| <= ln(2)/2 and a little, k whole: e^x = 2^k e^r, by Taylor's sum to r^13, whose rest is below
.35^14 / 14! < 5e-18. ln 2 is two numbers, of which the first has 11 zero bits at its end: k times it is exact.
"""

import math
from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from solvers.kernels.build import called

_FARTHEST = 300.0
_LOG2_E = 1.0 / math.log(2.0)
_LOG_2, _LOG_2_REST = float.fromhex("0x1.62e42fee00000p-1"), float.fromhex("0x1.a39ef35793c76p-33")
_WHOLE = 1.5 * 2.0**52 + 1023.0  # t + this is rounded to a whole number, in whose last bits stands k + 1023


def _two_to(typing: Any, t: Any) -> Any:  # noqa: ARG001
    """2^k for t = k + _WHOLE: its last 11 bits become the exponent."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:  # noqa: ARG001
        bits = builder.bitcast(args[0], ir.IntType(64))
        return builder.bitcast(builder.shl(bits, ir.IntType(64)(52)), ir.DoubleType())

    return types.float64(types.float64), generate


two_to: Callable[[float], float] = intrinsic(_two_to)


@called
def exp(x: float) -> float:
    """e^x."""
    x = min(max(x, -_FARTHEST), _FARTHEST)  # of two `if`s a compiler made jumps, whose time told of x
    t = x * _LOG2_E + _WHOLE
    k = t - _WHOLE
    r = (x - k * _LOG_2) - k * _LOG_2_REST
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
    return p * two_to(t)
