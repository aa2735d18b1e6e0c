"""Products and sums of stored records as if they were unfolded rows.

A row x is (numbers | blocks | 1), in storage order: P numbers as they are stored, of which a row may use some; for each
category in use a block with a single 1 at the code; then, if the rows have one, the constant. A margin is

    <x, v> = lanes(numbers, v) + v[start_1 + code_1] + ... + v[start_c + code_c] + v[last]

in this order. Sparse rows store entries of numbers only; the sum of their products, one after the other, is added last.
So a margin is a function of the record and of v, bit for bit. Adding s x to a sum takes one operation for each number,
one for each code's position and one for the constant. The unfolded row gives the same bits, since its zeros change
nothing.

A frame (m, a, c) makes z = (a o (x' - m), c) of x = (x', 1). Then <z, w> = <x, v>, v = (a o w', c w_0 - <m, a o w'>),
and the sum of s z follows from the sum of s x. So no z is ever formed.
"""

import math

import numpy as np
from numba import types
from numpy.typing import NDArray

from solvers.kernels.build import compiled, inlined
from solvers.kernels.lanes import AHEAD, add, dot, dots
from solvers.kernels.layout import BYTES, FIRST_BYTE, LEVELS, START, Indices, Records, Vector
from solvers.kernels.slopes import ANSWER, INDICES, NUMBERS
from solvers.kernels.vectors import doubles, singles

COUNT = types.int64
_CODES = types.Array(types.uint8, 2, "C", readonly=True)
_CATEGORIES = types.Array(types.int64, 2, "C", readonly=True)
RECORDS = types.NamedTuple(
    (
        _CODES, _CODES, _CATEGORIES, INDICES, COUNT, COUNT,
        NUMBERS, NUMBERS, types.float64, INDICES, NUMBERS, types.boolean,
    ),
    Records,
)  # fmt: skip
PADDING = 8  # numbers by which a sum is longer than a row, because `lanes.add` writes whole vectors


@inlined
def code(codes: NDArray[np.uint8], first: np.uint64, size: int, i: np.uint64) -> np.uint64:
    """Return the code of record i that is stored little-endian in `size` bytes."""
    value = np.uint64(codes[i, first])
    for j in range(1, size):
        value |= np.uint64(codes[i, first + np.uint64(j)]) << np.uint64(8 * j)
    return value


@inlined
def paired(categories: Indices) -> int:
    """Return how many categories at the front have codes of one byte, rounded down to an even number."""
    count = 0
    while count + 2 <= categories.shape[0] and categories[count, BYTES] + categories[count + 1, BYTES] == 2:
        count += 2
    return count


@compiled(types.void(ANSWER, RECORDS, INDICES, COUNT, COUNT, NUMBERS), allocates=False)
def _dense_margins(m: Vector, records: Records, rows: Indices, first: int, count: int, v: Vector) -> None:
    """Set m_k to the margin without the entries of sparse rows. Unsigned indices do not wrap around."""
    codes, categories = records.codes, records.categories
    short = singles(records.numbers)
    long = doubles(records.numbers)
    eights = count - count % 8
    for k in range(0, eights if records.is_single else 0, 8):
        dots(m, k, short, rows, first + k, v, min(first + k + AHEAD, rows.shape[0] - 4))
    for k in range(0, 0 if records.is_single else eights, 8):
        dots(m, k, long, rows, first + k, v, min(first + k + AHEAD, rows.shape[0] - 4))
    for k in range(eights, count):
        m[k] = dot(short, rows[first + k], v) if records.is_single else dot(long, rows[first + k], v)
    pairs = paired(categories)
    for j in range(0, pairs, 2):  # two categories at once, so that a record's index and margin are read once
        a = np.uint64(categories[j, FIRST_BYTE])
        b = np.uint64(categories[j + 1, FIRST_BYTE])
        start_a = np.uint64(categories[j, START])
        start_b = np.uint64(categories[j + 1, START])
        for k in range(count):
            i = np.uint64(rows[np.uint64(first + k)])
            m[k] = m[k] + v[start_a + np.uint64(codes[i, a])] + v[start_b + np.uint64(codes[i, b])]
    for j in range(pairs, categories.shape[0]):
        byte = np.uint64(categories[j, FIRST_BYTE])
        size = categories[j, BYTES]
        start = np.uint64(categories[j, START])
        if size == 1:
            for k in range(count):
                m[k] += v[start + np.uint64(codes[np.uint64(rows[np.uint64(first + k)]), byte])]
        else:
            for k in range(count):
                m[k] += v[start + code(codes, byte, size, np.uint64(rows[np.uint64(first + k)]))]
    last = v[v.shape[0] - 1]
    if records.constant == 1:
        for k in range(count):
            m[k] += last


