"""Eight doubles as one value of compiled code, and the operations on it.

    zeros()                    0 in each lane
    broadcast(x)               x in each lane
    load(array, at, count)     number at + l of the array in lane l < count, 0 in the other lanes
    store(array, at, a)        writes lane l to number at + l of the array
    prefetch(array, at)        requests the memory of number `at` early, and changes no result
    a + b, a * b               lane by lane, each lane rounded as a single double is
    fold(a, b, half)           sums of halves: for half = 4, lanes 0 to 3 are a_l + a_(l + 4), lanes 4 to 7 those of b
    first_lane(a)              lane 0
    singles(B), doubles(B)     the bytes of a matrix as numbers

Numbers of an array count in storage order: number i d + j of a matrix with d columns is x_ij. Indices are not checked.
Single-precision numbers are converted when they are loaded, so all operations are on doubles.

Numba has no such type. It uses vector registers for a plain sum of products only if it may change the order of the
additions, which is not allowed here. Its option `SLP_VECTORIZE` recognizes eight sums that are written one by one. It
applies to a whole process, and the loops took 1.1 to 1.5 times as long (decision 46).
"""

import operator
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.datamodel import models
from numba.core.typing.templates import ConcreteTemplate, infer_global
from numba.extending import intrinsic, lower_builtin, register_model
from numba.np.arrayobj import populate_array

LANES = 8
_DOUBLE = ir.DoubleType()
_INTEGER = ir.IntType(32)
_DOUBLES = ir.VectorType(_DOUBLE, LANES)
_FLAGS = ir.VectorType(ir.IntType(1), LANES)


class _Eight(types.Type):
    """The type of eight doubles in compiled code."""


@register_model(_Eight)
class _Model(models.PrimitiveModel):
    """The representation of eight doubles: LLVM's vector of them."""

    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, _DOUBLES)


EIGHT = _Eight("Eight")


@intrinsic
def zeros(typing: Any) -> Any:  # noqa: ARG001
    """Return 0 in each lane."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:  # noqa: ARG001
        return ir.Constant(_DOUBLES, [0.0] * LANES)

    return EIGHT(), generate


@intrinsic
def broadcast(typing: Any, x: Any) -> Any:  # noqa: ARG001
    """Return x in each lane."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:  # noqa: ARG001
        return _in_each_lane(builder, values[0])

    return EIGHT(types.float64), generate


@intrinsic
def load(typing: Any, array: Any, at: Any, count: Any) -> Any:  # noqa: ARG001
    """Return number at + l of the array in lane l < count, and 0 in other lanes. Memory beyond `count` is not read."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        number = context.get_data_type(array.dtype)
        numbers, bytes_each = ir.VectorType(number, LANES), array.dtype.bitwidth // 8
        pointer = builder.bitcast(_pointer(context, builder, signature, values), numbers.as_pointer())
        lanes = ir.Constant(ir.VectorType(ir.IntType(64), LANES), list(range(LANES)))
        is_read = builder.icmp_signed("<", lanes, _in_each_lane(builder, values[2]))
        # With a constant count of eight, LLVM replaces this masked load by a plain one.
        kind = ir.FunctionType(numbers, [pointer.type, _INTEGER, _FLAGS, numbers])
        masked = cgutils.get_or_insert_function(builder.module, kind, f"llvm.masked.load.v8f{8 * bytes_each}.p0")
        read = builder.call(masked, [pointer, _INTEGER(bytes_each), is_read, ir.Constant(numbers, [0.0] * LANES)])
        return read if number == _DOUBLE else builder.fpext(read, _DOUBLES)

    return EIGHT(array, types.int64, types.int64), generate


@intrinsic
def store(typing: Any, array: Any, at: Any, a: Any) -> Any:  # noqa: ARG001
    """Write lane l to number at + l of an array of doubles."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        pointer = builder.bitcast(_pointer(context, builder, signature, values), _DOUBLES.as_pointer())
        builder.store(values[2], pointer, align=8)
        return context.get_dummy_value()

    return types.void(array, types.int64, EIGHT), generate


