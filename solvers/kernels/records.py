"""Records as they are stored, seen as rows: numbers as numbers, categories as codes, the rest implicit.

A row x is (numbers | blocks | 1), in the inner order: P numbers as they are stored, of which a row may use some, then
for each category used a block with a single 1 in it, at the code, then, if the rows have one, the constant. A margin is

    <x, v> = lanes(numbers, v) + v[start_1 + code_1] + ... + v[start_c + code_c] + v[last]

(of a sparse row only entries of numbers are stored: the sum of their products, one after the other, comes at the end)

in this order, a function of the record and v, bit for bit; and s x is added to a sum by one operation on each number,
one on each code's place and one on the constant's. That is what the unfolded row gives, whose zeros change nothing.

A frame (m, a, c) makes z = (a o (x' - m), c) of x = (x', 1): <z, w> = <x, v>, v = (a o w', c w_0 - <m, a o w'>), and a
sum of s z comes of one of s x. So no z is ever formed.
"""

import math

import numpy as np
from numba import types
from numpy.typing import NDArray

from solvers.kernels.build import compiled, inlined
from solvers.kernels.lanes import AHEAD, add, dot, dots, doubles, singles
from solvers.kernels.slopes import ANSWER, NUMBERS, PLACES, Vector

Places = NDArray[np.int64]
Bytes = NDArray[np.uint8]
Records = tuple[Bytes, Bytes, NDArray[np.int64], Places, int, int, Vector, Vector, float, Places, Vector, bool]
"""numbers (n, P) and codes (n, B), both in bytes; for each category used (its first byte, its bytes, its start, its
length); where each coordinate of w is in the inner order; the inner order's length; 1 if its last is a constant, else
0; m, a (both empty) and c, 1 without a frame; of sparse rows where each one's entries begin, n + 1 places, then each
entry's coordinate in the inner order, in a row rising, and the entries' values (both empty where rows are not sparse);
whether numbers are singles, else doubles."""

COUNT, CODES = types.int64, types.Array(types.uint8, 2, "C", readonly=True)
FIELDS = types.Array(types.int64, 2, "C", readonly=True)
RECORDS = types.Tuple(
    (CODES, CODES, FIELDS, PLACES, COUNT, COUNT, NUMBERS, NUMBERS, types.float64, PLACES, NUMBERS, types.boolean)
)


@inlined
def code(codes: NDArray[np.uint8], first: np.uint64, size: int, i: np.uint64) -> np.uint64:
    """A category of record i: little-endian, in so many bytes."""
    found = np.uint64(codes[i, first])
    for j in range(1, size):
        found |= np.uint64(codes[i, first + np.uint64(j)]) << np.uint64(8 * j)
    return found


@inlined
def paired(fields: NDArray[np.int64]) -> int:
    """How many categories stand at the front, two by two, of one byte each: an even number."""
    count = 0
    while count + 2 <= fields.shape[0] and fields[count, 1] + fields[count + 1, 1] == 2:
        count += 2
    return count


@compiled(types.void(ANSWER, PLACES, NUMBERS, COUNT, PLACES, COUNT, COUNT, NUMBERS))
def entries(
    m: Vector, pairs: Places, values: Vector, n: int, places: Places, first: int, count: int, v: Vector
) -> None:
    """m_k += <x_(places first + k), v> of sparse rows, if these are: apart from `margins`, which it would slow down."""
    for k in range(count if pairs.shape[0] > 0 else 0):
        for q in range(pairs[places[first + k]], pairs[places[first + k] + 1]):
            m[k] += values[q] * v[pairs[n + 1 + q]]


@compiled(types.void(ANSWER, PLACES, NUMBERS, COUNT, NUMBERS, PLACES, COUNT, COUNT))
def add_entries(
    total: Vector, pairs: Places, values: Vector, n: int, s: Vector, places: Places, first: int, count: int
) -> None:
    """total += s_k x_(places first + k) of sparse rows, if these are."""
    for k in range(count if pairs.shape[0] > 0 else 0):
        for q in range(pairs[places[first + k]], pairs[places[first + k] + 1]):
            total[pairs[n + 1 + q]] += s[k] * values[q]


@compiled(types.void(ANSWER, CODES, types.boolean, CODES, FIELDS, COUNT, PLACES, COUNT, COUNT, NUMBERS))
def margins(
    m: Vector, numbers: Bytes, single: bool, codes: Bytes, fields: NDArray[np.int64], constant: int,
    places: NDArray[np.int64], first: int, count: int, v: Vector,
) -> None:  # fmt: skip
    """m_k = <x_(places first + k), v> for k < count, v in the inner order; unsigned places do not wrap."""
    short, long, eights = singles(numbers), doubles(numbers), count - count % 8
    for k in range(0, eights if single else 0, 8):
        dots(m, k, short, places, first + k, v, min(first + k + AHEAD, places.shape[0] - 4))
    for k in range(0, 0 if single else eights, 8):
        dots(m, k, long, places, first + k, v, min(first + k + AHEAD, places.shape[0] - 4))
    for k in range(eights, count):
        m[k] = dot(short, places[first + k], v) if single else dot(long, places[first + k], v)
    pairs = paired(fields)
    for j in range(0, pairs, 2):  # what a record needs for any category is read for two at once
        a, b = np.uint64(fields[j, 0]), np.uint64(fields[j + 1, 0])
        to_a, to_b = np.uint64(fields[j, 2]), np.uint64(fields[j + 1, 2])
        for k in range(count):
            i = np.uint64(places[np.uint64(first + k)])
            m[k] = m[k] + v[to_a + np.uint64(codes[i, a])] + v[to_b + np.uint64(codes[i, b])]
    for j in range(pairs, fields.shape[0]):
        byte, size, start = np.uint64(fields[j, 0]), fields[j, 1], np.uint64(fields[j, 2])
        if size == 1:
            for k in range(count):
                m[k] += v[start + np.uint64(codes[np.uint64(places[np.uint64(first + k)]), byte])]
        else:
            for k in range(count):
                m[k] += v[start + code(codes, byte, size, np.uint64(places[np.uint64(first + k)]))]
    last = v[v.shape[0] - 1]
    for k in range(count if constant == 1 else 0):  # of no `if`, for which numba would count references, at each call
        m[k] += last


