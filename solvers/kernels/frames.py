"""The compiled loop for the norms of records in a released frame."""

import math

import numpy as np

from solvers.kernels.build import compiled
from solvers.kernels.layout import BYTES, FIRST_BYTE, LEVELS, START, Records, Vector
from solvers.kernels.records import RECORDS, code
from solvers.kernels.slopes import ANSWER
from solvers.kernels.sparse import from_center, spans
from solvers.kernels.vectors import doubles, singles


@compiled(ANSWER(RECORDS, ANSWER, ANSWER))
def _block_terms(records: Records, squares: Vector, center: Vector) -> Vector:
    """Return for each position of a category's block what a record with that code adds to its squared norm."""
    categories, table = records.categories, np.zeros(records.size)
    for k in range(categories.shape[0]):
        first, stop = categories[k, START], categories[k, START] + categories[k, LEVELS]
        sum_before = 0.0
        for j in range(first, stop):
            table[j] = sum_before + squares[j] * ((1.0 - center[j]) * (1.0 - center[j]))
            sum_before += squares[j] * (center[j] * center[j])
        sum_after = 0.0
        for j in range(stop - 1, first - 1, -1):
            table[j] += sum_after
            sum_after += squares[j] * (center[j] * center[j])
    return table


@compiled(ANSWER(RECORDS))
def inverse_norms(records: Records) -> Vector:
    """Return 1 / ||z_i|| of every record in its frame.

    Only terms of one sign are added, so nothing cancels. Each category adds one entry of a table.
    """
    categories, index, constant = records.categories, records.entry_index, records.intercept
    squares = np.zeros(records.size)
    center = np.zeros(records.size)
    for j in range(records.shrink.shape[0]):
        squares[records.positions[j]] = records.shrink[j] * records.shrink[j]
        center[records.positions[j]] = records.center[j]
    table = _block_terms(records, squares, center)
    numbers_end = categories[0, START] if categories.shape[0] > 0 else records.size - 1  # a frame has a constant
    numbers_end = numbers_end if index.shape[0] > 0 else 0
    missing = spans(squares[:numbers_end] * (center[:numbers_end] * center[:numbers_end]))
    n = records.numbers.shape[0]
    short = singles(records.numbers)
    long = doubles(records.numbers)
    inverse = np.empty(n)
    for i in range(n):
        total = constant * constant
        for j in range(short.shape[1] if records.is_single else long.shape[1]):
            distance = (np.float64(short[i, j]) if records.is_single else long[i, j]) - center[j]
            total += squares[j] * (distance * distance)
        if index.shape[0] > 0:
            total += from_center(missing, squares, center, records, i)
        for k in range(categories.shape[0]):
            own = code(records.codes, np.uint64(categories[k, FIRST_BYTE]), categories[k, BYTES], np.uint64(i))
            total += table[np.uint64(categories[k, START]) + own]
        inverse[i] = 1.0 / math.sqrt(total)
    return inverse
