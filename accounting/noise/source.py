"""The only source of privacy randomness: exactly rounded Gaussian and Laplace noise, exact Poisson batches and exact
choices, all from one cryptographic stream.

Promise: `rounded_gaussian(count, s)` has exactly the law of round(N), N ~ N(0, s^2) i.i.d., `rounded_laplace` that of
Laplace variables of scale s, not a floating-point approximation of it, given independent uniform bits. Adding
gamma * round(N / gamma) to a value on the lattice gamma Z is then a post-processing of the ideal mechanism
(docs/spec 15; docs/proofs/noise.md).

The bits come from AES-128 in counter mode, keyed by the operating system; nobody chooses a seed. Tests hand their own
bit source to the constructor; nothing outside tests does.
"""

import secrets
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import mpmath
import numpy as np
from numpy.typing import NDArray
from randomgen import AESCounter
from scipy.special import ndtri

from accounting.errors import OutOfRange
from accounting.noise import batch_sizes

_BLOCK = 16384  # keeps the working set of one block inside the second-level cache
_MANTISSA = np.uint64((1 << 52) - 1)
_LOW_BITS = 11
# trailing zeros of an 11-bit number; 11 itself stands for "all zero: keep counting in fresh words"
_ZEROS = np.array([11] + [(i & -i).bit_length() - 1 for i in range(1, 1 << _LOW_BITS)], dtype=np.uint64)
# In units of s, more than the width of the interval that u leaves: u 2^-52 / phi(ndtri(u)) <= 2^-52 sqrt(pi / 2) for
# the Gaussian, and 2^-52 for Laplace.
ABSOLUTE = 1e-15
# mpmath remembers pi and ln 2 for the whole process; known to more bits than any draw asks for, they stay.
with mpmath.mp.workprec(4096):
    _REMEMBERED = (+mpmath.mp.pi, +mpmath.mp.ln2)
MIN_SCALE, MAX_SCALE = 2.0**10, 2.0**33  # above: the tolerances could reach past the neighboring cell


class Bits(Protocol):
    """A stream of independent uniform 64-bit words."""

    def words(self, count: int) -> NDArray[np.uint64]:
        """The next `count` words, shape (count,)."""
        ...


class SystemBits:
    """AES-128-CTR keyed with 128 bits from the operating system."""

    __slots__ = ("_generator",)

    def __init__(self) -> None:
        self._generator = AESCounter(key=secrets.randbits(128))

    def words(self, count: int) -> NDArray[np.uint64]:
        """The next `count` words of the key stream."""
        return np.asarray(self._generator.random_raw(count), dtype=np.uint64)


@dataclass(frozen=True, slots=True)
class _Law:
    """A symmetric law of scale 1: x(u) with P(X > x) = u in floats, P(X > x) to working precision, and x's error."""

    quantile: Callable[[NDArray[np.float64]], NDArray[np.float64]]
    tail: Callable[[Any, Any], Any]
    relative: float


# Relative errors granted: to scipy's ndtri 1e-12 (4.4e-16 was measured), to numpy's log 1e-14 (4 ulp, by its makers).
RELATIVE = 1e-12
_GAUSSIAN = _Law(lambda u: -ndtri(u), lambda exact, x: exact.erfc(x / exact.sqrt(2)) / 2, RELATIVE)
_LAPLACE = _Law(lambda u: -np.log(u + u), lambda exact, x: exact.exp(-x) / 2, 1e-14)


@dataclass(frozen=True, slots=True, eq=False)
class Tails:
    """Standard draws of a symmetric law as |X|, to its tolerances, the sign, and the bits behind them."""

    sizes: NDArray[np.float64]
    negative: NDArray[np.bool_]
    zeros: NDArray[np.uint64]
    mantissa: NDArray[np.uint64]


