"""Sizes of Poisson batches: exactly Binomial(n, t / 2^64), by inversion of the distribution function.

K = the number of k with F(k) <= U, U uniform in [0, 1). The first 64 bits of U decide, unless some F(k) may lie in
their cell. Then further bits are drawn, and F is evaluated to 64 bits more, until they decide (docs/proofs/noise.md).
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache

import mpmath
import numpy as np
from numpy.typing import NDArray

Words = Callable[[int], NDArray[np.uint64]]

_MOST_EXPECTED_ROWS = 4096  # the table has about that length
_LARGEST_RATE_BITS = 58  # rates up to 2^-6; above, a draw for every row is as fast
_LAST_WORD = 2**64 - 1


def fits(n: int, threshold: int) -> bool:
    """Return whether batches of n rows at rate threshold / 2^64 are small enough to be drawn by their size."""
    return 0 < threshold <= 1 << _LARGEST_RATE_BITS and n * threshold <= _MOST_EXPECTED_ROWS << 64


@dataclass(frozen=True, slots=True, eq=False)
class SizeLaw:
    """Binomial(n, t / 2^64), with lower[k] <= 2^64 F(k) < upper[k] + 1 up to the first k whose upper is 2^64 - 1."""

    n: int
    threshold: int
    lower: NDArray[np.uint64]
    upper: NDArray[np.uint64]

    def sizes(self, words: Words, count: int) -> NDArray[np.int64]:
        """Return `count` independent draws from the stream."""
        drawn = words(count)
        sizes = np.searchsorted(self.upper, drawn).astype(np.int64)  # F(k) < drawn / 2^64 for every smaller k
        for j in np.flatnonzero(self.lower[sizes] <= drawn):
            sizes[j] = self.decide(int(drawn[j]), words)
        return sizes

    def decide(self, first: int, words: Words) -> int:
        """Return K for the U with these first 64 bits, drawing as many further bits as needed."""
        number, bits = first, 64
        while (size := self._size(number, bits)) is None:
            number, bits = (number << 64) | int(words(1)[0]), bits + 64
        return size

    def _size(self, number: int, bits: int) -> int | None:
        """Return K if it is the same for every U in [number, number + 1) / 2^bits, otherwise None."""
        for k, F in enumerate(_distribution(self.n, self.threshold, bits + 64)):
            if (number + 1) << 64 <= F - 2:
                return k
            if number << 64 < F + 2:
                return None
        raise AssertionError("F(n) = 1 is above every U")


@lru_cache(maxsize=64)
def law(n: int, threshold: int) -> SizeLaw:
    """Return the law with its table."""
    lower, upper = [], []
    for F in _distribution(n, threshold, 128):
        lower.append(max(0, min((F - 2) >> 64, _LAST_WORD)))
        upper.append(min((F + 2) >> 64, _LAST_WORD))
        if upper[-1] == _LAST_WORD:
            break
    return SizeLaw(n, threshold, np.array(lower, dtype=np.uint64), np.array(upper, dtype=np.uint64))


def with_repeated_rows(ends: NDArray[np.int64], rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the k for which rows[ends[k]:ends[k + 1]] contains a row twice."""
    batch = np.repeat(np.arange(len(ends) - 1), np.diff(ends))
    order = np.lexsort((rows, batch))
    rows, batch = rows[order], batch[order]
    return np.unique(batch[1:][(rows[1:] == rows[:-1]) & (batch[1:] == batch[:-1])])


def _distribution(n: int, threshold: int, bits: int) -> Iterator[int]:
    """Yield 2^bits F(k) for k = 0, ..., n as integers, with an error below 2: by the floor 1, by rounding below 1."""
    exact = mpmath.MPContext()
    exact.prec = bits + 64  # about 8 roundings for each of some thousand k leave over 40 of these 64 bits
    rate = exact.ldexp(exact.mpf(threshold), -64)
    term = total = (1 - rate) ** n
    odds = rate / (1 - rate)
    for k in range(n):
        yield int(exact.floor(exact.ldexp(total, bits)))
        term *= (n - k) * odds / (k + 1)
        total += term
    yield 1 << bits
