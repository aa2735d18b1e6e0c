"""Exact uniform choices from the stream of a `Noise`: by words that are drawn again where they would favour a value.

How long one takes depends on fresh bits and on public numbers alone.
"""

import numpy as np
from numpy.typing import NDArray

from accounting.errors import OutOfRange
from accounting.noise.source import Noise


def uniform_below(noise: Noise, total: int) -> int:
    """A uniform integer in [0, total): numbers of just enough bits are drawn until one is below.

    Each try succeeds with probability over 1/2.
    """
    if total < 1:
        raise OutOfRange("there must be something to choose from")
    bits = (total - 1).bit_length()
    count = (bits + 63) // 64
    while True:
        drawn = 0
        for word in noise.words(count):
            drawn = (drawn << 64) | int(word)
        drawn >>= 64 * count - bits
        if drawn < total:
            return drawn


def integer(noise: Noise, words: int) -> int:
    """A uniform integer of 64 bits for each of so many words."""
    return int.from_bytes(noise.words(words).tobytes(), "little")


def uniform_indices(noise: Noise, count: int, limit: int) -> NDArray[np.int64]:
    """`count` independent integers, uniform on 0..limit - 1: words past a multiple of limit are drawn again."""
    if not 1 <= limit < 1 << 40:
        raise OutOfRange("the number of places must lie in [1, 2^40)")
    whole = np.uint64((1 << 64) // limit * limit - 1)
    words = noise.words(count).copy()
    while len(late := np.flatnonzero(words > whole)):
        words[late] = noise.words(len(late))
    return (words % np.uint64(limit)).astype(np.int64)


def ordered_rows(noise: Noise, n: int, count: int) -> NDArray[np.int64]:
    """`count` distinct rows of n in uniformly random order: the first of a permutation by independent random keys.

    Given that all keys differ every order is equally likely, so keys are drawn again until they do.
    """
    if not 0 <= count <= n:
        raise OutOfRange("there are not so many rows")
    while True:
        keys = noise.words(n)
        order = np.argsort(keys)
        if n < 2 or (np.diff(keys[order]) != 0).all():
            return np.asarray(order[:count], dtype=np.int64)


def distinct_rows(noise: Noise, n: int, count: int) -> NDArray[np.int64]:
    """`count` distinct rows of n, every such set as likely, in increasing order.

    For few rows of many, uniform rows are drawn until enough are distinct: a new one is uniform on those that are not
    there yet.
    """
    if not 0 <= count <= n:
        raise OutOfRange("there are not so many rows")
    if not is_sparse_draw(n, count):
        return np.sort(ordered_rows(noise, n, count))
    return complete_distinct(noise, n, np.empty(0, dtype=np.int64), count)


def is_sparse_draw(n: int, count: int) -> bool:
    """Whether `distinct_rows` draws so many without a list of all n."""
    return count <= n // 8


def complete_distinct(noise: Noise, n: int, rows: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """The first `count` distinct values of a stream of uniform rows that begins with these."""
    found = np.unique(rows)
    while (missing := count - len(found)) > 0:
        found = np.union1d(found, uniform_indices(noise, missing, n))
    return found
