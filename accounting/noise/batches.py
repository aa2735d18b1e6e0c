"""Exact Poisson batches, and slots, from the stream of a `Noise`: docs/proofs/noise.md."""

import numpy as np
from numpy.typing import NDArray

from accounting.errors import OutOfRange
from accounting.noise import batch_sizes
from accounting.noise.draws import complete_distinct, uniform_indices
from accounting.noise.source import Noise

_TOGETHER = 1 << 24  # rows of which each has a draw of its own: no more are drawn for at once


def poisson_rows(noise: Noise, n: int, rate: float) -> NDArray[np.int64]:
    """Indices of a batch that holds each of n rows independently with probability floor(rate 2^64) / 2^64 <= rate.

    In order. A small batch costs as much as it holds: `poisson_batches`. Else sixteen bits decide a row unless they
    tie with the leading bits of the rate; then 48 more are drawn.
    """
    if not 0 < rate <= 1:
        raise OutOfRange("the sampling rate must lie in (0, 1]")
    threshold = int(rate * 2.0**64)
    if threshold >= 1 << 64:
        return np.arange(n)
    if batch_sizes.fits(n, threshold):
        return np.sort(poisson_batches(noise, n, rate, 1)[1])
    starts = range(0, n, _TOGETHER)
    return np.concatenate([start + _included(noise, min(_TOGETHER, n - start), threshold) for start in starts])


def _included(noise: Noise, n: int, threshold: int) -> NDArray[np.int64]:
    """The same by a draw for each of the rows."""
    first, rest = threshold >> 48, threshold & ((1 << 48) - 1)
    draws = noise.words((n + 3) // 4).view(np.uint16)[:n]
    included = draws < first
    ties = np.flatnonzero(draws == first)
    if len(ties):
        included[ties] = (noise.words(len(ties)) >> np.uint64(16)) < np.uint64(rest)
    return np.flatnonzero(included)


def poisson_batches(noise: Noise, n: int, rate: float, count: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """`count` independent batches of `poisson_rows`' law, one after another: ends, and rows without order.

    Batch k holds rows[ends[k]:ends[k + 1]]; ends has count + 1 entries. The time does not depend on n, but for a
    table that is made once: the size of a batch by inversion of its exact law, then that many distinct rows.

    Raises
    ------
    OutOfRange
        if the rate is not small enough (`batch_sizes.fits`).
    """
    threshold = int(rate * 2.0**64)
    if not batch_sizes.fits(n, threshold):
        raise OutOfRange("batches are drawn by their size only where they are small")
    sizes = batch_sizes.law(n, threshold).sizes(noise.words, count)
    ends = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    rows = uniform_indices(noise, int(ends[-1]), n)
    for k in batch_sizes.repeating(ends, rows):
        own = rows[ends[k] : ends[k + 1]]
        rows[ends[k] : ends[k + 1]] = complete_distinct(noise, n, own, len(own))
    return ends, rows


def slots(noise: Noise, n: int, rate: float, count: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Each of n rows by itself gets no slot, or, with the probability of `poisson_rows`, one of `count` uniformly.

    Returns the rows with a slot, by slot, and count + 1 offsets: those of slot t are rows[offsets[t]:offsets[t+1]].
    """
    rows = poisson_rows(noise, n, rate)
    slot = uniform_indices(noise, len(rows), count)
    by_slot = rows[np.argsort(slot.astype(np.uint16 if count <= 1 << 16 else np.uint32), kind="stable")]
    return by_slot, np.concatenate([[0], np.cumsum(np.bincount(slot, minlength=count))])