@compiled(types.void(ANSWER, RECORDS, INDICES, COUNT, COUNT, NUMBERS), allocates=False)
def _add_sparse_margins(m: Vector, records: Records, rows: Indices, first: int, count: int, v: Vector) -> None:
    """Add to m_k the products of a sparse row's entries. `_dense_margins` is faster without this code in it."""
    index, values = records.entry_index, records.entry_values
    entries = records.numbers.shape[0] + 1
    for k in range(count):
        for q in range(index[rows[first + k]], index[rows[first + k] + 1]):
            m[k] += values[q] * v[index[entries + q]]


@compiled(types.void(ANSWER, RECORDS, INDICES, COUNT, COUNT, NUMBERS), allocates=False, is_wrapper=True)
def margins(m: Vector, records: Records, rows: Indices, first: int, count: int, v: Vector) -> None:
    """Set m_k = <x_i, v> for i = rows_(first + k) and k < count; v is in storage order."""
    _dense_margins(m, records, rows, first, count, v)
    if records.entry_index.shape[0] > 0:
        _add_sparse_margins(m, records, rows, first, count, v)


@compiled(types.void(ANSWER, RECORDS, NUMBERS, INDICES, COUNT, COUNT), allocates=False)
def _add_dense_records(total: Vector, records: Records, s: Vector, rows: Indices, first: int, count: int) -> None:
    """Add all but the entries of sparse rows."""
    codes, categories = records.codes, records.categories
    short = singles(records.numbers)
    long = doubles(records.numbers)
    eights, last = count - count % 8, total[total.shape[0] - PADDING - 1]
    for k in range(0, eights if records.is_single else 0, 8):
        add(total, s, k, short, rows, first + k, min(first + k + AHEAD + 4, rows.shape[0] - 4))
    for k in range(0, 0 if records.is_single else eights, 8):
        add(total, s, k, long, rows, first + k, min(first + k + AHEAD + 4, rows.shape[0] - 4))
    for k in range(eights, count):
        i = np.uint64(rows[np.uint64(first + k)])
        for q in range(short.shape[1] if records.is_single else long.shape[1]):
            total[q] += s[k] * (np.float64(short[i, q]) if records.is_single else long[i, q])
    if records.constant == 1:
        for k in range(count):
            last += s[k]
        total[total.shape[0] - PADDING - 1] = last
    pairs = paired(categories)
    for j in range(0, pairs, 2):
        a = np.uint64(categories[j, FIRST_BYTE])
        b = np.uint64(categories[j + 1, FIRST_BYTE])
        start_a = np.uint64(categories[j, START])
        start_b = np.uint64(categories[j + 1, START])
        for k in range(count):
            i, weight = np.uint64(rows[np.uint64(first + k)]), s[k]
            total[start_a + np.uint64(codes[i, a])] += weight
            total[start_b + np.uint64(codes[i, b])] += weight
    for j in range(pairs, categories.shape[0]):
        byte = np.uint64(categories[j, FIRST_BYTE])
        size = categories[j, BYTES]
        start = np.uint64(categories[j, START])
        if size == 1:
            for k in range(count):
                total[start + np.uint64(codes[np.uint64(rows[np.uint64(first + k)]), byte])] += s[k]
        else:
            for k in range(count):
                total[start + code(codes, byte, size, np.uint64(rows[np.uint64(first + k)]))] += s[k]


