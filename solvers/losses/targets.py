"""From a record's target to one that a loss knows: maps of each record alone."""

import numpy as np
from numpy.typing import NDArray


def classes(y: NDArray[np.float64]) -> NDArray[np.float64]:
    """+1 where y is positive, else -1 (NaN included)."""
    return np.where(y > 0, 1.0, -1.0)


def numbers(y: NDArray[np.float64]) -> NDArray[np.float64]:
    """y, with 0 for NaN and the largest floats for infinities."""
    return np.nan_to_num(y)
