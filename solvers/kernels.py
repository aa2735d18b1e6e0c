"""Compiled inner loops over records, each with one order of operations; docs/proofs/oracle.md builds on that.

Promise: the slope that these loops compute for a record is a function of the record and of w alone, bit for bit,
wherever the record stands, in whatever batch and beside whatever others. Every margin is added up in the order of
`dot`, nothing is contracted or reassociated (no fastmath), and the exponential is called for one number at a time.
The plain forms, which tests/unit/solvers/test_kernels.py holds to the last bit, pad a row with zeros to a multiple of
eight columns:

    dot(X, i, w):         column j is added to sum j mod 8, in order; then the sums by halves, 4 + 4, 2 + 2, 1 + 1
    add(total, s, X, i):  total_j + s x_ij

They are written as LLVM's instructions on eight numbers, because numba puts no plain sum of products into vector
registers without leave to reassociate it. A loss's own `slope` stays the definition of its slope.

All signatures are explicit: importing this module compiles them, or loads them from numba's cache, and nothing is
compiled later. What a loop calls stands in this file, since the cache is keyed by the file's content.
"""

import math
from collections.abc import Callable
from typing import Any, TypeVar

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numpy.typing import NDArray

from solvers.losses import (
    Absolute,
    Hinge,
    Huber,
    HuberHinge,
    Logistic,
    Loss,
    Power,
    Quantile,
    Sigmoid,
    Squared,
)

Vector = NDArray[np.float64]
Slope = tuple[int, float, float, float]
"""A loss as numbers: its place in `_LOSSES`, two parameters, the bound on its slope."""

if numba.config.USING_SVML:
    raise ImportError("a vector math library may round a number by its place: unset it (NUMBA_DISABLE_INTEL_SVML=1)")

_LOSSES = (Logistic, Hinge, HuberHinge, Sigmoid, Squared, Huber, Absolute, Quantile, Power)
_LOGISTIC, _HINGE, _HUBER_HINGE, _SIGMOID, _SQUARED, _HUBER, _ABSOLUTE, _QUANTILE, _POWER = range(len(_LOSSES))

_ROWS = types.Array(types.float64, 2, "C", readonly=True)  # a writable array passes for one that is not
_NUMBERS = types.Array(types.float64, 1, "C", readonly=True)
_PLACES = types.Array(types.int64, 1, "C", readonly=True)
_ANSWER = types.Array(types.float64, 1, "C")
_SLOPE = types.Tuple((types.int64, types.float64, types.float64, types.float64))

_Function = TypeVar("_Function", bound=Callable[..., object])


def compiled(signature: Any) -> Callable[[_Function], _Function]:
    """Compile for one signature now; from the cache where numba finds a folder for one, else in memory."""

    def decorate(function: _Function) -> _Function:
        chosen: dict[str, Any] = {"error_model": "numpy", "nogil": True, "fastmath": False}
        try:
            result: Any = numba.njit(signature, cache=True, **chosen)(function)
        except (RuntimeError, OSError):  # nowhere to write
            result = numba.njit(signature, **chosen)(function)
        function_: _Function = result
        return function_

    return decorate


def slope_of(loss: Loss) -> Slope | None:
    """The loss as the loops know it; None for several outputs and for a smoothed power, which have no compiled form."""
    match loss:
        case HuberHinge(smoothing=h) | Huber(smoothing=h):
            a, b = h, 0.0
        case Quantile(level=q, smoothing=h):
            a, b = q, h
        case Squared(residual_bound=c):
            a, b = c, 0.0
        case Power(exponent=k, residual_bound=c, smoothing=0.0):
            a, b = k, c
        case Logistic() | Hinge() | Sigmoid() | Absolute():
            a, b = 0.0, 0.0
        case _:
            return None
    return _LOSSES.index(type(loss)), a, b, loss.slope_bound


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

    def store(self, value: Any, j: Any, mask: Any = None) -> None:
        if mask is None:
            self._builder.store(value, self.at(j), align=8)
            return
        shape = ir.FunctionType(ir.VoidType(), [_VECTOR, _VECTOR.as_pointer(), _ALIGNED.type, _MASK])
        call = cgutils.get_or_insert_function(self._builder.module, shape, "llvm.masked.store.v8f64.p0")
        self._builder.call(call, [value, self.at(j), _ALIGNED, mask])


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
    """<x_i, w>. X is (n, d), row-major, 0 <= i < n, w is (d,): nothing is checked."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        rows, place, vector = _arrays(context, builder, signature, args)
        d = builder.extract_value(vector.shape, 0)
        left, right = _Row(builder, builder.gep(rows.data, [builder.mul(place, d)])), _Row(builder, vector.data)
        sums = cgutils.alloca_once_value(builder, _ZEROS)

        def body(j: Any, mask: Any) -> None:
            product = builder.fmul(left.load(j, mask), right.load(j, mask))
            builder.store(builder.fadd(builder.load(sums), product), sums)

        _each(builder, d, body)
        lanes = builder.load(sums)
        parts = [builder.extract_element(lanes, ir.Constant(ir.IntType(32), k)) for k in range(_LANES)]
        while len(parts) > 1:
            half = len(parts) // 2
            parts = [builder.fadd(parts[k], parts[k + half]) for k in range(half)]
        return parts[0]

    return types.float64(X, i, w), generate


def _add(typing: Any, total: Any, s: Any, X: Any, i: Any) -> Any:  # noqa: ARG001
    """total += s x_i, in place. X is (n, d), row-major, 0 <= i < n, total is (d,): nothing is checked."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        vector, factor, rows, place = _arrays(context, builder, signature, args)
        d = builder.extract_value(vector.shape, 0)
        row, result = _Row(builder, builder.gep(rows.data, [builder.mul(place, d)])), _Row(builder, vector.data)
        factors = _all_lanes(builder, factor)

        def body(j: Any, mask: Any) -> None:
            product = builder.fmul(factors, row.load(j, mask))
            result.store(builder.fadd(result.load(j, mask), product), j, mask)

        _each(builder, d, body)
        return context.get_dummy_value()

    return types.void(total, s, X, i), generate


