"""Sums of limited slopes: a record's term depends on its own row and on public numbers alone, bit for bit.

Every record takes the same work: one margin for each output, one slope, one addition. Each row i has the limit
`limit * inverse_norms[i]` on its slope. Proof: docs/proofs/adaptive_gd.md.
"""

import math

import numpy as np
from numba import types

from solvers.kernels.build import compiled
from solvers.kernels.exponential import exp
from solvers.kernels.layout import FramedExamples, Records, Slope, Vector
from solvers.kernels.records import PADDING, RECORDS, add_records, from_storage_order, margins, to_storage_order
from solvers.kernels.slopes import ANSWER, NUMBERS, SLOPE, slopes
from solvers.kernels.sums import TOGETHER

SMALLEST_DIVISOR = 1e-300  # below every limit on a row; avoids a division by 0 where the limit is 0
_POINTS = types.Array(types.float64, 2, "C", readonly=True)
_EXAMPLES = types.NamedTuple((RECORDS, NUMBERS, NUMBERS), FramedExamples)


@compiled(ANSWER(_EXAMPLES, types.float64, NUMBERS, types.int64, types.int64))
def logistic_sum(examples: FramedExamples, limit: float, w: Vector, start: int, stop: int) -> Vector:
    """Return the sum over start <= i < stop of t_i z_i, t_i the logistic slope weighted down to the row's limit."""
    records, y, inverse = examples.records, examples.targets, examples.inverse_norms
    v = to_storage_order(records, w)
    total = np.zeros(v.shape[0] + PADDING)
    t = np.empty(TOGETHER)
    rows = np.arange(start, stop)
    for first in range(start, stop, TOGETHER):
        count = min(TOGETHER, stop - first)
        margins(t, records, rows, first - start, count, v)
        for k in range(count):
            i = first + k
            s = 1.0 / (1.0 + exp(y[i] * t[k]))
            allowed = limit * inverse[i]
            t[k] = min(max(-y[i] * (s * min(1.0, allowed / max(s, 1.0 - s))), -allowed), allowed)
        add_records(total, records, t, rows, first - start, count)
    return from_storage_order(records, total)


@compiled(ANSWER(_EXAMPLES, types.float64, NUMBERS, types.int64, types.int64))
def squared_sum(examples: FramedExamples, limit: float, w: Vector, start: int, stop: int) -> Vector:
    """Return the sum over start <= i < stop of t_i z_i, t_i the residual clipped to the row's limit."""
    records, y, inverse = examples.records, examples.targets, examples.inverse_norms
    v = to_storage_order(records, w)
    total = np.zeros(v.shape[0] + PADDING)
    t = np.empty(TOGETHER)
    rows = np.arange(start, stop)
    for first in range(start, stop, TOGETHER):
        count = min(TOGETHER, stop - first)
        margins(t, records, rows, first - start, count, v)
        for k in range(count):
            allowed = limit * inverse[first + k]
            t[k] = min(max(t[k] - y[first + k], -allowed), allowed)
        add_records(total, records, t, rows, first - start, count)
    return from_storage_order(records, total)


@compiled(ANSWER(_EXAMPLES, types.float64, SLOPE, NUMBERS, types.int64, types.int64))
def bounded_sum(examples: FramedExamples, limit: float, loss: Slope, w: Vector, start: int, stop: int) -> Vector:
    """Return the sum over start <= i < stop of t_i z_i, t_i a bounded slope weighted down to the row's limit.

    The weight min(1, limit inverse_i / bound of the slope) depends on the row alone, not on w or the target.
    """
    records, y, inverse = examples.records, examples.targets, examples.inverse_norms
    v = to_storage_order(records, w)
    total = np.zeros(v.shape[0] + PADDING)
    t = np.empty(TOGETHER)
    targets = np.empty(TOGETHER)
    weights = np.ones(TOGETHER)
    rows = np.arange(start, stop)
    for first in range(start, stop, TOGETHER):
        count = min(TOGETHER, stop - first)
        margins(t, records, rows, first - start, count, v)
        for k in range(count):
            targets[k] = y[first + k]
        slopes(t, loss, targets, weights, count)
        for k in range(count):
            allowed = limit * inverse[first + k]
            t[k] = min(max(t[k] * min(1.0, allowed / loss.bound), -allowed), allowed)
        add_records(total, records, t, rows, first - start, count)
    return from_storage_order(records, total)


