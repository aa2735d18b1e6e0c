"""Numbers as singles: half the bytes of doubles, and 24 of their 53 bits.

    s(c) = the single nearest to the code c that is in the range of the column's codes, and 0 or 2^-126 at least

A function of one value and of the declaration, so neighbors stay neighbors. What is rounded still lies within the range
that the declaration gives, to the last bit: no bound knows of it. No single is subnormal, which some processors would
take a hundred times as long to read. Proof: docs/proofs/encoding.md.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from purse.wire.columns import Column, NumberColumn

Singles = NDArray[np.float32]

_LEAST = np.finfo(np.float32).smallest_normal


def ends(columns: Sequence[Column]) -> Singles:
    """(2, p), the least and the greatest single of each number's range, which holds 0; neither is subnormal."""
    ranges = [column.code_range for column in columns if isinstance(column, NumberColumn)]
    exact = np.array(ranges, dtype=float).reshape(-1, 2).T
    found = exact.astype(np.float32)
    found = np.where(np.abs(found) > np.abs(exact), np.nextafter(found, np.float32(0.0)), found)
    return np.where(np.abs(found) < _LEAST, np.float32(0.0), found)


def single(codes: NDArray[np.floating[Any]], within: Singles) -> Singles:
    """The rounded codes, (rows, p), each in its range."""
    found = codes.astype(np.float32)
    found[np.abs(found) < _LEAST] = 0.0
    return np.clip(found, within[0], within[1], out=found)
