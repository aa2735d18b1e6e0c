"""Compiled loops of released frames: how long records are in one."""

import math

import numpy as np

from solvers.kernels.build import compiled
from solvers.kernels.lanes import doubles, singles
from solvers.kernels.records import RECORDS, Records, code
from solvers.kernels.slopes import ANSWER, Vector
from solvers.kernels.sparse import from_center, spans


@compiled(ANSWER(RECORDS))
def inverse_norms(records: Records) -> Vector:
    """1 / ||z_i|| of every record in its frame: of terms of one sign, a table's entry for each category."""
    numbers, codes, fields, places, size, _, center, scale, constant, pairs, values, single = records
    squares, at = np.zeros(size), np.zeros(size)
    for j in range(scale.shape[0]):
        squares[places[j]], at[places[j]] = scale[j] * scale[j], center[j]
    table = np.zeros(size)
    for k in range(fields.shape[0]):
        first, stop = fields[k, 2], fields[k, 2] + fields[k, 3]
        others = 0.0
        for j in range(first, stop):
            table[j] = others + squares[j] * ((1.0 - at[j]) * (1.0 - at[j]))
            others += squares[j] * (at[j] * at[j])
        others = 0.0
        for j in range(stop - 1, first - 1, -1):
            table[j] += others
            others += squares[j] * (at[j] * at[j])
    p = fields[0, 2] if fields.shape[0] > 0 else size - 1  # a frame has a constant
    p = p if pairs.shape[0] > 0 else 0
    missing = spans(squares[:p] * (at[:p] * at[:p]))
    short, long, inverse = singles(numbers), doubles(numbers), np.empty(numbers.shape[0])
    for i in range(numbers.shape[0]):
        total = constant * constant
        for j in range(short.shape[1] if single else long.shape[1]):
            far = (np.float64(short[i, j]) if single else long[i, j]) - at[j]
            total += squares[j] * (far * far)
        if pairs.shape[0] > 0:
            total += from_center(missing, squares, at, pairs, values, numbers.shape[0], i)
        for k in range(fields.shape[0]):
            at_code = code(codes, np.uint64(fields[k, 0]), fields[k, 1], np.uint64(i))
            total += table[np.uint64(fields[k, 2]) + at_code]
        inverse[i] = 1.0 / math.sqrt(total)
    return inverse
