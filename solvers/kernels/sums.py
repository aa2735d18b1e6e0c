"""Sums over records of slopes times rows; docs/proofs/oracle.md builds on them.

Promise: the slope that these loops compute for a record is a function of the record and of w alone, bit for bit,
wherever the record stands, in whatever batch and beside whatever others. Every margin is added up in the order of
`dot`, and nothing is contracted or reassociated (no fastmath). Every record costs the same operations.
"""

import math

import numpy as np
from numba import types
from numpy.typing import NDArray

from solvers.kernels.build import compiled
from solvers.kernels.lanes import add, dot, fetch
from solvers.kernels.slopes import ANSWER, NUMBERS, SLOPE, Slope, Vector, slope

ROWS = types.Array(types.float64, 2, "C", readonly=True)
PLACES = types.Array(types.int64, 1, "C", readonly=True)
_TOGETHER = 16  # rows whose slopes are computed between the margins of all and the sum of all: they stay in the cache


@compiled(ANSWER(ROWS))
def norms(X: Vector) -> Vector:
    """||x_i||_2 of every row, infinite where a square is, NaN where an entry is."""
    lengths = np.empty(X.shape[0])
    for i in range(X.shape[0]):
        lengths[i] = math.sqrt(dot(X, i, X[i]))
    return lengths


@compiled(types.void(ANSWER, ANSWER, types.Array(types.int64, 1, "C"), types.int64, ROWS))
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


@compiled(ANSWER(ROWS, NUMBERS, NUMBERS, types.int64, types.int64, NUMBERS, SLOPE))
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


@compiled(ANSWER(ROWS, NUMBERS, NUMBERS, PLACES, NUMBERS, SLOPE))
def sum_of_places(X: Vector, y: Vector, scale: Vector, places: NDArray[np.int64], w: Vector, loss: Slope) -> Vector:
    """The same over the given places."""
    d = w.shape[0]
    total = np.zeros(d + 8)
    for i in places:
        add(total, (slope(loss, dot(X, i, w) * scale[i], y[i]) * scale[i],), X, (i,))
    return total[:d].copy()


@compiled(ANSWER(ROWS, NUMBERS, NUMBERS, PLACES, NUMBERS, NUMBERS, SLOPE, types.float64))
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


@compiled(types.float64(NUMBERS))
def length(v: Vector) -> float:
    """||v||_2, added up as a row's margin is."""
    d = v.shape[0]
    return math.sqrt(dot(v.reshape((1, d)), 0, v))
