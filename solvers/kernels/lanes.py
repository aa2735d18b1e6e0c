"""Sums of products over one row, eight columns at a time, each with one order of operations.

A row is padded with zeros to a multiple of eight columns:

    dot(X, i, w), dots:  column j is added to sum j mod 8, in order; then the sums by halves, 4 + 4, 2 + 2, 1 + 1
    add(total, s, X):    total_j + s_k x_(places k)j, one k after the other

A matrix is of `doubles` or `singles`. What is read becomes a double, and every operation is of doubles.

They are written as LLVM's instructions on eight numbers, because numba puts no plain sum of products into vector
registers without leave to reassociate it; nothing here gives it. tests/unit/solvers/test_kernels.py holds them to their
plain forms, to the last bit. `dots` and `add` take eight rows at once, the same for each row and column, and ask
the memory for rows that are read later; no number depends on that.
"""

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np.arrayobj import populate_array

AHEAD = 64  # rows between the one that is read and those that are asked for
_LANES = 8
_ASKED = 4  # of each eight: half with the products, half with the sum, so that memory is not asked for all at once
_VECTOR = ir.VectorType(ir.DoubleType(), _LANES)
_EIGHT, _MASK = ir.VectorType(ir.IntType(32), _LANES), ir.VectorType(ir.IntType(1), _LANES)


class _Row:
    """The columns of a row or vector, from a pointer, eight at a time as doubles; those past the end read as zeros."""

    def __init__(self, builder: Any, first: Any) -> None:
        self._builder, self._first, number = builder, first, first.type.pointee
        self._vector, self._bytes = ir.VectorType(number, _LANES), 4 if number == ir.FloatType() else 8

    def at(self, j: Any) -> Any:
        return self._builder.bitcast(self._builder.gep(self._first, [j]), self._vector.as_pointer())

    def load(self, j: Any, mask: Any = None) -> Any:
        if mask is None:
            found = self._builder.load(self.at(j), align=self._bytes)
        else:
            aligned, zeros = ir.Constant(ir.IntType(32), self._bytes), ir.Constant(self._vector, [0.0] * _LANES)
            shape = ir.FunctionType(self._vector, [self._vector.as_pointer(), aligned.type, _MASK, self._vector])
            name = f"llvm.masked.load.v8f{8 * self._bytes}.p0"
            call = cgutils.get_or_insert_function(self._builder.module, shape, name)
            found = self._builder.call(call, [self.at(j), aligned, mask, zeros])
        return found if self._vector == _VECTOR else self._builder.fpext(found, _VECTOR)

    def store(self, value: Any, j: Any) -> None:
        self._builder.store(value, self.at(j), align=8)

    def fetch(self, j: Any) -> None:
        """Asks for column j to be in the second-level cache soon; no number depends on it."""
        number = ir.IntType(32)
        shape = ir.FunctionType(ir.VoidType(), [_VECTOR.as_pointer(), number, number, number])
        call = cgutils.get_or_insert_function(self._builder.module, shape, "llvm.prefetch.p0")
        self._builder.call(call, [self._builder.bitcast(self.at(j), _VECTOR.as_pointer()), *map(number, (0, 2, 1))])


def _all_lanes(builder: Any, value: Any) -> Any:
    """One number in every lane."""
    vector = ir.VectorType(value.type, _LANES)
    one = builder.insert_element(ir.Constant(vector, ir.Undefined), value, ir.Constant(ir.IntType(32), 0))
    places = ir.Constant(_EIGHT, [0] * _LANES)
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


def _rows(builder: Any, rows: Any, places: Any, first: Any, count: int) -> list[_Row]:
    """The rows at places_first, places_(first + 1), ..."""
    d = builder.extract_value(rows.shape, 1)
    at = [builder.load(builder.gep(places.data, [builder.add(first, first.type(k))])) for k in range(count)]
    return [_Row(builder, builder.gep(rows.data, [builder.mul(place, d)])) for place in at]