@compiled(ANSWER(RECORDS, NUMBERS))
def inward(records: Records, w: Vector) -> Vector:
    """v of `margin` for a point w, (d,): zero where a stored number is not used."""
    places, center, scale, constant = records[3], records[6], records[7], records[8]
    v, last, moved = np.zeros(records[4]), w.shape[0] - 1, 0.0
    for j in range(last):
        slope = w[j]
        if scale.shape[0] > 0:
            slope *= scale[j]
            moved += slope * center[j]
        v[places[j]] = slope
    v[places[last]] = constant * w[last] - moved
    return v


@compiled(ANSWER(RECORDS, NUMBERS))
def outward(records: Records, total: Vector) -> Vector:
    """The sum of s z, (d,), from that of s x in the inner order, which may be longer."""
    places, center, scale, constant = records[3], records[6], records[7], records[8]
    found = np.empty(places.shape[0])
    for j in range(places.shape[0]):
        found[j] = total[places[j]]
    last = places.shape[0] - 1
    for j in range(scale.shape[0]):
        found[j] = (found[j] - center[j] * found[last]) * scale[j]
    found[last] *= constant
    return found


@compiled(types.void(ANSWER, CODES, types.boolean, CODES, FIELDS, COUNT, NUMBERS, PLACES, COUNT, COUNT))
def add_records(
    total: Vector, numbers: Bytes, single: bool, codes: Bytes, fields: NDArray[np.int64], constant: int,
    s: Vector, places: NDArray[np.int64], first: int, count: int,
) -> None:  # fmt: skip
    """total += s_k x_(places first + k) for k < count, one after the other; total in the inner order, and 8 longer."""
    short, long, eights, last = singles(numbers), doubles(numbers), count - count % 8, total[total.shape[0] - 9]
    for k in range(0, eights if single else 0, 8):
        add(total, s, k, short, places, first + k, min(first + k + AHEAD + 4, places.shape[0] - 4))
    for k in range(0, 0 if single else eights, 8):
        add(total, s, k, long, places, first + k, min(first + k + AHEAD + 4, places.shape[0] - 4))
    for k in range(eights, count):
        i = np.uint64(places[np.uint64(first + k)])
        for q in range(short.shape[1] if single else long.shape[1]):
            total[q] += s[k] * (np.float64(short[i, q]) if single else long[i, q])
    for k in range(count if constant == 1 else 0):
        last += s[k]
    if constant == 1:
        total[total.shape[0] - 9] = last
    pairs = paired(fields)
    for j in range(0, pairs, 2):
        a, b = np.uint64(fields[j, 0]), np.uint64(fields[j + 1, 0])
        to_a, to_b = np.uint64(fields[j, 2]), np.uint64(fields[j + 1, 2])
        for k in range(count):
            i, one = np.uint64(places[np.uint64(first + k)]), s[k]
            total[to_a + np.uint64(codes[i, a])] += one
            total[to_b + np.uint64(codes[i, b])] += one
    for j in range(pairs, fields.shape[0]):
        byte, size, start = np.uint64(fields[j, 0]), fields[j, 1], np.uint64(fields[j, 2])
        if size == 1:
            for k in range(count):
                total[start + np.uint64(codes[np.uint64(places[np.uint64(first + k)]), byte])] += s[k]
        else:
            for k in range(count):
                total[start + code(codes, byte, size, np.uint64(places[np.uint64(first + k)]))] += s[k]


@compiled(ANSWER(RECORDS, types.boolean))
def norms(records: Records, declared: bool) -> Vector:
    """||x_i||_2 of every row, infinite where a square is, NaN where an entry is; NaN, too, where a record is declared
    to have all numbers in [-1, 1] and all codes within their blocks, and does not. No frame.
    """
    numbers, codes, fields, pairs, values, single = records[0], records[1], records[2], *records[9:]
    used, entry = inward(records, np.ones(records[3].shape[0])), np.empty(records[4])
    short, long, coded = singles(numbers), doubles(numbers), float(fields.shape[0] + records[5])
    lengths = np.empty(numbers.shape[0])
    for i in range(numbers.shape[0]):
        fits = True
        for j in range(short.shape[1] if single else long.shape[1]):
            x = np.float64(short[i, j]) if single else long[i, j]
            entry[j] = x * used[j]
            fits &= abs(x) <= 1.0
        for k in range(fields.shape[0]):
            fits &= bool(code(codes, np.uint64(fields[k, 0]), fields[k, 1], np.uint64(i)) < np.uint64(fields[k, 3]))
        square = (dot(short, i, entry) if single else dot(long, i, entry)) + coded
        if pairs.shape[0] > 0:
            for q in range(pairs[i], pairs[i + 1]):
                square += values[q] * values[q]
                fits &= abs(values[q]) <= 1.0
        lengths[i] = math.sqrt(square) if fits or not declared else math.nan
    return lengths
