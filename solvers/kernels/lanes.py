"""Sums of products over one row, eight columns at a time, each with one order of operations.

A row is padded with zeros to a multiple of eight columns:

    dot(X, i, w):              column j is added to sum j mod 8, in order; then the sums by halves, 4 + 4, 2 + 2, 1 + 1
    add(total, s, X, places):  total_j + s_k x_(places k)j, one k after the other

They are written as LLVM's instructions on eight numbers, because numba puts no plain sum of products into vector
registers without leave to reassociate it; nothing here gives it. tests/unit/solvers/test_kernels.py holds them to their
plain forms, to the last bit.
"""

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

_LANES = 8
_VECTOR = ir.VectorType(ir.DoubleType(), _LANES)
_MASK = ir.VectorType(ir.IntType(1), _LANES)
_ZEROS = ir.Constant(_VECTOR, [0.0] * _LANES)
_ALIGNED = ir.Constant(ir.IntType(32), 8)


class _Row:
    """The columns of one row or vector, from a pointer, eight at a time; those past the end read as zeros."""

    def __init__(self, builder: Any, first: Any) -> None:
        self._builder, self._first = builder, first

    def at(self, j: Any) -> Any:
        return self._builder.bitcast(self._builder.gep(self._first, [j]), _VECTOR.as_pointer())

    def load(self, j: Any, mask: Any = None) -> Any:
        if mask is None:
            return self._builder.load(self.at(j), align=8)
        shape = ir.FunctionType(_VECTOR, [_VECTOR.as_pointer(), _ALIGNED.type, _MASK, _VECTOR])
        call = cgutils.get_or_insert_function(self._builder.module, shape, "llvm.masked.load.v8f64.p0")
        return self._builder.call(call, [self.at(j), _ALIGNED, mask, _ZEROS])

    def store(self, value: Any, j: Any) -> None:
        self._builder.store(value, self.at(j), align=8)


def _all_lanes(builder: Any, value: Any) -> Any:
    """One number in every lane."""
    vector = ir.VectorType(value.type, _LANES)
    one = builder.insert_element(ir.Constant(vector, ir.Undefined), value, ir.Constant(ir.IntType(32), 0))
    places = ir.Constant(ir.VectorType(ir.IntType(32), _LANES), [0] * _LANES)
    return builder.shuffle_vector(one, ir.Constant(vector, ir.Undefined), places)


def _each(builder: Any, d: Any, body: Callable[[Any, Any], None]) -> None:
    """body(j, mask) for j = 0, 8, ...: whole vectors without a mask, then one with the mask of what is left."""
    whole = builder.and_(d, ir.Constant(d.type, -_LANES))
    with cgutils.for_range_slice(builder, d.type(0), whole, d.type(_LANES), intp=d.type) as (j, _):
        body(j, None)
    places = ir.Constant(ir.VectorType(d.type, _LANES), list(range(_LANES)))
    body(whole, builder.icmp_unsigned("<", places, _all_lanes(builder, builder.sub(d, whole))))


def _arrays(context: Any, builder: Any, signature: Any, args: Any) -> list[Any]:
    """Array arguments as numba's structures, others as they are."""
    return [
        context.make_array(kind)(context, builder, value=value) if isinstance(kind, types.Array) else value
        for kind, value in zip(signature.args, args, strict=True)
    ]


def _dot(typing: Any, X: Any, i: Any, w: Any) -> Any:  # noqa: ARG001
    """<x_i, w>. X is (n, d), row-major, 0 <= i < n, w is of length d or more: nothing is checked."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        rows, place, vector = _arrays(context, builder, signature, args)
        d = builder.extract_value(rows.shape, 1)
        left, right = _Row(builder, builder.gep(rows.data, [builder.mul(place, d)])), _Row(builder, vector.data)
        sums = cgutils.alloca_once_value(builder, _ZEROS)

        def body(j: Any, mask: Any) -> None:
            product = builder.fmul(left.load(j, mask), right.load(j, mask))
            builder.store(builder.fadd(builder.load(sums), product), sums)

        _each(builder, d, body)
        lanes = builder.load(sums)
        while lanes.type.count > 1:
            half = lanes.type.count // 2
            lower, upper = (
                builder.shuffle_vector(lanes, lanes, ir.Constant(ir.VectorType(ir.IntType(32), half), list(places)))
                for places in (range(half), range(half, 2 * half))
            )
            lanes = builder.fadd(lower, upper)
        return builder.extract_element(lanes, ir.Constant(ir.IntType(32), 0))

    return types.float64(X, i, w), generate


def _add(typing: Any, total: Any, s: Any, X: Any, places: Any) -> Any:  # noqa: ARG001
    """total += s_0 x_i + s_1 x_j + ..., one after the other, in place; s and places are tuples of one length.

    X is (n, d), row-major, places in [0, n), total at least 8 longer than d, finite s: nothing is checked.
    """

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        vector, factors, rows, at = _arrays(context, builder, signature, args)
        d = builder.extract_value(rows.shape, 1)
        result = _Row(builder, vector.data)
        read = [
            (
                _all_lanes(builder, builder.extract_value(factors, k)),
                _Row(builder, builder.gep(rows.data, [builder.mul(builder.extract_value(at, k), d)])),
            )
            for k in range(len(signature.args[1]))
        ]

        def body(j: Any, mask: Any) -> None:
            value = result.load(j)
            for factor, row in read:
                value = builder.fadd(value, builder.fmul(factor, row.load(j, mask)))
            result.store(value, j)

        _each(builder, d, body)
        return context.get_dummy_value()

    return types.void(total, s, X, places), generate


def _fetch(typing: Any, X: Any, i: Any) -> Any:  # noqa: ARG001
    """Asks for row i, which may be past the end, to be in the cache soon; no number depends on it."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        rows, place = _arrays(context, builder, signature, args)
        d = builder.extract_value(rows.shape, 1)
        row = _Row(builder, builder.gep(rows.data, [builder.mul(place, d)]))
        number = ir.IntType(32)
        shape = ir.FunctionType(ir.VoidType(), [_VECTOR.as_pointer(), number, number, number])
        call = cgutils.get_or_insert_function(builder.module, shape, "llvm.prefetch.p0")
        with cgutils.for_range_slice(builder, d.type(0), d, d.type(_LANES), intp=d.type) as (j, _):
            builder.call(call, [row.at(j), number(0), number(3), number(1)])
        return context.get_dummy_value()

    return types.void(X, i), generate


dot = intrinsic(_dot)
add = intrinsic(_add)
fetch = intrinsic(_fetch)
