"""Rows as they are multiplied with w, unfolded: for what needs them so, a few at a time."""

import numpy as np
from numpy.typing import NDArray

from solvers import kernels
from solvers.data_access.data import Data


def rows_of(data: Data, slots: slice | NDArray[np.int64] = slice(None)) -> NDArray[np.float64]:
    """Scaled, (m, d)."""
    if isinstance(slots, slice):
        slots = np.arange(*slots.indices(data.problem.slots))
    found: NDArray[np.float64] = kernels.dense_rows(data.records, data.scale, slots)
    return found
