"""The compiled loop that unfolds a few records."""

import numpy as np
from numba import types
from numpy.typing import NDArray

from solvers.kernels.build import compiled
from solvers.kernels.lanes import doubles, singles
from solvers.kernels.records import RECORDS, Records, code
from solvers.kernels.slopes import NUMBERS, PLACES, Vector


@compiled(types.Array(types.float64, 2, "C")(RECORDS, NUMBERS, PLACES))
def rows(records: Records, scale: Vector, places: NDArray[np.int64]) -> Vector:
    """The rows scale_i z_i of the given places, unfolded: for what needs them so, a few at a time."""
    numbers, codes, fields, to, size, constant, center, shrink, last, pairs, values, single = records
    d, unfolded = to.shape[0], np.zeros((places.shape[0], to.shape[0]))
    short, long, inner = singles(numbers), doubles(numbers), np.empty(size)
    for r in range(places.shape[0]):
        i = places[r]
        inner[:] = 0.0
        for j in range(short.shape[1] if single else long.shape[1]):
            inner[j] = np.float64(short[i, j]) if single else long[i, j]
        for k in range(fields.shape[0]):
            found = code(codes, np.uint64(fields[k, 0]), fields[k, 1], np.uint64(i))
            inner[np.uint64(fields[k, 2]) + found] = 1.0
        if pairs.shape[0] > 0:
            for q in range(pairs[i], pairs[i + 1]):
                inner[pairs[numbers.shape[0] + 1 + q]] += values[q]
        if constant == 1:
            inner[size - 1] = 1.0
        for j in range(d):
            unfolded[r, j] = inner[to[j]] * scale[i]
        for j in range(shrink.shape[0]):
            unfolded[r, j] = (inner[to[j]] - center[j]) * shrink[j] * scale[i]
        unfolded[r, d - 1] *= last
    return unfolded
