"""Compiled loops of released frames: how long records are in one."""

import math

import numpy as np

from solvers.kernels.build import compiled
from solvers.kernels.records import RECORDS, Records, code
from solvers.kernels.slopes import ANSWER, Vector


@compiled(ANSWER(RECORDS))
def inverse_norms(records: Records) -> Vector:
    """1 / ||z_i|| of every record in its frame: of terms of one sign, a table's entry for each category."""
    numbers, codes, fields, places, _, _, center, scale, constant, _, _ = records
    squares, at = np.zeros(records[4]), np.zeros(records[4])
    for j in range(scale.shape[0]):
        squares[places[j]], at[places[j]] = scale[j] * scale[j], center[j]
    table = np.zeros(records[4])
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
    inverse = np.empty(numbers.shape[0])
    for i in range(numbers.shape[0]):
        total = constant * constant
        for j in range(numbers.shape[1]):
            total += squares[j] * ((numbers[i, j] - at[j]) * (numbers[i, j] - at[j]))
        for k in range(fields.shape[0]):
            at_code = code(codes, np.uint64(fields[k, 0]), fields[k, 1], np.uint64(i))
            total += table[np.uint64(fields[k, 2]) + at_code]
        inverse[i] = 1.0 / math.sqrt(total)
    return inverse
