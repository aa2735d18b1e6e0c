"""Compiled inner loops over records, each with one order of operations; docs/proofs/oracle.md builds on that.

Promise: the slope that these loops compute for a record is a function of the record and of w alone, bit for bit,
wherever the record stands, in whatever batch and beside whatever others. Every margin is added up in the order of
`dot`, nothing is contracted or reassociated (no fastmath), and the exponential is called for one number at a time.
The plain forms, which tests/unit/solvers/test_kernels.py holds to the last bit, pad a row with zeros to a multiple of
eight columns:

    dot(X, i, w):              column j is added to sum j mod 8, in order; then the sums by halves, 4 + 4, 2 + 2, 1 + 1
    add(total, s, X, places):  total_j + s_k x_(places k)j, one k after the other

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

Walk = tuple[float, float, float, float, float, float, float, float, float, float, float, float]
"""What `walk` knows that is public: L, G, R, the batch's fixed size, two factors of the bound's rounding, the noise
multiplier, two numbers of the lattice, the step, what it is divided by, the radius."""

# Those of solvers.bounds and of accounting.noise, which a test holds; literal, since the cache sees this file alone.
FARTHEST, RELATIVE, ABSOLUTE = 1e100, 1e-12, 1e-15
FINEST, COARSEST, LARGEST = 2.0**-960, 2.0**900, 2.0**51

if numba.config.USING_SVML:
    raise ImportError("a vector math library may round a number by its place: unset it (NUMBA_DISABLE_INTEL_SVML=1)")

_LOSSES = (Logistic, Hinge, HuberHinge, Sigmoid, Squared, Huber, Absolute, Quantile, Power)
_LOGISTIC, _HINGE, _HUBER_HINGE, _SIGMOID, _SQUARED, _HUBER, _ABSOLUTE, _QUANTILE, _POWER = range(len(_LOSSES))

_ROWS = types.Array(types.float64, 2, "C", readonly=True)  # a writable array passes for one that is not
_NUMBERS = types.Array(types.float64, 1, "C", readonly=True)
_PLACES = types.Array(types.int64, 1, "C", readonly=True)
_ANSWER = types.Array(types.float64, 1, "C")
_FLAGS = types.Array(types.boolean, 1, "C", readonly=True)
_WALK = types.UniTuple(types.float64, 12)
_SLOPE = types.Tuple((types.int64, types.float64, types.float64, types.float64))

_Function = TypeVar("_Function", bound=Callable[..., object])


def compiled(signature: Any) -> Callable[[_Function], _Function]:
    """Compile for one signature now; from the cache where numba finds a folder for one, else in memory."""

    def decorate(function: _Function) -> _Function:
        chosen: dict[str, Any] = {"error_model": "numpy", "nogil": True, "fastmath": False}
        try:
            result: _Function = numba.njit(signature, cache=True, **chosen)(function)
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
_TOGETHER = 16  # rows whose slopes are computed between the margins of all and the sum of all: they stay in the cache
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


def _add(typing: Any, total: Any, s: Any, X: Any, places: Any) -> Any:  # noqa: ARG001
    """total += s_0 x_i + s_1 x_j + ..., one after the other, in place; s and places are tuples of one length.

    X is (n, d), row-major, places in [0, n), total 8 longer than d: nothing is checked.
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


@compiled(types.void(_ANSWER, _ANSWER, types.Array(types.int64, 1, "C"), types.int64, _ROWS))
def add_rows(total: Vector, s: Vector, places: NDArray[np.int64], count: int, X: Vector) -> None:
    """total += s_k x_(places k) for k < count, one after the other; four at a time are read for one write."""
    fours = count - count % 4
    for k in range(0, fours, 4):
        add(
            total,
            (s[k], s[k + 1], s[k + 2], s[k + 3]),
            X,
            (places[k], places[k + 1], places[k + 2], places[k + 3]),
        )
    for k in range(fours, count):
        add(total, (s[k],), X, (places[k],))


@compiled(_ANSWER(_ROWS, _NUMBERS, _NUMBERS, types.int64, types.int64, _NUMBERS, _SLOPE))
def sum_of_range(X: Vector, y: Vector, scale: Vector, start: int, stop: int, w: Vector, loss: Slope) -> Vector:
    """Sum over start <= i < stop of s_i scale_i x_i, s_i the slope at scale_i <x_i, w>; each row is read once."""
    d = w.shape[0]
    total, s, places = np.zeros(d + 8), np.empty(_TOGETHER), np.empty(_TOGETHER, np.int64)
    for first in range(start, stop, _TOGETHER):
        count = min(_TOGETHER, stop - first)
        for k in range(count):
            places[k] = first + k
            s[k] = dot(X, first + k, w) * scale[first + k]
        for k in range(count):
            fetch(X, first + _TOGETHER + k)
            s[k] = slope(loss, s[k], y[first + k]) * scale[first + k]
        add_rows(total, s, places, count, X)
    return total[:d].copy()


@compiled(_ANSWER(_ROWS, _NUMBERS, _NUMBERS, _PLACES, _NUMBERS, _SLOPE))
def sum_of_places(X: Vector, y: Vector, scale: Vector, places: NDArray[np.int64], w: Vector, loss: Slope) -> Vector:
    """The same over the given places."""
    d = w.shape[0]
    total = np.zeros(d + 8)
    for i in places:
        add(total, (slope(loss, dot(X, i, w) * scale[i], y[i]) * scale[i],), X, (i,))
    return total[:d].copy()


