"""The slope of a loss at one margin, called by a pointer: a loop does not know the losses, and a loss is compiled once.

Promise: it is a function of the loss, the margin and the target alone, bit for bit, in every loop and every place. The
exponential and the power are called for one number at a time.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic
from numpy.typing import NDArray

from solvers.kernels.build import compiled

Vector = NDArray[np.float64]
Slope = tuple[int, int, float, float, float, float]
"""A loss as numbers: where its derivative is, how many parameters it has, room for three, the bound on its slope."""

MOST_PARAMETERS = 3
SLOPE = types.Tuple((types.int64, types.int64, types.float64, types.float64, types.float64, types.float64))
NUMBERS = types.Array(types.float64, 1, "C", readonly=True)  # a writable array passes for one that is not
ANSWER = types.Array(types.float64, 1, "C")


def _call(typing: Any, address: Any, numbers: Any) -> Any:  # noqa: ARG001
    """The C function at an address, on a tuple of doubles."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:  # noqa: ARG001
        double, count = ir.DoubleType(), len(signature.args[1])
        function = builder.inttoptr(args[0], ir.FunctionType(double, [double] * count).as_pointer())
        return builder.call(function, [builder.extract_value(args[1], k) for k in range(count)])

    return types.float64(address, numbers), generate


call: Callable[[int, tuple[float, ...]], float] = intrinsic(_call)


@compiled(types.float64(SLOPE, types.float64, types.float64))
def derivative(loss: Slope, m: float, y: float) -> float:
    """df/dm at one margin, as the loss has it."""
    at, parameters, a, b, c, _ = loss
    if parameters == 0:
        return call(at, (m, y))
    if parameters == 1:
        return call(at, (m, y, a))
    if parameters == 2:
        return call(at, (m, y, a, b))
    return call(at, (m, y, a, b, c))


@compiled(types.float64(SLOPE, types.float64, types.float64))
def slope(loss: Slope, m: float, y: float) -> float:
    """df/dm at one margin, clipped to the slope's bound."""
    return min(max(derivative(loss, m, y), -loss[5]), loss[5])


@compiled(ANSWER(SLOPE, NUMBERS, NUMBERS))
def derivatives(loss: Slope, m: Vector, y: Vector) -> Vector:
    """df/dm at each margin."""
    found = np.empty(m.shape[0])
    for i in range(m.shape[0]):
        found[i] = derivative(loss, m[i], y[i])
    return found
