"""Numbers as singles: half the bytes of doubles, and 24 of their 53 bits.

    s(c) = the single nearest to the code c that is in the range of the column's codes, and is 0 or at least 2^-126

s depends on one value and the declaration, so that neighbors remain neighbors. A rounded code lies in the declared
range, to the last bit, so that no bound changes. No single is subnormal, because some processors read those a hundred
times more slowly. Proof: docs/proofs/encoding.md.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from purse.wire.columns import Column, NumberColumn

Singles = NDArray[np.float32]

_SMALLEST_NORMAL = np.finfo(np.float32).smallest_normal


def ends(columns: Sequence[Column]) -> Singles:
    """Return the smallest and the largest single of each number's range, (2, p). Each range contains 0."""
    ranges = [column.code_range for column in columns if isinstance(column, NumberColumn)]
    exact = np.array(ranges, dtype=float).reshape(-1, 2).T
    rounded = exact.astype(np.float32)
    inside = np.where(np.abs(rounded) > np.abs(exact), np.nextafter(rounded, np.float32(0.0)), rounded)
    return np.where(np.abs(inside) < _SMALLEST_NORMAL, np.float32(0.0), inside)


def single(codes: NDArray[np.floating[Any]], within: Singles) -> Singles:
    """Return the rounded codes, (rows, p), each in its range."""
    rounded = codes.astype(np.float32)
    rounded[np.abs(rounded) < _SMALLEST_NORMAL] = 0.0
    return np.clip(rounded, within[0], within[1], out=rounded)