@compiled(_ANSWER(_ROWS, _NUMBERS, _NUMBERS, _PLACES, _NUMBERS, _NUMBERS, _SLOPE, types.float64))
def sum_of_changes(
    X: Vector, y: Vector, scale: Vector, places: NDArray[np.int64], w: Vector, anchor: Vector, loss: Slope, limit: float
) -> Vector:
    """Sum over the places of clip(s_i - a_i, limit) scale_i x_i, s_i and a_i the slopes at w and at the anchor."""
    d = w.shape[0]
    total = np.zeros(d + 8)
    for i in places:
        s = slope(loss, dot(X, i, w) * scale[i], y[i])
        s -= slope(loss, dot(X, i, anchor) * scale[i], y[i])
        add(total, (min(max(s, -limit), limit) * scale[i],), X, (i,))
    return total[:d].copy()


@compiled(types.float64(_NUMBERS))
def length(v: Vector) -> float:
    """||v||_2, added up as a row's margin is."""
    d = v.shape[0]
    return math.sqrt(dot(v.reshape((1, d)), 0, v))


@compiled(types.boolean(_ANSWER, _NUMBERS, _FLAGS, types.int64, types.float64))
def round_tails(out: Vector, sizes: Vector, negative: NDArray[np.bool_], first: int, scale: float) -> bool:
    """out_j = round(scale N_(first + j)), or NaN where the size leaves it open; whether all are closed.

    The plain form is `Noise._fill`, with the same tolerances.
    """
    closed = True
    for j in range(out.shape[0]):
        y = sizes[first + j] * scale
        rounded = np.rint(y)
        if 0.5 - abs(y - rounded) <= y * RELATIVE + ABSOLUTE * scale:
            out[j], closed = np.nan, False
        else:
            out[j] = -rounded if negative[first + j] else rounded
    return closed


@compiled(types.UniTuple(types.float64, 2)(types.float64, types.float64, types.float64, types.int64))
def fit(z: float, kept: float, bound: float, k: int) -> tuple[float, float]:
    """Std and spacing as `Lattice.fit` has them; a spacing of 0 where it refuses."""
    std = np.nextafter(z * bound / kept * (1 + 1e-12), np.inf)
    if not (bound > 0 and std < np.inf):
        return 0.0, 0.0
    spacing = 2.0 ** (math.frexp(std)[1] - 1 - k)
    return (std, spacing) if FINEST < spacing < COARSEST else (0.0, 0.0)


@compiled(
    types.Tuple((types.int64, types.float64))(
        _ROWS, _NUMBERS, _NUMBERS, _SLOPE, _PLACES, _PLACES, _NUMBERS, _FLAGS, _ANSWER, types.int64, types.boolean,
        _NUMBERS, _NUMBERS, _NUMBERS, types.Array(types.float64, 2, "C"), _WALK,
    )
)  # fmt: skip
def walk(
    X: Vector,
    y: Vector,
    scale: Vector,
    loss: Slope,
    ends: NDArray[np.int64],
    places: NDArray[np.int64],
    sizes: Vector,
    negative: NDArray[np.bool_],
    noise: Vector,
    start: int,
    given: bool,
    w: Vector,
    anchor: Vector,
    snapshot: Vector,
    points: Vector,
    public: Walk,
) -> tuple[int, float]:
    """Steps start, start + 1, ... of a `Walk`, each from its own batch and tails; points[t] follows step t.

    Returns (the number of points, 0) at the end. Before a step that it cannot make it returns (that step, s): s > 0 is
    the noise's scale at which some coordinates are open, NaN in `noise`; call again with `noise` closed and `given`.
    s < 0: the step is out of the range of exact arithmetic.
    """
    L, G, R, size, long, summing, z, kept, k, step, shrink, radius = public
    d = w.shape[0]
    total, w = np.zeros(d + 8), w.copy()
    for t in range(start, points.shape[0]):
        reach, distance = length(w), length(w - anchor)
        if not (reach <= FARTHEST and distance < np.inf):
            return t, -1.0
        near = L * distance <= G
        bound = min(G, L * distance) if near else G
        if bound == 0.0:
            v = snapshot.copy()
        else:
            std, spacing = fit(z, kept, (bound * long + bound * summing) / size, int(k))
            if spacing == 0.0:
                return t, -1.0
            if not (given and t == start) and not round_tails(noise, sizes, negative, t * d, std / spacing):
                return t, std / spacing
            total[:] = 0.0
            for i in places[ends[t] : ends[t + 1]]:
                s = slope(loss, dot(X, i, w) * scale[i], y[i])
                if near:
                    limit = bound / R
                    s = min(max(s - slope(loss, dot(X, i, anchor) * scale[i], y[i]), -limit), limit)
                add(total, (s * scale[i],), X, (i,))
            v = np.empty(d)
            for j in range(d):
                steps = np.rint(min(max(total[j] / size / spacing, -LARGEST), LARGEST)) + noise[j] + 0.0
                v[j] = steps * spacing + snapshot[j] if near else steps * spacing
        w = (w - step * v) / shrink
        norm = length(w)
        if norm > radius:
            w *= radius / norm
        points[t] = w
    return points.shape[0], 0.0
