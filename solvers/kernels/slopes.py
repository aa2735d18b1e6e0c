"""The slope of a loss at margins, called through a pointer, so that loops depend on no loss and losses compile once.

Guarantee: a slope is a function of the loss, the margin and the target only, bit for bit, in every loop and at every
position. Nothing is reassociated or contracted, and functions of several numbers at once consist of additions and
multiplications (solvers.kernels.exponential).
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from solvers.kernels.build import compiled
from solvers.kernels.layout import Slope, Vector

MOST_PARAMETERS = 3
SLOPE = types.NamedTuple((types.int64, types.float64, types.float64, types.float64, types.float64), Slope)
INDICES = types.Array(types.int64, 1, "C", readonly=True)
NUMBERS = types.Array(types.float64, 1, "C", readonly=True)  # a writable array is accepted, too
ANSWER = types.Array(types.float64, 1, "C")


def _call(typing: Any, loss: Any, m: Any, y: Any, n: Any) -> Any:  # noqa: ARG001
    """Call the C function of a loss on the first n numbers of two arrays; it writes into the first."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        double = ir.DoubleType()
        many = ir.DoubleType().as_pointer()
        at, *parameters = [builder.extract_value(args[0], k) for k in range(1 + MOST_PARAMETERS)]
        shape = ir.FunctionType(ir.VoidType(), [many, many, ir.IntType(64), *[double] * MOST_PARAMETERS])
        first = [
            context.make_array(kind)(context, builder, value=value).data
            for kind, value in zip(signature.args[1:3], args[1:3], strict=True)
        ]
        builder.call(builder.inttoptr(at, shape.as_pointer()), [*first, args[3], *parameters])
        return context.get_dummy_value()

    return types.void(loss, m, y, n), generate


call: Callable[[Slope, Vector, Vector, int], None] = intrinsic(_call)


@compiled(types.void(ANSWER, SLOPE, NUMBERS, NUMBERS, types.int64))
def slopes(m: Vector, loss: Slope, y: Vector, scale: Vector, count: int) -> None:
    """Set m_k to the slope at scale_k m_k and y_k, clipped to its bound, for k < count."""
    for k in range(count):
        m[k] *= scale[k]
    call(loss, m, y, count)
    for k in range(count):
        m[k] = min(max(m[k], -loss.bound), loss.bound)


@compiled(types.float64(SLOPE, types.float64, types.float64))
def slope(loss: Slope, m: float, y: float) -> float:
    """Return df/dm at one margin, clipped to the bound of slopes."""
    margin = np.array([m])
    call(loss, margin, np.array([y]), 1)
    return min(max(float(margin[0]), -loss.bound), loss.bound)


@compiled(ANSWER(SLOPE, NUMBERS, NUMBERS))
def derivatives(loss: Slope, m: Vector, y: Vector) -> Vector:
    """Return df/dm at each margin, without clipping."""
    result = m.copy()
    call(loss, result, y, result.shape[0])
    return result
