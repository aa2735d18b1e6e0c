"""Compiled loops of limited slopes: what a record adds is a function of its row and public numbers alone, bit for bit.

The work is the same for every record: one margin for each output, one slope, one addition. docs/proofs/adaptive_gd.md.
"""

import math

import numpy as np
from numba import types

from solvers.kernels.build import compiled
from solvers.kernels.lanes import dot
from solvers.kernels.slopes import ANSWER, NUMBERS, Vector
from solvers.kernels.sums import ROWS, add_rows

_TOGETHER = 16
_SEVERAL = types.Array(types.float64, 2, "C", readonly=True)


@compiled(ANSWER(ROWS, NUMBERS, NUMBERS, types.float64))
def inverse_norms(X: Vector, center: Vector, squares: Vector, constant: float) -> Vector:
    """1 / ||(a o (x_i - m), c)|| of every row, squares = a o a; the last column of X is not read."""
    inverse = np.empty(X.shape[0])
    for i in range(X.shape[0]):
        total = constant * constant
        for j in range(center.shape[0]):
            total += squares[j] * ((X[i, j] - center[j]) * (X[i, j] - center[j]))
        inverse[i] = 1.0 / math.sqrt(total)
    return inverse


@compiled(ANSWER(ROWS, NUMBERS, NUMBERS, types.float64, NUMBERS, types.boolean, types.int64, types.int64))
def scalar_sum(
    X: Vector, y: Vector, inverse: Vector, limit: float, v: Vector, classes: bool, start: int, stop: int
) -> Vector:
    """Sum over start <= i < stop of t_i x_i, |t_i| <= limit inverse_i: weighted slopes, or cut residuals."""
    d = v.shape[0]
    total, t, places = np.zeros(d + 8), np.empty(_TOGETHER), np.empty(_TOGETHER, np.int64)
    for first in range(start, stop, _TOGETHER):
        count = min(_TOGETHER, stop - first)
        for k in range(count):
            i = first + k
            places[k] = i
            margin, allowed = dot(X, i, v), limit * inverse[i]
            if classes:
                s = 1.0 / (1.0 + math.exp(y[i] * margin))
                slope = -y[i] * (s * min(1.0, allowed / max(s, 1.0 - s)))
            else:
                slope = margin - y[i]
            t[k] = min(max(slope, -allowed), allowed)
        add_rows(total, t, places, count, X)
    return total[:d].copy()


@compiled(types.Array(types.float64, 2, "C")(ROWS, NUMBERS, NUMBERS, types.float64, _SEVERAL, types.int64, types.int64))
def softmax_sum(X: Vector, y: Vector, inverse: Vector, limit: float, V: Vector, start: int, stop: int) -> Vector:
    """Sum over start <= i < stop of t_i x_i', (K, d), t_i = omega (p - e_y), ||t_i|| <= limit inverse_i.

    omega = min(1, limit inverse_i / max over y of ||p - e_y||): the same for every label.
    """
    outputs, d = V.shape
    total, p = np.zeros((outputs, d)), np.empty(outputs)
    for i in range(start, stop):
        highest = -math.inf
        for k in range(outputs):
            p[k] = dot(X, i, V[k])
            highest = max(highest, p[k])
        mass = 0.0
        for k in range(outputs):
            p[k] = math.exp(p[k] - highest)
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
        cut = allowed / max(math.sqrt(square), allowed)
        for k in range(outputs):
            factor = p[k] * cut
            for j in range(d):
                total[k, j] += factor * X[i, j]
    return total


@compiled(types.float64(ROWS, NUMBERS, NUMBERS, types.float64, types.int64, types.int64))
def residual_sum(X: Vector, y: Vector, v: Vector, most: float, start: int, stop: int) -> float:
    """Sum over start <= i < stop of min(|<x_i, v> - y_i|, most)."""
    total = 0.0
    for i in range(start, stop):
        total += min(abs(dot(X, i, v) - y[i]), most)
    return total