@intrinsic
def prefetch(typing: Any, array: Any, at: Any) -> Any:  # noqa: ARG001
    """Request the memory of number `at` of the array for the second-level cache."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        pointer = builder.bitcast(_pointer(context, builder, signature, values), ir.IntType(8).as_pointer())
        kind = ir.FunctionType(ir.VoidType(), [pointer.type, _INTEGER, _INTEGER, _INTEGER])
        request = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        for_reading = _INTEGER(0)
        second_level = _INTEGER(2)
        data = _INTEGER(1)
        builder.call(request, [pointer, for_reading, second_level, data])
        return context.get_dummy_value()

    return types.void(array, types.int64), generate


@intrinsic(prefer_literal=True)
def fold(typing: Any, a: Any, b: Any, half: Any) -> Any:  # noqa: ARG001
    """Return the sums of halves: each group of 2 half lanes becomes half lanes, first the groups of a, then those of b.

    `half` is a literal 4, 2 or 1. After folding by 4, 2 and 1, each lane is the sum of all eight lanes of one vector.
    """

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:  # noqa: ARG001
        first, second = (
            [lane for lane in range(2 * LANES) if lane // half.literal_value % 2 == side] for side in (0, 1)
        )
        chosen = (
            builder.shuffle_vector(*values[:2], ir.Constant(ir.VectorType(_INTEGER, LANES), lanes))
            for lanes in (first, second)
        )
        return builder.fadd(*chosen)

    return EIGHT(EIGHT, EIGHT, half), generate


@intrinsic
def first_lane(typing: Any, a: Any) -> Any:  # noqa: ARG001
    """Return lane 0."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:  # noqa: ARG001
        return builder.extract_element(values[0], _INTEGER(0))

    return types.float64(EIGHT), generate


@infer_global(operator.add)
@infer_global(operator.iadd)
@infer_global(operator.mul)
class _LaneByLane(ConcreteTemplate):
    """The types of a + b, a += b and a * b."""

    cases = [EIGHT(EIGHT, EIGHT)]  # noqa: RUF012


@lower_builtin(operator.add, EIGHT, EIGHT)
@lower_builtin(operator.iadd, EIGHT, EIGHT)
def _add(context: Any, builder: Any, signature: Any, values: Any) -> Any:  # noqa: ARG001
    return builder.fadd(*values)


@lower_builtin(operator.mul, EIGHT, EIGHT)
def _multiply(context: Any, builder: Any, signature: Any, values: Any) -> Any:  # noqa: ARG001
    return builder.fmul(*values)


def _numbers(kind: types.Float) -> Any:
    """Return the operation that reads the bytes of a matrix as numbers of this kind."""
    result = types.Array(kind, 2, "C", readonly=True)

    def numbers(typing: Any, matrix: Any) -> Any:  # noqa: ARG001
        """Return the bytes of a matrix as numbers; the result is valid as long as the bytes are."""

        def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            matrix = context.make_array(signature.args[0])(context, builder, value=values[0])
            view = context.make_array(result)(context, builder)
            rows, row_bytes = cgutils.unpack_tuple(builder, matrix.shape)
            number_bytes = ir.IntType(64)(kind.bitwidth // 8)
            first = builder.bitcast(matrix.data, view.data.type)
            shape = (rows, builder.udiv(row_bytes, number_bytes))
            populate_array(view, first, shape, (row_bytes, number_bytes), number_bytes, None)
            return view._getvalue()

        return result(matrix), generate

    return intrinsic(numbers)


singles = _numbers(types.float32)
doubles = _numbers(types.float64)


def _in_each_lane(builder: Any, value: Any) -> Any:
    """Return a vector with one number in each lane."""
    nothing = ir.Constant(ir.VectorType(value.type, LANES), ir.Undefined)
    first = builder.insert_element(nothing, value, _INTEGER(0))
    return builder.shuffle_vector(first, nothing, ir.Constant(ir.VectorType(_INTEGER, LANES), [0] * LANES))


def _pointer(context: Any, builder: Any, signature: Any, values: Any) -> Any:
    """Return the pointer to number `at` of the array, which are the first two arguments."""
    array = context.make_array(signature.args[0])(context, builder, value=values[0])
    return builder.gep(array.data, [values[1]])