@compiled(types.void(ANSWER, RECORDS, NUMBERS, INDICES, COUNT, COUNT), allocates=False)
def _add_sparse_records(total: Vector, records: Records, s: Vector, rows: Indices, first: int, count: int) -> None:
    """Add the entries of sparse rows."""
    index, values = records.entry_index, records.entry_values
    entries = records.numbers.shape[0] + 1
    for k in range(count):
        for q in range(index[rows[first + k]], index[rows[first + k] + 1]):
            total[index[entries + q]] += s[k] * values[q]


@compiled(types.void(ANSWER, RECORDS, NUMBERS, INDICES, COUNT, COUNT), allocates=False, is_wrapper=True)
def add_records(total: Vector, records: Records, s: Vector, rows: Indices, first: int, count: int) -> None:
    """Add s_k x_i to the total for i = rows_(first + k), k < count, one after the other.

    The total is in storage order and longer than a row by PADDING.
    """
    _add_dense_records(total, records, s, rows, first, count)
    if records.entry_index.shape[0] > 0:
        _add_sparse_records(total, records, s, rows, first, count)


@compiled(ANSWER(RECORDS, NUMBERS))
def to_storage_order(records: Records, w: Vector) -> Vector:
    """Return v of `margins` for a point w, (d,): zero where a stored number is not used."""
    positions, last, moved = records.positions, w.shape[0] - 1, 0.0
    v = np.zeros(records.size)
    for j in range(last):
        slope = w[j]
        if records.shrink.shape[0] > 0:
            slope *= records.shrink[j]
            moved += slope * records.center[j]
        v[positions[j]] = slope
    v[positions[last]] = records.intercept * w[last] - moved
    return v


@compiled(ANSWER(RECORDS, NUMBERS))
def from_storage_order(records: Records, total: Vector) -> Vector:
    """Return the sum of s z, (d,), from the sum of s x in storage order, which may be longer."""
    positions = records.positions
    result = np.empty(positions.shape[0])
    for j in range(positions.shape[0]):
        result[j] = total[positions[j]]
    last = positions.shape[0] - 1
    for j in range(records.shrink.shape[0]):
        result[j] = (result[j] - records.center[j] * result[last]) * records.shrink[j]
    result[last] *= records.intercept
    return result


@compiled(ANSWER(RECORDS, types.boolean))
def norms(records: Records, is_declared: bool) -> Vector:
    """Return ||x_i||_2 of every row without a frame.

    A norm is infinite if a square overflows, and NaN if an entry is NaN. If `is_declared`, the norm is also NaN for a
    record with a number outside [-1, 1] or a code outside its block.
    """
    categories, index, values = records.categories, records.entry_index, records.entry_values
    used = to_storage_order(records, np.ones(records.positions.shape[0]))
    short = singles(records.numbers)
    long = doubles(records.numbers)
    ones_count = float(categories.shape[0] + records.constant)
    n = records.numbers.shape[0]
    entry = np.empty(records.size)
    lengths = np.empty(n)
    for i in range(n):
        fits = True
        for j in range(short.shape[1] if records.is_single else long.shape[1]):
            x = np.float64(short[i, j]) if records.is_single else long[i, j]
            entry[j] = x * used[j]
            fits &= abs(x) <= 1.0
        for k in range(categories.shape[0]):
            own = code(records.codes, np.uint64(categories[k, FIRST_BYTE]), categories[k, BYTES], np.uint64(i))
            fits &= bool(own < np.uint64(categories[k, LEVELS]))
        square = (dot(short, i, entry) if records.is_single else dot(long, i, entry)) + ones_count
        if index.shape[0] > 0:
            for q in range(index[i], index[i + 1]):
                square += values[q] * values[q]
                fits &= abs(values[q]) <= 1.0
        lengths[i] = math.sqrt(square) if fits or not is_declared else math.nan
    return lengths
