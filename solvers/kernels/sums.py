"""Sums over records of slopes times rows; docs/proofs/oracle.md builds on them.

The slope that these loops compute for a record depends on the record and on w alone, bit for bit: neither its position
nor the other records of its batch change it. Every margin is added up in the order of `records.margins`, and nothing is
contracted or reassociated (no fastmath). Every record costs the same operations.
"""

import math

import numpy as np
from numba import types

from solvers.kernels.build import compiled
from solvers.kernels.lanes import dot
from solvers.kernels.layout import Examples, Indices, Records, Slope, Vector
from solvers.kernels.records import PADDING, RECORDS, add_records, from_storage_order, margins, to_storage_order
from solvers.kernels.slopes import ANSWER, INDICES, NUMBERS, SLOPE, slopes

EXAMPLES = types.NamedTuple((RECORDS, NUMBERS, NUMBERS), Examples)
TOGETHER = 32  # rows whose margins, slopes and sum are computed in turn, while they stay in the cache


@compiled(ANSWER(EXAMPLES, INDICES, NUMBERS, SLOPE))
def gradient_sum(examples: Examples, rows: Indices, w: Vector, loss: Slope) -> Vector:
    """Return the sum over the rows of s_i scale_i x_i, s_i the slope at scale_i <x_i, w>; each row is read once."""
    records, y, scale = examples.records, examples.targets, examples.scale
    v = to_storage_order(records, w)
    total = np.zeros(v.shape[0] + PADDING)
    s = np.empty(TOGETHER)
    t = np.empty(TOGETHER)
    u = np.empty(TOGETHER)
    for first in range(0, rows.shape[0], TOGETHER):
        count = min(TOGETHER, rows.shape[0] - first)
        margins(s, records, rows, first, count, v)
        for k in range(count):
            t[k] = y[np.uint64(rows[first + k])]
            u[k] = scale[np.uint64(rows[first + k])]
        slopes(s, loss, t, u, count)
        for k in range(count):
            s[k] *= u[k]
        add_records(total, records, s, rows, first, count)
    return from_storage_order(records, total)


@compiled(ANSWER(EXAMPLES, INDICES, NUMBERS, NUMBERS, SLOPE, types.float64, types.float64))
def change_sum(
    examples: Examples, rows: Indices, w: Vector, anchor: Vector, loss: Slope, limit: float, curvature: float
) -> Vector:
    """Return the sum over the rows of clip(s_i - a_i, limit) scale_i x_i, s_i and a_i the slopes at w and the anchor.

    With a curvature > 0, s_i is the slope at anchor + w, and the change is clipped to between 0 and
    curvature scale_i <x_i, w>.
    """
    records, y, scale = examples.records, examples.targets, examples.scale
    v = to_storage_order(records, w)
    v_anchor = to_storage_order(records, anchor)
    total = np.zeros(v.shape[0] + PADDING)
    s = np.empty(TOGETHER)
    a = np.empty(TOGETHER)
    t = np.empty(TOGETHER)
    u = np.empty(TOGETHER)
    low = np.full(TOGETHER, -limit)
    high = np.full(TOGETHER, limit)
    for first in range(0, rows.shape[0], TOGETHER):
        count = min(TOGETHER, rows.shape[0] - first)
        margins(s, records, rows, first, count, v)
        margins(a, records, rows, first, count, v_anchor)
        for k in range(count):
            t[k] = y[np.uint64(rows[first + k])]
            u[k] = scale[np.uint64(rows[first + k])]
        for k in range(count if curvature > 0.0 else 0):
            rise = curvature * (s[k] * u[k])
            s[k] += a[k]
            low[k] = min(rise, 0.0)
            high[k] = max(rise, 0.0)
        slopes(s, loss, t, u, count)
        slopes(a, loss, t, u, count)
        for k in range(count):
            s[k] = min(max(s[k] - a[k], low[k]), high[k]) * u[k]
        add_records(total, records, s, rows, first, count)
    return from_storage_order(records, total)


@compiled(ANSWER(RECORDS, NUMBERS, INDICES))
def margins_of(records: Records, w: Vector, rows: Indices) -> Vector:
    """Return <x_i, w> for each of the rows."""
    v = to_storage_order(records, w)
    result = np.empty(rows.shape[0])
    margins(result, records, rows, 0, rows.shape[0], v)
    return result


@compiled(ANSWER(RECORDS, NUMBERS, INDICES))
def weighted_sum(records: Records, weights: Vector, rows: Indices) -> Vector:
    """Return the sum over k of weights_k x_(rows k)."""
    total = np.zeros(records.size + PADDING)
    for first in range(0, rows.shape[0], TOGETHER):
        count = min(TOGETHER, rows.shape[0] - first)
        add_records(total, records, weights[first : first + TOGETHER], rows, first, count)
    return from_storage_order(records, total)


@compiled(types.float64(NUMBERS))
def length(v: Vector) -> float:
    """Return ||v||_2, added up as a row's margin is."""
    d = v.shape[0]
    return math.sqrt(dot(v.reshape((1, d)), 0, v))