def _products(builder: Any, d: Any, read: list[_Row], right: _Row, ahead: list[_Row]) -> Any:
    """The products of one row with a vector in every lane, or of eight in one each."""
    sums = [cgutils.alloca_once_value(builder, ir.Constant(_VECTOR, [0.0] * _LANES)) for _ in read]

    def body(j: Any, mask: Any) -> None:
        for row in ahead:
            row.fetch(j)
        factor = right.load(j, mask)
        for own, row in zip(sums, read, strict=True):
            builder.store(builder.fadd(builder.load(own), builder.fmul(row.load(j, mask), factor)), own)

    _each(builder, d, body)
    lanes, half = [builder.load(own) for own in sums] * (_LANES // len(sums)), _LANES // 2
    while half:
        lower, upper = (ir.Constant(_EIGHT, [k for k in range(16) if k // half % 2 == side]) for side in (0, 1))
        lanes = [
            builder.fadd(builder.shuffle_vector(a, b, lower), builder.shuffle_vector(a, b, upper))
            for a, b in zip(lanes[::2], lanes[1::2], strict=True)
        ]
        half //= 2
    return lanes[0]


def _view(kind: types.Float) -> Any:
    def view(typing: Any, matrix: Any) -> Any:  # noqa: ARG001
        """A matrix's bytes as numbers, there for as long as the bytes are."""
        result = types.Array(kind, 2, "C", readonly=True)

        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            [rows], found = _arrays(context, builder, signature, args), context.make_array(result)(context, builder)
            (n, length), size = cgutils.unpack_tuple(builder, rows.shape), kind.bitwidth // 8
            shape, first = (n, builder.udiv(length, length.type(size))), builder.bitcast(rows.data, found.data.type)
            populate_array(found, first, shape, (length, length.type(size)), length.type(size), None)
            return found._getvalue()

        return result(matrix), generate

    return intrinsic(view)


def _dot(typing: Any, X: Any, i: Any, w: Any) -> Any:  # noqa: ARG001
    """<x_i, w>. X is (n, d), row-major, 0 <= i < n, w is of length d or more: nothing is checked."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        rows, place, vector = _arrays(context, builder, signature, args)
        d = builder.extract_value(rows.shape, 1)
        row = _Row(builder, builder.gep(rows.data, [builder.mul(place, d)]))
        lanes = _products(builder, d, [row], _Row(builder, vector.data), [])
        return builder.extract_element(lanes, ir.Constant(ir.IntType(32), 0))

    return types.float64(X, i, w), generate


def _dots(typing: Any, m: Any, k: Any, X: Any, places: Any, first: Any, w: Any, later: Any) -> Any:  # noqa: ARG001
    """m_(k + j) = <x_i, w>, i = places_(first + j), for j < 8; asks for the rows at places_later and the next three."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        found, at, rows, listed, start, vector, then = _arrays(context, builder, signature, args)
        read, ahead = _rows(builder, rows, listed, start, _LANES), _rows(builder, rows, listed, then, _ASKED)
        lanes = _products(builder, builder.extract_value(rows.shape, 1), read, _Row(builder, vector.data), ahead)
        _Row(builder, found.data).store(lanes, at)
        return context.get_dummy_value()

    return types.void(m, k, X, places, first, w, later), generate


def _add(typing: Any, total: Any, s: Any, k: Any, X: Any, places: Any, first: Any, later: Any) -> Any:  # noqa: ARG001
    """total += s_k x_i + s_(k + 1) x_j + ..., one after the other, of eight rows i = places_first, ...; asks as `dots`.

    X is (n, d), row-major, places in [0, n), total at least 8 longer than d, finite s: nothing is checked.
    """

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        vector, weights, at, rows, listed, start, then = _arrays(context, builder, signature, args)
        read, ahead = _rows(builder, rows, listed, start, _LANES), _rows(builder, rows, listed, then, _ASKED)
        own = [builder.load(builder.gep(weights.data, [builder.add(at, at.type(j))])) for j in range(_LANES)]
        factors, result = [_all_lanes(builder, factor) for factor in own], _Row(builder, vector.data)

        def body(j: Any, mask: Any) -> None:
            value = result.load(j)
            for row in ahead:
                row.fetch(j)
            for factor, row in zip(factors, read, strict=True):
                value = builder.fadd(value, builder.fmul(factor, row.load(j, mask)))
            result.store(value, j)

        _each(builder, builder.extract_value(rows.shape, 1), body)
        return context.get_dummy_value()

    return types.void(total, s, k, X, places, first, later), generate


singles, doubles = _view(types.float32), _view(types.float64)
dot, dots, add = intrinsic(_dot), intrinsic(_dots), intrinsic(_add)
