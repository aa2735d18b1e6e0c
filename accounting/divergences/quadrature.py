"""The Gauss-Legendre rule by which Renyi divergences of sampled answers are integrated."""

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

_NODES = 64

Vector = NDArray[np.float64]


@lru_cache(maxsize=1)
def legendre() -> tuple[Vector, Vector]:
    """Return 64 nodes and weights on [-1, 1], which take an eigenvalue problem."""
    return np.polynomial.legendre.leggauss(_NODES)
