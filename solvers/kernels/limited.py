"""Compiled loops of limited slopes: what a record adds is a function of its row and public numbers alone, bit for bit.

The work is the same for every record: one margin for each output, one slope, one addition. docs/proofs/adaptive_gd.md.
"""

import math

import numpy as np
from numba import types

from solvers.kernels.build import compiled
from solvers.kernels.exponential import exp
from solvers.kernels.records import RECORDS, Records, add_entries, add_records, entries, inward, margins, outward
from solvers.kernels.slopes import ANSWER, NUMBERS, Vector
from solvers.kernels.sums import TOGETHER

LEAST = 1e-300  # below every limit on a row: where there is none, with the limit 0, nothing is divided by 0
_SEVERAL = types.Array(types.float64, 2, "C", readonly=True)


@compiled(ANSWER(RECORDS, NUMBERS, NUMBERS, types.float64, NUMBERS, types.boolean, types.int64, types.int64))
def scalar_sum(
    records: Records, y: Vector, inverse: Vector, limit: float, w: Vector, classes: bool, start: int, stop: int
) -> Vector:
    """Sum over start <= i < stop of t_i z_i, |t_i| <= limit inverse_i: weighted slopes, or cut residuals."""
    numbers, codes, fields, _, _, constant, _, _, _, pairs, values, single = records
    v = inward(records, w)
    total, t, places = np.zeros(v.shape[0] + 8), np.empty(TOGETHER), np.arange(start, stop)
    for first in range(start, stop, TOGETHER):
        count = min(TOGETHER, stop - first)
        margins(t, numbers, single, codes, fields, constant, places, first - start, count, v)
        entries(t, pairs, values, numbers.shape[0], places, first - start, count, v)
        if classes:
            for k in range(count):
                i = first + k
                s, allowed = 1.0 / (1.0 + exp(y[i] * t[k])), limit * inverse[i]
                t[k] = min(max(-y[i] * (s * min(1.0, allowed / max(s, 1.0 - s))), -allowed), allowed)
        else:
            for k in range(count):
                i = first + k
                t[k] = min(max(t[k] - y[i], -limit * inverse[i]), limit * inverse[i])
        add_records(total, numbers, single, codes, fields, constant, t, places, first - start, count)
        add_entries(total, pairs, values, numbers.shape[0], t, places, first - start, count)
    return outward(records, total)


@compiled(types.Array(types.float64, 2, "C")(
    RECORDS, NUMBERS, NUMBERS, types.float64, _SEVERAL, types.int64, types.int64
))  # fmt: skip
def softmax_sum(records: Records, y: Vector, inverse: Vector, limit: float, W: Vector, start: int, stop: int) -> Vector:
    """Sum over start <= i < stop of t_i z_i', (K, d), t_i = omega (p - e_y), ||t_i|| <= limit inverse_i.

    omega = min(1, limit inverse_i / max over y of ||p - e_y||): the same for every label.
    """
    numbers, codes, fields, _, size, constant, _, _, _, pairs, values, single = records
    outputs = W.shape[0]
    V, total = np.empty((outputs, size)), np.zeros((outputs, size + 8))
    for k in range(outputs):
        V[k] = inward(records, W[k])
    p, s, at = np.empty(outputs), np.empty(1), np.empty(1, np.int64)
    for i in range(start, stop):
        at[0] = i
        highest = -math.inf
        for k in range(outputs):
            margins(s, numbers, single, codes, fields, constant, at, 0, 1, V[k])
            entries(s, pairs, values, numbers.shape[0], at, 0, 1, V[k])
            p[k] = s[0]
            highest = max(highest, p[k])
        mass = 0.0
        for k in range(outputs):
            p[k] = exp(p[k] - highest)
            mass += p[k]
        least, square = 1.0, 0.0
        for k in range(outputs):
            p[k] /= mass
            least = min(least, p[k])
            square += p[k] * p[k]
        allowed = limit * inverse[i]
        weight = min(1.0, allowed / math.sqrt(square + 1.0 - 2.0 * least))
        p[int(y[i])] -= 1.0
        square = 0.0
        for k in range(outputs):
            p[k] *= weight
            square += p[k] * p[k]
        cut = allowed / max(math.sqrt(square), allowed, LEAST)
        for k in range(outputs):
            s[0] = p[k] * cut
            add_records(total[k], numbers, single, codes, fields, constant, s, at, 0, 1)
            add_entries(total[k], pairs, values, numbers.shape[0], s, at, 0, 1)
    found = np.empty((outputs, W.shape[1]))
    for k in range(outputs):
        found[k] = outward(records, total[k])
    return found


@compiled(types.float64(RECORDS, NUMBERS, NUMBERS, NUMBERS, types.float64, types.int64, types.int64))
def residual_sum(records: Records, y: Vector, scale: Vector, w: Vector, most: float, start: int, stop: int) -> float:
    """Sum over start <= i < stop with scale_i > 0 of min(|<z_i, w> - y_i|, most)."""
    numbers, codes, fields, _, _, constant, _, _, _, pairs, values, single = records
    v, total, m, at = inward(records, w), 0.0, np.empty(1), np.empty(1, np.int64)
    for i in range(start, stop):
        at[0] = i
        margins(m, numbers, single, codes, fields, constant, at, 0, 1, v)
        entries(m, pairs, values, numbers.shape[0], at, 0, 1, v)
        total += min(abs(m[0] - y[i]), most) * (1.0 if scale[i] > 0.0 else 0.0)
    return total
