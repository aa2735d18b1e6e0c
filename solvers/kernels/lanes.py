"""Sums of products over one row, eight columns at a time, with one fixed order of operations.

A row is padded with zeros to a multiple of eight columns:

    dot(X, i, w), dots:  column j is added to sum j mod 8, in order; then the sums by halves, 4 + 4, 2 + 2, 1 + 1
    add(total, s, X):    total_j + s_k x_(rows k)j, one k after the other

A matrix has `doubles` or `singles`. Each number is converted to a double when it is read, and all operations are on
doubles.

The code generates LLVM instructions on eight numbers. Numba would use vector registers for plain sums of products only
if it could reassociate them, which is not allowed here. tests/unit/solvers/test_kernels.py compares these loops with
their plain forms, to the last bit. `dots` and `add` process eight rows at once, with equal operations for each row and
column. They also prefetch rows that are read later, which changes no result.
"""

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np.arrayobj import populate_array

AHEAD = 64  # distance in rows between the row that is read and the rows that are prefetched
_LANES = 8
_PREFETCHED_ROWS = 4  # of each eight: half with the products, half with the sum, which spreads the requests
_VECTOR = ir.VectorType(ir.DoubleType(), _LANES)
_EIGHT, _MASK = ir.VectorType(ir.IntType(32), _LANES), ir.VectorType(ir.IntType(1), _LANES)


class _Row:
    """A row or a vector behind a pointer, read eight columns at a time as doubles; columns past the end are zeros."""

    def __init__(self, builder: Any, first: Any) -> None:
        self._builder, self._first, number = builder, first, first.type.pointee
        self._vector, self._bytes = ir.VectorType(number, _LANES), 4 if number == ir.FloatType() else 8

    def at(self, j: Any) -> Any:
        """Return the pointer to column j."""
        return self._builder.bitcast(self._builder.gep(self._first, [j]), self._vector.as_pointer())

    def load(self, j: Any, mask: Any = None) -> Any:
        """Return eight columns from j on; columns that the mask leaves out are zeros."""
        if mask is None:
            lanes = self._builder.load(self.at(j), align=self._bytes)
        else:
            aligned, zeros = ir.Constant(ir.IntType(32), self._bytes), ir.Constant(self._vector, [0.0] * _LANES)
            shape = ir.FunctionType(self._vector, [self._vector.as_pointer(), aligned.type, _MASK, self._vector])
            name = f"llvm.masked.load.v8f{8 * self._bytes}.p0"
            call = cgutils.get_or_insert_function(self._builder.module, shape, name)
            lanes = self._builder.call(call, [self.at(j), aligned, mask, zeros])
        return lanes if self._vector == _VECTOR else self._builder.fpext(lanes, _VECTOR)

    def store(self, value: Any, j: Any) -> None:
        """Store eight columns from j on."""
        self._builder.store(value, self.at(j), align=8)

    def fetch(self, j: Any) -> None:
        """Prefetch column j into the second-level cache, which changes no result."""
        number = ir.IntType(32)
        shape = ir.FunctionType(ir.VoidType(), [_VECTOR.as_pointer(), number, number, number])
        call = cgutils.get_or_insert_function(self._builder.module, shape, "llvm.prefetch.p0")
        self._builder.call(call, [self._builder.bitcast(self.at(j), _VECTOR.as_pointer()), *map(number, (0, 2, 1))])


def _all_lanes(builder: Any, value: Any) -> Any:
    """Return a vector with one number in every lane."""
    vector = ir.VectorType(value.type, _LANES)
    first_lane = builder.insert_element(ir.Constant(vector, ir.Undefined), value, ir.Constant(ir.IntType(32), 0))
    zeros = ir.Constant(_EIGHT, [0] * _LANES)
    return builder.shuffle_vector(first_lane, ir.Constant(vector, ir.Undefined), zeros)


def _each(builder: Any, d: Any, body: Callable[[Any, Any], None]) -> None:
    """Generate body(j, mask) for j = 0, 8, ...; only the last vector has a mask, for the columns that are left."""
    whole = builder.and_(d, ir.Constant(d.type, -_LANES))
    with cgutils.for_range_slice(builder, d.type(0), whole, d.type(_LANES), intp=d.type) as (j, _):
        body(j, None)
    lanes = ir.Constant(ir.VectorType(d.type, _LANES), list(range(_LANES)))
    body(whole, builder.icmp_unsigned("<", lanes, _all_lanes(builder, builder.sub(d, whole))))


