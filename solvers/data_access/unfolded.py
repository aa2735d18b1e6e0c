"""Unfolded rows, a few at a time, for computations that need them dense."""

import numpy as np
from numpy.typing import NDArray

from solvers import kernels
from solvers.data_access.data import Data


def rows_of(data: Data, slots: slice | NDArray[np.int64] = slice(None)) -> NDArray[np.float64]:
    """Return the scaled rows of some slots, (m, d)."""
    if isinstance(slots, slice):
        slots = np.arange(*slots.indices(data.problem.slots))
    return kernels.dense_rows(data.records, data.scale, slots)
