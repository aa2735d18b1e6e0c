"""Exact uniform choices from the stream of a `Noise`: words that would favor a value are drawn again.

The time of a choice depends only on fresh bits and public numbers.
"""

import numpy as np
from numpy.typing import NDArray

from accounting.errors import OutOfRange
from accounting.noise.source import Noise


def uniform_below(noise: Noise, total: int) -> int:
    """Return a uniform integer in [0, total).

    Numbers of just enough bits are drawn until one is below `total`. Each try succeeds with probability over 1/2.
    """
    if total < 1:
        raise OutOfRange("total must be at least 1")
    bits = (total - 1).bit_length()
    count = (bits + 63) // 64
    while True:
        drawn = integer(noise, count) >> 64 * count - bits
        if drawn < total:
            return drawn


def integer(noise: Noise, words: int) -> int:
    """Return a uniform integer of 64 bits for each of `words` words."""
    return int.from_bytes(noise.words(words).tobytes(), "little")


def uniform_indices(noise: Noise, count: int, limit: int) -> NDArray[np.int64]:
    """Return `count` independent integers, uniform on 0..limit - 1.

    Words above the last whole multiple of `limit` are drawn again.
    """
    if not 1 <= limit < 1 << 40:
        raise OutOfRange("limit must lie in [1, 2^40)")
    last_accepted = np.uint64((1 << 64) // limit * limit - 1)
    words = noise.words(count).copy()
    while len(rejected := np.flatnonzero(words > last_accepted)):
        words[rejected] = noise.words(len(rejected))
    return (words % np.uint64(limit)).astype(np.int64)


def ordered_rows(noise: Noise, n: int, count: int) -> NDArray[np.int64]:
    """Return `count` distinct rows of n in uniformly random order.

    They are the first rows when sorted by independent random keys. If all keys differ, every order is equally likely,
    so keys are drawn again until they differ.
    """
    if not 0 <= count <= n:
        raise OutOfRange("count must lie in [0, n]")
    while True:
        keys = noise.words(n)
        order = np.argsort(keys)
        if n < 2 or (np.diff(keys[order]) != 0).all():
            return np.asarray(order[:count], dtype=np.int64)


def distinct_rows(noise: Noise, n: int, count: int) -> NDArray[np.int64]:
    """Return a uniformly random set of `count` distinct rows of n, in increasing order.

    If count is small beside n, uniform rows are drawn until enough are distinct. Each new one is uniform on the rows
    that are not in the set yet.
    """
    if not 0 <= count <= n:
        raise OutOfRange("count must lie in [0, n]")
    if not is_sparse_draw(n, count):
        return np.sort(ordered_rows(noise, n, count))
    return complete_distinct(noise, n, np.empty(0, dtype=np.int64), count)


def is_sparse_draw(n: int, count: int) -> bool:
    """Return whether `distinct_rows` draws `count` rows without a list of all n."""
    return count <= n // 8


def complete_distinct(noise: Noise, n: int, rows: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """Return the first `count` distinct values of a stream of uniform rows that begins with `rows`."""
    distinct = np.unique(rows)
    while (missing := count - len(distinct)) > 0:
        distinct = np.union1d(distinct, uniform_indices(noise, missing, n))
    return distinct
