"""Rows as they are multiplied with w, unfolded: for what needs them so, a few at a time."""

import numpy as np
from numpy.typing import NDArray

from solvers import kernels
from solvers.data_access.data import Data


def rows_of(data: Data, places: slice | NDArray[np.int64] = slice(None)) -> NDArray[np.float64]:
    """Scaled, (m, d)."""
    if isinstance(places, slice):
        places = np.arange(*places.indices(data.problem.places))
    found: NDArray[np.float64] = kernels.dense_rows(data.records, data.scale, places)
    return found