def _arrays(context: Any, builder: Any, signature: Any, args: Any) -> list[Any]:
    """Return array arguments as numba's structures, and other arguments unchanged."""
    return [
        context.make_array(kind)(context, builder, value=value) if isinstance(kind, types.Array) else value
        for kind, value in zip(signature.args, args, strict=True)
    ]


def _rows(builder: Any, matrix: Any, rows: Any, first: Any, count: int) -> list[_Row]:
    """Return the rows of the matrix with the indices rows_first, rows_(first + 1), ..."""
    d = builder.extract_value(matrix.shape, 1)
    indices = [builder.load(builder.gep(rows.data, [builder.add(first, first.type(k))])) for k in range(count)]
    return [_Row(builder, builder.gep(matrix.data, [builder.mul(index, d)])) for index in indices]


def _products(builder: Any, d: Any, read: list[_Row], right: _Row, ahead: list[_Row]) -> Any:
    """Return the product of one row with a vector in every lane, or those of eight rows in one lane each."""
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
    """Return the intrinsic that reads the bytes of a matrix as numbers of this kind."""

    def view(typing: Any, matrix: Any) -> Any:  # noqa: ARG001
        """Return the bytes of a matrix as numbers; the result is valid as long as the bytes are."""
        result = types.Array(kind, 2, "C", readonly=True)

        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            [matrix], view = _arrays(context, builder, signature, args), context.make_array(result)(context, builder)
            (n, length), size = cgutils.unpack_tuple(builder, matrix.shape), kind.bitwidth // 8
            shape, first = (n, builder.udiv(length, length.type(size))), builder.bitcast(matrix.data, view.data.type)
            populate_array(view, first, shape, (length, length.type(size)), length.type(size), None)
            return view._getvalue()

        return result(matrix), generate

    return intrinsic(view)


def _dot(typing: Any, X: Any, i: Any, w: Any) -> Any:  # noqa: ARG001
    """Return <x_i, w>, without checks: X is (n, d), row-major, 0 <= i < n, and w has at least d numbers."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        matrix, index, vector = _arrays(context, builder, signature, args)
        d = builder.extract_value(matrix.shape, 1)
        row = _Row(builder, builder.gep(matrix.data, [builder.mul(index, d)]))
        lanes = _products(builder, d, [row], _Row(builder, vector.data), [])
        return builder.extract_element(lanes, ir.Constant(ir.IntType(32), 0))

    return types.float64(X, i, w), generate


def _dots(typing: Any, m: Any, k: Any, X: Any, rows: Any, first: Any, w: Any, later: Any) -> Any:  # noqa: ARG001
    """Set m_(k + j) = <x_i, w> for i = rows_(first + j), j < 8, and prefetch the rows rows_later and the next three."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        result, at, matrix, indices, start, vector, then = _arrays(context, builder, signature, args)
        read = _rows(builder, matrix, indices, start, _LANES)
        ahead = _rows(builder, matrix, indices, then, _PREFETCHED_ROWS)
        lanes = _products(builder, builder.extract_value(matrix.shape, 1), read, _Row(builder, vector.data), ahead)
        _Row(builder, result.data).store(lanes, at)
        return context.get_dummy_value()

    return types.void(m, k, X, rows, first, w, later), generate


def _add(typing: Any, total: Any, s: Any, k: Any, X: Any, rows: Any, first: Any, later: Any) -> Any:  # noqa: ARG001
    """Add s_k x_i + s_(k + 1) x_j + ... to the total, one after the other, for eight rows i = rows_first, ...

    The rows are prefetched as by `dots`. Nothing is checked: X is (n, d), row-major, rows are in [0, n), the total has
    at least d + 8 numbers, and s is finite.
    """

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        vector, weights, at, matrix, indices, start, then = _arrays(context, builder, signature, args)
        read = _rows(builder, matrix, indices, start, _LANES)
        ahead = _rows(builder, matrix, indices, then, _PREFETCHED_ROWS)
        own = [builder.load(builder.gep(weights.data, [builder.add(at, at.type(j))])) for j in range(_LANES)]
        factors, result = [_all_lanes(builder, factor) for factor in own], _Row(builder, vector.data)

        def body(j: Any, mask: Any) -> None:
            value = result.load(j)
            for row in ahead:
                row.fetch(j)
            for factor, row in zip(factors, read, strict=True):
                value = builder.fadd(value, builder.fmul(factor, row.load(j, mask)))
            result.store(value, j)

        _each(builder, builder.extract_value(matrix.shape, 1), body)
        return context.get_dummy_value()

    return types.void(total, s, k, X, rows, first, later), generate


singles, doubles = _view(types.float32), _view(types.float64)
dot, dots, add = intrinsic(_dot), intrinsic(_dots), intrinsic(_add)
