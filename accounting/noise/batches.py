"""Exact Poisson batches and slots from the stream of a `Noise`. Proof: docs/proofs/noise.md."""

import numpy as np
from numpy.typing import NDArray

from accounting.errors import OutOfRange
from accounting.noise import batch_sizes
from accounting.noise.draws import complete_distinct, uniform_indices
from accounting.noise.source import Noise

MOST_ROWS_AT_ONCE = 1 << 24  # of rows that have a draw each


def poisson_rows(noise: Noise, n: int, rate: float) -> NDArray[np.int64]:
    """Return the indices of a batch that contains each of n rows independently with probability `rate`, in order.

    The probability is rounded down to a multiple of 2^-64. The cost of a small batch is proportional to its size
    (`poisson_batches`). Otherwise 16 bits decide a row, and 48 more are drawn if they tie with the leading bits of the
    rate.
    """
    if not 0 < rate <= 1:
        raise OutOfRange("rate must lie in (0, 1]")
    threshold = int(rate * 2.0**64)
    if threshold >= 1 << 64:
        return np.arange(n)
    if batch_sizes.fits(n, threshold):
        return np.sort(poisson_batches(noise, n, rate, 1)[1])
    starts = range(0, n, MOST_ROWS_AT_ONCE)
    return np.concatenate([start + _included(noise, min(MOST_ROWS_AT_ONCE, n - start), threshold) for start in starts])


def _included(noise: Noise, n: int, threshold: int) -> NDArray[np.int64]:
    """Return such a batch by one draw for each of the rows."""
    high, low = threshold >> 48, threshold & ((1 << 48) - 1)
    draws = noise.words((n + 3) // 4).view(np.uint16)[:n]
    included = draws < high
    ties = np.flatnonzero(draws == high)
    if len(ties):
        included[ties] = (noise.words(len(ties)) >> np.uint64(16)) < np.uint64(low)
    return np.flatnonzero(included)


def poisson_batches(noise: Noise, n: int, rate: float, count: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return `count` independent batches with the law of `poisson_rows`: their ends, and rows in any order.

    Batch k is rows[ends[k]:ends[k + 1]]; ends has count + 1 entries. First the size of a batch is drawn by inversion of
    its exact law, then that many distinct rows. The time does not depend on n, except for a table computed once.

    Raises
    ------
    OutOfRange
        if the expected size or the rate is too large (`batch_sizes.fits`).
    """
    threshold = int(rate * 2.0**64)
    if not batch_sizes.fits(n, threshold):
        raise OutOfRange("rate is too large for batches that are drawn by their size. Use poisson_rows")
    sizes = batch_sizes.law(n, threshold).sizes(noise.words, count)
    ends = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    rows = uniform_indices(noise, int(ends[-1]), n)
    for k in batch_sizes.with_repeated_rows(ends, rows):
        own = rows[ends[k] : ends[k + 1]]
        rows[ends[k] : ends[k + 1]] = complete_distinct(noise, n, own, len(own))
    return ends, rows


def slots(noise: Noise, n: int, rate: float, count: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the rows with a slot, ordered by slot, and count + 1 offsets.

    Each of n rows independently gets one of `count` slots uniformly with the probability of `poisson_rows`, and none
    otherwise. The rows of slot t are rows[offsets[t]:offsets[t+1]].
    """
    rows = poisson_rows(noise, n, rate)
    slot = uniform_indices(noise, len(rows), count)
    by_slot = rows[np.argsort(slot.astype(np.uint16 if count <= 1 << 16 else np.uint32), kind="stable")]
    return by_slot, np.concatenate([[0], np.cumsum(np.bincount(slot, minlength=count))])
