"""Sums of products over one row, eight columns at a time, with one fixed order of operations.

A row is padded with zeros to a multiple of eight columns:

    dot, dots:  column j is added to sum j mod 8, in order; then the sums by halves, 4 + 4, 2 + 2, 1 + 1
    add:        total_j + s_k x_(rows k)j, one k after the other

A matrix has doubles or singles, and all operations are on doubles. `dots` and `add` process eight rows at once,
with equal operations for each row and column. They also prefetch rows that are read later, which changes no result.
tests/unit/solvers/test_kernels.py compares these loops with their plain forms, to the last bit.
"""

from typing import Any

import numpy as np

from solvers.kernels.build import called
from solvers.kernels.layout import Indices, Vector
from solvers.kernels.vectors import LANES, broadcast, first_lane, fold, load, prefetch, store, zeros

AHEAD = 64  # distance in rows between the row that is read and the rows that are prefetched

_Eights = tuple[Any, Any, Any, Any, Any, Any, Any, Any]  # one for each of eight rows


@called
def dot(X: Vector, i: int, w: Vector) -> float:
    """Return <x_i, w>, without checks: X is (n, d), row-major, 0 <= i < n, and w has at least d numbers."""
    d = X.shape[1]
    row, whole, sums = i * d, d - d % LANES, zeros()
    for j in range(0, whole, LANES):
        sums += load(X, row + j, LANES) * load(w, j, LANES)
    sums += load(X, row + whole, d - whole) * load(w, whole, d - whole)
    sums = fold(sums, sums, 4)
    sums = fold(sums, sums, 2)
    result: float = first_lane(fold(sums, sums, 1))
    return result


@called
def dots(m: Vector, k: int, X: Vector, rows: Indices, first: int, w: Vector, later: int) -> None:
    """Set m_(k + l) = <x_i, w> for i = rows_(first + l), l < 8, and prefetch the rows rows_later and the next three."""
    d = X.shape[1]
    own = _eight_starts(rows, first, d)
    ahead = _four_starts(rows, later, d)
    whole = d - d % LANES
    sums = (zeros(), zeros(), zeros(), zeros(), zeros(), zeros(), zeros(), zeros())
    for j in range(0, whole, LANES):
        sums = _with_products(sums, X, own, j, load(w, j, LANES), LANES)
        _prefetch_four(X, ahead, j)
    sums = _with_products(sums, X, own, whole, load(w, whole, d - whole), d - whole)
    _prefetch_four(X, ahead, whole)
    first_two = fold(sums[0], sums[1], 4)
    next_two = fold(sums[2], sums[3], 4)
    third_two = fold(sums[4], sums[5], 4)
    last_two = fold(sums[6], sums[7], 4)
    store(m, k, fold(fold(first_two, next_two, 2), fold(third_two, last_two, 2), 1))


@called
def add(total: Vector, s: Vector, k: int, X: Vector, rows: Indices, first: int, later: int) -> None:
    """Add s_k x_i + s_(k + 1) x_j + ... to the total, one after the other, for eight rows i = rows_first, ...

    The rows are prefetched as by `dots`. Nothing is checked: X is (n, d), row-major, rows are in [0, n), the total has
    at least d + 8 numbers, and s is finite.
    """
    d = X.shape[1]
    own = _eight_starts(rows, first, d)
    ahead = _four_starts(rows, later, d)
    whole = d - d % LANES
    factors = (
        broadcast(s[k]), broadcast(s[k + 1]), broadcast(s[k + 2]), broadcast(s[k + 3]),
        broadcast(s[k + 4]), broadcast(s[k + 5]), broadcast(s[k + 6]), broadcast(s[k + 7]),
    )  # fmt: skip
    for j in range(0, whole, LANES):
        store(total, j, _with_rows(load(total, j, LANES), factors, X, own, j, LANES))
        _prefetch_four(X, ahead, j)
    store(total, whole, _with_rows(load(total, whole, LANES), factors, X, own, whole, d - whole))
    _prefetch_four(X, ahead, whole)


@called
def _with_products(sums: _Eights, X: Vector, starts: _Eights, j: int, factor: Any, count: int) -> _Eights:
    """Add x_ij w_j, ..., x_i(j + count - 1) w_(j + count - 1) to the sums of each row i; the factor holds these w."""
    return (
        sums[0] + load(X, starts[0] + j, count) * factor,
        sums[1] + load(X, starts[1] + j, count) * factor,
        sums[2] + load(X, starts[2] + j, count) * factor,
        sums[3] + load(X, starts[3] + j, count) * factor,
        sums[4] + load(X, starts[4] + j, count) * factor,
        sums[5] + load(X, starts[5] + j, count) * factor,
        sums[6] + load(X, starts[6] + j, count) * factor,
        sums[7] + load(X, starts[7] + j, count) * factor,
    )


@called
def _with_rows(total: Any, factors: _Eights, X: Vector, starts: _Eights, j: int, count: int) -> Any:
    """Add the columns j, ..., j + count - 1 of each row times its factor to the total, one row after the other."""
    total += factors[0] * load(X, starts[0] + j, count)
    total += factors[1] * load(X, starts[1] + j, count)
    total += factors[2] * load(X, starts[2] + j, count)
    total += factors[3] * load(X, starts[3] + j, count)
    total += factors[4] * load(X, starts[4] + j, count)
    total += factors[5] * load(X, starts[5] + j, count)
    total += factors[6] * load(X, starts[6] + j, count)
    total += factors[7] * load(X, starts[7] + j, count)
    return total


@called
def _eight_starts(rows: Indices, first: int, d: int) -> _Eights:
    """Return the position of the first number of the rows rows_first, ..., rows_(first + 7) of d columns."""
    return (*_four_starts(rows, first, d), *_four_starts(rows, first + 4, d))


@called
def _four_starts(rows: Indices, first: int, d: int) -> tuple[int, int, int, int]:
    """Return the position of the first number of four rows. Unsigned indices do not wrap around."""
    return (
        rows[np.uint64(first)] * d,
        rows[np.uint64(first + 1)] * d,
        rows[np.uint64(first + 2)] * d,
        rows[np.uint64(first + 3)] * d,
    )


@called
def _prefetch_four(X: Vector, starts: tuple[int, int, int, int], j: int) -> None:
    """Prefetch column j of four rows.

    `dots` and `add` prefetch four of each eight rows, which spreads the requests. They do so after their own loads: for
    28 columns in order, a pass took 1.2 times as long when the requests came first.
    """
    prefetch(X, starts[0] + j)
    prefetch(X, starts[1] + j)
    prefetch(X, starts[2] + j)
    prefetch(X, starts[3] + j)
