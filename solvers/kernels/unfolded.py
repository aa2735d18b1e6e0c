"""The compiled loop that unfolds a few records into dense rows."""

import numpy as np
from numba import types

from solvers.kernels.build import compiled
from solvers.kernels.layout import BYTES, FIRST_BYTE, START, Indices, Records, Vector
from solvers.kernels.records import RECORDS, code
from solvers.kernels.slopes import INDICES, NUMBERS
from solvers.kernels.vectors import doubles, singles


@compiled(types.Array(types.float64, 2, "C")(RECORDS, NUMBERS, INDICES))
def dense_rows(records: Records, scale: Vector, rows: Indices) -> Vector:
    """Return the rows scale_i z_i of the given records, (len(rows), d), for code that needs a few of them unfolded."""
    positions, categories, size = records.positions, records.categories, records.size
    index, values, shrink = records.entry_index, records.entry_values, records.shrink
    n, d = records.numbers.shape[0], positions.shape[0]
    unfolded = np.zeros((rows.shape[0], d))
    short = singles(records.numbers)
    long = doubles(records.numbers)
    inner = np.empty(size)
    for r in range(rows.shape[0]):
        i = rows[r]
        inner[:] = 0.0
        for j in range(short.shape[1] if records.is_single else long.shape[1]):
            inner[j] = np.float64(short[i, j]) if records.is_single else long[i, j]
        for k in range(categories.shape[0]):
            own = code(records.codes, np.uint64(categories[k, FIRST_BYTE]), categories[k, BYTES], np.uint64(i))
            inner[np.uint64(categories[k, START]) + own] = 1.0
        if index.shape[0] > 0:
            for q in range(index[i], index[i + 1]):
                inner[index[n + 1 + q]] += values[q]
        if records.constant == 1:
            inner[size - 1] = 1.0
        for j in range(d):
            unfolded[r, j] = inner[positions[j]] * scale[i]
        for j in range(shrink.shape[0]):
            unfolded[r, j] = (inner[positions[j]] - records.center[j]) * shrink[j] * scale[i]
        unfolded[r, d - 1] *= records.intercept
    return unfolded