class Noise:
    """Exactly rounded noise, exact Bernoulli batches and exact choices over one bit stream; one thread at a time."""

    __slots__ = ("_bits", "_exact")

    def __init__(self, bits: Bits | None = None) -> None:
        self._bits: Bits = SystemBits() if bits is None else bits
        self._exact = mpmath.MPContext()  # its own context: mpmath's global one is shared between threads

    def rounded_gaussian(self, count: int, scale: float) -> NDArray[np.float64]:
        """round(N_j), N_j ~ N(0, scale^2) i.i.d., j = 1..count, as integers in float64.

        Parameters
        ----------
        count : number of draws
        scale : std in lattice units, in [2^10, 2^33] (so |result| stays far below 2^52)

        Raises
        ------
        OutOfRange
            if scale is not finite or lies outside its range.
        """
        return self._rounded(_GAUSSIAN, count, scale)

    def rounded_laplace(self, count: int, scale: float) -> NDArray[np.float64]:
        """round(Y_j), Y_j of density exp(-|y| / scale) / (2 scale) i.i.d.; the rest as above."""
        return self._rounded(_LAPLACE, count, scale)

    def uniform_rows(self, n: int) -> NDArray[np.int64]:
        """n indices, each uniform in 0..n-1 and independent: words beyond the largest multiple of n are drawn again."""
        if not 1 <= n < 1 << 40:
            raise OutOfRange("the number of rows must lie in [1, 2^40)")
        limit = np.uint64((1 << 64) // n * n - 1)  # the last word that is kept
        words = self._bits.words(n).copy()
        while len(over := np.flatnonzero(words > limit)):
            words[over] = self._bits.words(len(over))
        return (words % np.uint64(n)).astype(np.int64)

    def poisson_rows(self, n: int, rate: float) -> NDArray[np.int64]:
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
            return np.sort(self.poisson_batches(n, rate, 1)[1])
        first, rest = threshold >> 48, threshold & ((1 << 48) - 1)
        draws = self._bits.words((n + 3) // 4).view(np.uint16)[:n]
        included = draws < first
        ties = np.flatnonzero(draws == first)
        if len(ties):
            included[ties] = (self._bits.words(len(ties)) >> np.uint64(16)) < np.uint64(rest)
        return np.flatnonzero(included)

    def poisson_batches(self, n: int, rate: float, count: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
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
        sizes = batch_sizes.law(n, threshold).sizes(self._bits.words, count)
        ends = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        rows = self._below(int(ends[-1]), n)
        for k in batch_sizes.repeating(ends, rows):
            rows[ends[k] : ends[k + 1]] = self._distinct(n, rows[ends[k] : ends[k + 1]])
        return ends, rows

    def _distinct(self, n: int, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """The first len(rows) distinct values of a stream of uniform rows that begins with these."""
        found = np.unique(rows)
        while (missing := len(rows) - len(found)) > 0:
            found = np.union1d(found, self._below(missing, n))
        return found

    def below(self, total: int) -> int:
        """A uniform integer in [0, total): numbers of just enough bits are drawn until one is below.

        How many it takes depends on fresh bits and on the total alone, and each try succeeds with probability over 1/2.
        """
        if total < 1:
            raise OutOfRange("there must be something to choose from")
        bits = (total - 1).bit_length()
        count = (bits + 63) // 64
        while True:
            drawn = 0
            for word in self._bits.words(count):
                drawn = (drawn << 64) | int(word)
            drawn >>= 64 * count - bits
            if drawn < total:
                return drawn

    def integer(self, words: int) -> int:
        """A uniform integer of 64 bits for each of so many words."""
        return int.from_bytes(self._bits.words(words).tobytes(), "little")

    def slots(self, n: int, rate: float, count: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Each of n rows by itself gets no slot, or, with the probability of `poisson_rows`, one of `count` uniformly.

        Returns the rows with a slot, by slot, and count + 1 offsets: those of slot t are rows[offsets[t]:offsets[t+1]].
        """
        rows = self.poisson_rows(n, rate)
        slot = self._below(len(rows), count)
        by_slot = rows[np.argsort(slot.astype(np.uint16 if count <= 1 << 16 else np.uint32), kind="stable")]
        return by_slot, np.concatenate([[0], np.cumsum(np.bincount(slot, minlength=count))])

    def ordered_rows(self, n: int, count: int) -> NDArray[np.int64]:
        """`count` distinct rows of n in uniformly random order: the first of a permutation by independent random keys.

        Given that all keys differ every order is equally likely, so keys are drawn again until they do.
        """
        if not 0 <= count <= n:
            raise OutOfRange("there are not so many rows")
        while True:
            keys = self._bits.words(n)
            order = np.argsort(keys)
            if n < 2 or (np.diff(keys[order]) != 0).all():
                return np.asarray(order[:count], dtype=np.int64)

    def distinct_rows(self, n: int, count: int) -> NDArray[np.int64]:
        """`count` distinct rows of n, every such set as likely, in increasing order.

        For few rows of many, uniform rows are drawn until enough are distinct: a new one is uniform on those that are
        not there yet. How long that takes depends on fresh bits and on n and count alone.
        """
        if not 0 <= count <= n:
            raise OutOfRange("there are not so many rows")
        if count > n // 8:
            return np.sort(self.ordered_rows(n, count))
        rows = np.empty(0, dtype=np.int64)
        while len(rows) < count:
            rows = np.union1d(rows, self._below(count - len(rows), n))
        return rows

    def _below(self, count: int, limit: int) -> NDArray[np.int64]:
        """`count` independent integers, uniform on 0..limit - 1: words past a multiple of limit are drawn again."""
        whole = np.uint64((1 << 64) // limit * limit - 1)
        words = self._bits.words(count)
        while len(late := np.flatnonzero(words > whole)):
            words[late] = self._bits.words(len(late))
        return (words % np.uint64(limit)).astype(np.int64)

    def _rounded(self, law: _Law, count: int, scale: float) -> NDArray[np.float64]:
        if not MIN_SCALE <= scale <= MAX_SCALE:
            raise OutOfRange("the noise std must be between 2^10 and 2^33 lattice steps")
        out = np.empty(count)
        for start in range(0, count, _BLOCK):
            self._fill(law, out[start : start + _BLOCK], scale)
        return out

    def tails(self, count: int) -> Tails:
        """`count` standard normal draws, known to 2^-52 of their tail probabilities: round each once, at any scale."""
        return self._tails(_GAUSSIAN, count)

    def decide(self, tails: Tails, j: int, scale: float) -> float:
        """round(scale N_j) for a normal draw that its size alone leaves open, by further bits."""
        size = self._decide(_GAUSSIAN, int(tails.zeros[j]), int(tails.mantissa[j]), scale)
        return -size if tails.negative[j] else size

    def _tails(self, law: _Law, count: int) -> Tails:
        """A sign bit, 52 mantissa bits and the zeros that set the exponent of the tail probability u."""
        words = self._bits.words(count)
        zeros = _ZEROS[words & np.uint64((1 << _LOW_BITS) - 1)]
        for j in np.flatnonzero(zeros == _LOW_BITS):
            zeros[j] += self._leading_zeros()
        mantissa = (words >> np.uint64(_LOW_BITS)) & _MANTISSA
        # U lies in [u, u + 2^-(zeros + 54)), u = 2^-(zeros + 2) (1 + mantissa 2^-52): dense in (0, 1/2)
        u = (((np.uint64(1021) - zeros) << np.uint64(52)) | mantissa).view(np.float64)
        return Tails(law.quantile(u), (words >> np.uint64(63)).astype(bool), zeros, mantissa)

    def _fill(self, law: _Law, out: NDArray[np.float64], scale: float) -> None:
        """One block; in place where it can be, for the cache."""
        tails = self._tails(law, len(out))
        y = tails.sizes
        y *= scale
        np.rint(y, out=out)
        gap = 0.5 - np.abs(y - out)
        y *= law.relative
        y += ABSOLUTE * scale
        for j in np.flatnonzero(gap <= y):
            out[j] = self._decide(law, int(tails.zeros[j]), int(tails.mantissa[j]), scale)
        np.negative(out, where=tails.negative, out=out)

    def _leading_zeros(self) -> np.uint64:
        """The length of a run of zero bits in the stream: geometric, never cut off."""
        zeros = 0
        while (word := int(self._bits.words(1)[0])) == 0:
            zeros += 64
        return np.uint64(zeros + 64 - word.bit_length())

    def _decide(self, law: _Law, zeros: int, mantissa: int, scale: float) -> float:
        """The cell of x(U) * scale for U in the given interval, by as many further bits as it takes.

        With h the cell boundary nearest to the approximate value, the value exceeds h exactly if U < P(X > h); that
        probability is evaluated to 64 bits more than U is known to.
        """
        exact = self._exact
        numerator, shift = (1 << 52) + mantissa, zeros + 54
        y = float(law.quantile(np.ldexp(float(numerator), -shift))) * scale
        cell = np.floor(y)
        while True:
            bits = numerator.bit_length() + 64
            with exact.workprec(bits + 64):
                boundary = (exact.mpf(cell) + 0.5) / exact.mpf(scale)
                tail = exact.ldexp(law.tail(exact, boundary), shift)
                error = exact.ldexp(tail, -bits)
                if tail + error <= numerator:
                    return float(cell)
                if tail - error >= numerator + 1:
                    return float(cell) + 1.0
            numerator = (numerator << 64) | int(self._bits.words(1)[0])
            shift += 64
