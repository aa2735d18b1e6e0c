"""Compiled loops over centred numbers of which only entries are stored: in x - m those that are not there are -m_j.

What lies between two entries is looked up. It is a sum of terms of one sign and no difference is made, so nothing
cancels; the work follows the number of entries alone. Docs: docs/proofs/oracle.md, docs/proofs/standardisation.md.
"""

import math

import numpy as np
from numba import types

from solvers.kernels.build import compiled, inlined
from solvers.kernels.records import RECORDS, Places, Records
from solvers.kernels.slopes import ANSWER, NUMBERS, PLACES, Vector

_TABLE = types.Array(types.float64, 2, "C", readonly=True)


@compiled(types.Array(types.float64, 2, "C")(NUMBERS))
def spans(terms: Vector) -> Vector:
    """Sums of the terms at places 1, ..., p between any two of the places 0, ..., p + 1: see `between`.

    Row k is of blocks of 2^(k + 1) places: at a place before a block's middle what comes after it, up to there; at any
    other what comes before it, from the middle on.
    """
    ends, levels = terms.shape[0] + 2, 1
    while (1 << levels) < ends:
        levels += 1
    table = np.zeros((levels, ends))
    for k in range(levels):
        half = 1 << k
        for middle in range(half, ends, 2 * half):
            for place in range(middle - 2, middle - half - 1, -1):
                table[k, place] = table[k, place + 1] + terms[place]
            for place in range(middle + 1, min(middle + half, ends)):
                table[k, place] = table[k, place - 1] + terms[place - 2]
    return table


@inlined
def between(table: Vector, a: int, b: int) -> float:
    """The terms after place a and before place b > a: of the least block that holds both, they lie in its halves."""
    k = math.frexp(float(a ^ b))[1] - 1
    found: float = table[k, a] + table[k, b]
    return found


@compiled(types.float64(_TABLE, NUMBERS, NUMBERS, PLACES, NUMBERS, types.int64, types.int64))
def from_center(table: Vector, weights: Vector, center: Vector, pairs: Places, values: Vector, n: int, i: int) -> float:
    """The sum over j of weights_j (x_ij - m_j)^2 of record i, table the spans of weights_j m_j^2; entries in order."""
    found, others, last = 0.0, 0.0, 0
    for q in range(pairs[i], pairs[i + 1]):
        j = pairs[n + 1 + q]
        found += weights[j] * ((values[q] - center[j]) * (values[q] - center[j]))
        others += between(table, last, j + 1)
        last = j + 1
    return found + (others + between(table, last, table.shape[1] - 1))


@compiled(ANSWER(RECORDS, NUMBERS, types.int64, types.int64))
def distances(records: Records, center: Vector, start: int, stop: int) -> Vector:
    """The sum over j of (x_ij - m_j)^2 for start <= i < stop."""
    table, weights, found = spans(center * center), np.ones(center.shape[0]), np.empty(stop - start)
    for i in range(start, stop):
        found[i - start] = from_center(table, weights, center, records[9], records[10], records[0].shape[0], i)
    return found


@compiled(ANSWER(RECORDS, NUMBERS, NUMBERS, types.int64))
def square_sums(records: Records, center: Vector, weights: Vector, start: int) -> Vector:
    """Sum over k of weights_k (x_(start + k) - m) o (x_(start + k) - m): of each number, those with an entry one after
    the other; what the records between them weigh is looked up, and multiplied with m_j^2 once.
    """
    numbers, _, _, _, _, _, _, _, _, pairs, values, _ = records
    table, last = spans(weights), np.zeros(center.shape[0], np.int64)
    found, others = np.zeros(center.shape[0]), np.zeros(center.shape[0])
    for k in range(weights.shape[0]):
        for q in range(pairs[start + k], pairs[start + k + 1]):
            j = pairs[numbers.shape[0] + 1 + q]
            found[j] += weights[k] * ((values[q] - center[j]) * (values[q] - center[j]))
            others[j] += between(table, last[j], k + 1)
            last[j] = k + 1
    for j in range(center.shape[0]):
        others[j] += between(table, last[j], table.shape[1] - 1)
        found[j] += others[j] * (center[j] * center[j])
    return found
