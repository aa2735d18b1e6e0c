"""SplitMix64, a public function that spreads row numbers over all integers of 64 bits. It gives no privacy.

Reference: Steele, Lea and Flood 2014, Fast splittable pseudorandom number generators.
"""

import numpy as np
from numpy.typing import NDArray

_INCREMENT, _FIRST, _SECOND = (np.uint64(c) for c in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))


def mixed(rows: range, key: int = 0) -> NDArray[np.uint64]:
    """Return a number for each row index, the same on every machine. The numbers of one key are distinct."""
    with np.errstate(over="ignore"):
        z = np.arange(rows.start + 1, rows.stop + 1, dtype=np.uint64) * _INCREMENT + np.uint64(key)
        z = (z ^ (z >> np.uint64(30))) * _FIRST
        z = (z ^ (z >> np.uint64(27))) * _SECOND
        return z ^ (z >> np.uint64(31))
