"""Sums over records of slopes times rows; docs/proofs/oracle.md builds on them.

Promise: the slope that these loops compute for a record is a function of the record and of w alone, bit for bit,
wherever the record stands, in whatever batch and beside whatever others. Every margin is added up in the order of
`records.margin`, and nothing is contracted or reassociated (no fastmath). Every record costs the same operations.
"""

import math

import numpy as np
from numba import types
from numpy.typing import NDArray

from solvers.kernels.build import compiled
from solvers.kernels.lanes import dot
from solvers.kernels.records import RECORDS, Records, add_entries, add_records, entries, inward, margins, outward
from solvers.kernels.slopes import ANSWER, NUMBERS, PLACES, SLOPE, Slope, Vector, slopes

TOGETHER = 32  # records whose slopes are computed between the margins of all and the sum of all: they stay in the cache


@compiled(ANSWER(RECORDS, NUMBERS, NUMBERS, PLACES, NUMBERS, SLOPE))
def sum_of_places(
    records: Records, y: Vector, scale: Vector, places: NDArray[np.int64], w: Vector, loss: Slope
) -> Vector:
    """Sum over the places of s_i scale_i x_i, s_i the slope at scale_i <x_i, w>; each record is read once."""
    numbers, codes, fields, _, _, constant, _, _, _, pairs, values, single = records
    v = inward(records, w)
    total, s, t, u = np.zeros(v.shape[0] + 8), np.empty(TOGETHER), np.empty(TOGETHER), np.empty(TOGETHER)
    for first in range(0, places.shape[0], TOGETHER):
        count = min(TOGETHER, places.shape[0] - first)
        margins(s, numbers, single, codes, fields, constant, places, first, count, v)
        entries(s, pairs, values, numbers.shape[0], places, first, count, v)
        for k in range(count):
            t[k], u[k] = y[np.uint64(places[first + k])], scale[np.uint64(places[first + k])]
        slopes(s, loss, t, u, count)
        for k in range(count):
            s[k] *= u[k]
        add_records(total, numbers, single, codes, fields, constant, s, places, first, count)
        add_entries(total, pairs, values, numbers.shape[0], s, places, first, count)
    return outward(records, total)


@compiled(ANSWER(RECORDS, NUMBERS, NUMBERS, PLACES, NUMBERS, NUMBERS, SLOPE, types.float64, types.float64))
def sum_of_changes(
    records: Records, y: Vector, scale: Vector, places: NDArray[np.int64],
    w: Vector, anchor: Vector, loss: Slope, limit: float, curvature: float,
) -> Vector:  # fmt: skip
    """Sum over the places of clip(s_i - a_i, limit) scale_i x_i, s_i and a_i the slopes at w and at the anchor.

    With a curvature: s_i at anchor + w, and clipped to between 0 and curvature scale_i <x_i, w>.
    """
    numbers, codes, fields, _, _, constant, _, _, _, pairs, values, single = records
    v, old = inward(records, w), inward(records, anchor)
    total, s, a = np.zeros(v.shape[0] + 8), np.empty(TOGETHER), np.empty(TOGETHER)
    t, u = np.empty(TOGETHER), np.empty(TOGETHER)
    low, high = np.full(TOGETHER, -limit), np.full(TOGETHER, limit)
    for first in range(0, places.shape[0], TOGETHER):
        count = min(TOGETHER, places.shape[0] - first)
        margins(s, numbers, single, codes, fields, constant, places, first, count, v)
        entries(s, pairs, values, numbers.shape[0], places, first, count, v)
        margins(a, numbers, single, codes, fields, constant, places, first, count, old)
        entries(a, pairs, values, numbers.shape[0], places, first, count, old)
        for k in range(count):
            t[k], u[k] = y[np.uint64(places[first + k])], scale[np.uint64(places[first + k])]
        for k in range(count if curvature > 0.0 else 0):
            rise = curvature * (s[k] * u[k])
            s[k], low[k], high[k] = s[k] + a[k], min(rise, 0.0), max(rise, 0.0)
        slopes(s, loss, t, u, count)
        slopes(a, loss, t, u, count)
        for k in range(count):
            s[k] = min(max(s[k] - a[k], low[k]), high[k]) * u[k]
        add_records(total, numbers, single, codes, fields, constant, s, places, first, count)
        add_entries(total, pairs, values, numbers.shape[0], s, places, first, count)
    return outward(records, total)


@compiled(ANSWER(RECORDS, NUMBERS, PLACES))
def margins_of(records: Records, w: Vector, places: NDArray[np.int64]) -> Vector:
    """<x_i, w> for each of the places."""
    numbers, codes, fields, _, _, constant, _, _, _, pairs, values, single = records
    v, found = inward(records, w), np.empty(places.shape[0])
    margins(found, numbers, single, codes, fields, constant, places, 0, places.shape[0], v)
    entries(found, pairs, values, numbers.shape[0], places, 0, places.shape[0], v)
    return found


@compiled(ANSWER(RECORDS, NUMBERS, PLACES))
def weighted_sum(records: Records, weights: Vector, places: NDArray[np.int64]) -> Vector:
    """Sum over k of weights_k x_(places k)."""
    numbers, codes, fields, _, _, constant, _, _, _, pairs, values, single = records
    total = np.zeros(records[4] + 8)
    for first in range(0, places.shape[0], TOGETHER):
        count, own = min(TOGETHER, places.shape[0] - first), weights[first : first + TOGETHER]
        add_records(total, numbers, single, codes, fields, constant, own, places, first, count)
        add_entries(total, pairs, values, numbers.shape[0], own, places, first, count)
    return outward(records, total)


@compiled(types.float64(NUMBERS))
def length(v: Vector) -> float:
    """||v||_2, added up as a row's margin is."""
    d = v.shape[0]
    return math.sqrt(dot(v.reshape((1, d)), 0, v))
