"""Compiled loops over centered numbers of sparse rows: a number of x - m without an entry is -m_j.

The terms between two entries are looked up in a table of sums. They have one sign and are never subtracted, so nothing
cancels, and the work grows with the number of entries alone. Proofs: docs/proofs/oracle.md, standardisation.md.
"""

import math

import numpy as np
from numba import types

from solvers.kernels.build import compiled, inlined
from solvers.kernels.layout import Records, Vector
from solvers.kernels.records import RECORDS
from solvers.kernels.slopes import ANSWER, NUMBERS

_TABLE = types.Array(types.float64, 2, "C", readonly=True)


@compiled(types.Array(types.float64, 2, "C")(NUMBERS))
def spans(terms: Vector) -> Vector:
    """Return a table from which `between` reads the sum of the terms between any two of the positions 0, ..., p + 1.

    The terms are at the positions 1, ..., p. Row k divides the positions into blocks of 2^(k + 1). In a block's first
    half it holds the sum from the next position up to the middle, in the second half the sum from the middle on.
    """
    ends, levels = terms.shape[0] + 2, 1
    while (1 << levels) < ends:
        levels += 1
    table = np.zeros((levels, ends))
    for k in range(levels):
        half = 1 << k
        for middle in range(half, ends, 2 * half):
            for position in range(middle - 2, middle - half - 1, -1):
                table[k, position] = table[k, position + 1] + terms[position]
            for position in range(middle + 1, min(middle + half, ends)):
                table[k, position] = table[k, position - 1] + terms[position - 2]
    return table


@inlined
def between(table: Vector, a: int, b: int) -> float:
    """Return the sum of the terms after position a and before position b > a.

    Both positions lie in the two halves of the smallest block that holds them.
    """
    k = math.frexp(float(a ^ b))[1] - 1
    total: float = table[k, a] + table[k, b]
    return total


@compiled(types.float64(_TABLE, NUMBERS, NUMBERS, RECORDS, types.int64))
def from_center(table: Vector, weights: Vector, center: Vector, records: Records, i: int) -> float:
    """Return the sum over j of weights_j (x_ij - m_j)^2 of record i; the table is `spans` of weights_j m_j^2."""
    index, values = records.entry_index, records.entry_values
    entries = records.numbers.shape[0] + 1
    own, missing, last = 0.0, 0.0, 0
    for q in range(index[i], index[i + 1]):
        j = index[entries + q]
        own += weights[j] * ((values[q] - center[j]) * (values[q] - center[j]))
        missing += between(table, last, j + 1)
        last = j + 1
    return own + (missing + between(table, last, table.shape[1] - 1))


@compiled(ANSWER(RECORDS, NUMBERS, types.int64, types.int64))
def distances(records: Records, center: Vector, start: int, stop: int) -> Vector:
    """Return the sum over j of (x_ij - m_j)^2 for start <= i < stop."""
    table = spans(center * center)
    weights = np.ones(center.shape[0])
    result = np.empty(stop - start)
    for i in range(start, stop):
        result[i - start] = from_center(table, weights, center, records, i)
    return result


@compiled(ANSWER(RECORDS, NUMBERS, NUMBERS, types.int64))
def square_sums(records: Records, center: Vector, weights: Vector, start: int) -> Vector:
    """Return the sum over k of weights_k (x_(start + k) - m) o (x_(start + k) - m).

    For each number, the records with an entry are added one after the other. The weight of the records between them is
    looked up and multiplied by m_j^2 once.
    """
    index, values = records.entry_index, records.entry_values
    entries = records.numbers.shape[0] + 1
    table = spans(weights)
    last = np.zeros(center.shape[0], np.int64)
    own = np.zeros(center.shape[0])
    missing = np.zeros(center.shape[0])
    for k in range(weights.shape[0]):
        for q in range(index[start + k], index[start + k + 1]):
            j = index[entries + q]
            own[j] += weights[k] * ((values[q] - center[j]) * (values[q] - center[j]))
            missing[j] += between(table, last[j], k + 1)
            last[j] = k + 1
    for j in range(center.shape[0]):
        missing[j] += between(table, last[j], table.shape[1] - 1)
        own[j] += missing[j] * (center[j] * center[j])
    return own