dot = intrinsic(_dot)
add = intrinsic(_add)


@compiled(types.float64(_SLOPE, types.float64, types.float64))
def slope(loss: Slope, m: float, y: float) -> float:
    """df/dm at one margin, clipped to the slope's bound."""
    code, a, b, bound = loss
    if code == _LOGISTIC:
        s = -(y * (1.0 / (1.0 + math.exp(y * m))))
    elif code == _HINGE:
        s = -y if y * m < 1.0 else 0.0
    elif code == _HUBER_HINGE:
        s = -(y * min(max((1.0 - y * m) / a, 0.0), 1.0))
    elif code == _SIGMOID:
        s = (1.0 / (1.0 + math.exp(-m))) * (1.0 / (1.0 + math.exp(m))) * -y
    elif code == _SQUARED:
        s = m - y
    elif code == _HUBER:
        s = min(max(m - y, -a), a) / a
    elif code == _ABSOLUTE:
        s = np.sign(m - y)
    elif code == _QUANTILE:
        plain = 1.0 - a if m > y else -a
        s = plain if b == 0.0 else min(max(m - y, -a * b), (1.0 - a) * b) / b
    else:
        s = min(abs(m - y), b) ** (a - 1.0) * (a * np.sign(m - y))
    return min(max(s, -bound), bound)


@compiled(_ANSWER(_ROWS))
def norms(X: Vector) -> Vector:
    """||x_i||_2 of every row, infinite where a square is, NaN where an entry is."""
    lengths = np.empty(X.shape[0])
    for i in range(X.shape[0]):
        lengths[i] = math.sqrt(dot(X, i, X[i]))
    return lengths


@compiled(_ANSWER(_ROWS, _NUMBERS, _NUMBERS, types.int64, types.int64, _NUMBERS, _SLOPE))
def sum_of_range(X: Vector, y: Vector, scale: Vector, start: int, stop: int, w: Vector, loss: Slope) -> Vector:
    """Sum over start <= i < stop of s_i scale_i x_i, s_i the slope at scale_i <x_i, w>; each row is read once."""
    total = np.zeros(w.shape[0])
    for i in range(start, stop):
        s = slope(loss, dot(X, i, w) * scale[i], y[i]) * scale[i]
        add(total, s, X, i)
    return total


@compiled(_ANSWER(_ROWS, _NUMBERS, _NUMBERS, _PLACES, _NUMBERS, _SLOPE))
def sum_of_places(X: Vector, y: Vector, scale: Vector, places: NDArray[np.int64], w: Vector, loss: Slope) -> Vector:
    """The same over the given places."""
    total = np.zeros(w.shape[0])
    for i in places:
        s = slope(loss, dot(X, i, w) * scale[i], y[i]) * scale[i]
        add(total, s, X, i)
    return total


@compiled(_ANSWER(_ROWS, _NUMBERS, _NUMBERS, _PLACES, _NUMBERS, _NUMBERS, _SLOPE, types.float64))
def sum_of_changes(
    X: Vector, y: Vector, scale: Vector, places: NDArray[np.int64], w: Vector, anchor: Vector, loss: Slope, limit: float
) -> Vector:
    """Sum over the places of clip(s_i - a_i, limit) scale_i x_i, s_i and a_i the slopes at w and at the anchor."""
    total = np.zeros(w.shape[0])
    for i in places:
        s = slope(loss, dot(X, i, w) * scale[i], y[i])
        s -= slope(loss, dot(X, i, anchor) * scale[i], y[i])
        s = min(max(s, -limit), limit) * scale[i]
        add(total, s, X, i)
    return total