@compiled(types.Array(types.float64, 2, "C")(
    _EXAMPLES, types.float64, _POINTS, types.int64, types.int64
))  # fmt: skip
def softmax_sum(examples: FramedExamples, limit: float, W: Vector, start: int, stop: int) -> Vector:
    """Return the sum over start <= i < stop of t_i z_i', (K, d).

    t_i is omega (p - e_y), shortened to the row's limit.
    omega = min(1, limit inverse_i / max over y of ||p - e_y||) is the same for every label.
    """
    records, y, inverse = examples.records, examples.targets, examples.inverse_norms
    outputs = W.shape[0]
    V = np.empty((outputs, records.size))
    total = np.zeros((outputs, records.size + PADDING))
    for k in range(outputs):
        V[k] = to_storage_order(records, W[k])
    p = np.empty((outputs, TOGETHER))
    highest = np.empty(TOGETHER)
    lowest = np.empty(TOGETHER)
    mass = np.empty(TOGETHER)
    square = np.empty(TOGETHER)
    allowed = np.empty(TOGETHER)
    factor = np.empty(TOGETHER)
    rows = np.arange(start, stop)
    for first in range(start, stop, TOGETHER):
        count = min(TOGETHER, stop - first)
        highest[:], lowest[:], mass[:], square[:] = -math.inf, 1.0, 0.0, 0.0
        for k in range(outputs):
            margins(p[k], records, rows, first - start, count, V[k])
            for j in range(count):
                highest[j] = max(highest[j], p[k, j])
        for k in range(outputs):
            for j in range(count):
                p[k, j] = exp(p[k, j] - highest[j])
                mass[j] += p[k, j]
        for k in range(outputs):
            for j in range(count):
                p[k, j] /= mass[j]
                lowest[j] = min(lowest[j], p[k, j])
                square[j] += p[k, j] * p[k, j]
        for j in range(count):
            allowed[j] = limit * inverse[first + j]
            factor[j] = min(1.0, allowed[j] / math.sqrt(square[j] + 1.0 - 2.0 * lowest[j]))
            p[int(y[first + j]), j] -= 1.0
            square[j] = 0.0
        for k in range(outputs):
            for j in range(count):
                p[k, j] *= factor[j]
                square[j] += p[k, j] * p[k, j]
        for j in range(count):
            factor[j] = allowed[j] / max(math.sqrt(square[j]), allowed[j], SMALLEST_DIVISOR)
        for k in range(outputs):
            for j in range(count):
                p[k, j] *= factor[j]
            add_records(total[k], records, p[k], rows, first - start, count)
    result = np.empty((outputs, W.shape[1]))
    for k in range(outputs):
        result[k] = from_storage_order(records, total[k])
    return result


@compiled(types.float64(RECORDS, NUMBERS, NUMBERS, NUMBERS, types.float64, types.int64, types.int64))
def residual_sum(records: Records, y: Vector, scale: Vector, w: Vector, cap: float, start: int, stop: int) -> float:
    """Return the sum over start <= i < stop with scale_i > 0 of min(|<z_i, w> - y_i|, cap)."""
    v = to_storage_order(records, w)
    total = 0.0
    m = np.empty(1)
    row = np.empty(1, np.int64)
    for i in range(start, stop):
        row[0] = i
        margins(m, records, row, 0, 1, v)
        total += min(abs(m[0] - y[i]), cap) * (1.0 if scale[i] > 0.0 else 0.0)
    return total
