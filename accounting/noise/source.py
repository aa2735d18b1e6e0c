"""The only source of privacy randomness.

It gives exactly rounded Gaussian and Laplace noise, and the bits of exact choices (`draws`, `batches`), all from one
cryptographic stream. Given independent uniform bits, `rounded_gaussian(count, s)` has exactly the law of round(N),
N ~ N(0, s^2) i.i.d., and `rounded_laplace` that of rounded Laplace variables of scale s, not a floating-point
approximation. Adding gamma * round(N / gamma) to a value on the lattice gamma Z is then a post-processing of the ideal
mechanism (docs/spec 15; docs/proofs/noise.md).

The bits come from AES-128 in counter mode, with a key from the operating system and no seed. Only tests pass a bit
source of their own to the constructor.
"""

import secrets
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import mpmath
import numpy as np
from numpy.typing import NDArray
from randomgen import AESCounter
from scipy.special import ndtri

from accounting.errors import OutOfRange

_BLOCK_DRAWS = 16384  # whose working set fits the second-level cache
_MANTISSA = np.uint64((1 << 52) - 1)
_LOW_BITS = 11
# Trailing zeros of an 11-bit number. 11 means that all bits are zero, and counting goes on in fresh words.
_ZEROS = np.array([11] + [(i & -i).bit_length() - 1 for i in range(1, 1 << _LOW_BITS)], dtype=np.uint64)
# In units of s, more than the width of the interval of x for one u: u 2^-52 / phi(ndtri(u)) <= 2^-52 sqrt(pi / 2) for
# the Gaussian, and 2^-52 for Laplace.
ABSOLUTE = 1e-15
# mpmath caches pi and ln 2 for the whole process. With more bits than any draw needs they are computed only once.
with mpmath.mp.workprec(4096):
    _CACHED_CONSTANTS = (+mpmath.mp.pi, +mpmath.mp.ln2)
MIN_SCALE, MAX_SCALE = 2.0**10, 2.0**33  # above, the tolerances could exceed one cell


class _ThreadLocal(threading.local):
    """Exact arithmetic of one thread, because threads share the precision of mpmath's global context."""

    def __init__(self) -> None:
        self.exact = mpmath.MPContext()


_THREAD = _ThreadLocal()


class Bits(Protocol):
    """A stream of independent uniform 64-bit words."""

    def words(self, count: int) -> NDArray[np.uint64]:
        """Return the next `count` words, shape (count,)."""


class SystemBits:
    """AES-128-CTR keyed with 128 bits from the operating system."""

    __slots__ = ("_generator",)

    def __init__(self) -> None:
        self._generator = AESCounter(key=secrets.randbits(128))

    def words(self, count: int) -> NDArray[np.uint64]:
        """Return the next `count` words of the key stream."""
        return np.asarray(self._generator.random_raw(count), dtype=np.uint64)


@dataclass(frozen=True, slots=True)
class _Law:
    """A symmetric law of scale 1: the quantile x(u) with P(X > x) = u in floats, the exact tail, and the error of x."""

    quantile: Callable[[NDArray[np.float64]], NDArray[np.float64]]
    tail: Callable[[Any, Any], Any]
    relative: float


# Relative errors allowed for scipy's ndtri, 1e-12 (4.4e-16 was measured), and numpy's log, 1e-14 (4 ulp documented).
RELATIVE = 1e-12
_GAUSSIAN = _Law(lambda u: -ndtri(u), lambda exact, x: exact.erfc(x / exact.sqrt(2)) / 2, RELATIVE)
_LAPLACE = _Law(lambda u: -np.log(u + u), lambda exact, x: exact.exp(-x) / 2, 1e-14)


@dataclass(frozen=True, slots=True, eq=False)
class Tails:
    """Standard draws of a symmetric law: |X| up to its tolerance, the sign, and the bits of the draw."""

    sizes: NDArray[np.float64]
    negative: NDArray[np.bool_]
    zeros: NDArray[np.uint64]
    mantissa: NDArray[np.uint64]


class Noise:
    """Exactly rounded noise over one bit stream, which exact choices also use; for one thread at a time."""

    __slots__ = ("_bits",)

    def __init__(self, bits: Bits | None = None) -> None:
        self._bits: Bits = SystemBits() if bits is None else bits

    def words(self, count: int) -> NDArray[np.uint64]:
        """Return the next `count` words of the stream: independent, uniform and used only once."""
        return self._bits.words(count)

    def rounded_gaussian(self, count: int, scale: float) -> NDArray[np.float64]:
        """Return round(N_j), N_j ~ N(0, scale^2) i.i.d., j = 1..count, as integers in float64.

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
        """Return round(Y_j), Y_j i.i.d. of density exp(-|y| / scale) / (2 scale), as `rounded_gaussian`."""
        return self._rounded(_LAPLACE, count, scale)

    def _rounded(self, law: _Law, count: int, scale: float) -> NDArray[np.float64]:
        if not MIN_SCALE <= scale <= MAX_SCALE:
            raise OutOfRange("the noise std must be between 2^10 and 2^33 lattice steps")
        out = np.empty(count)
        for start in range(0, count, _BLOCK_DRAWS):
            self._fill(law, out[start : start + _BLOCK_DRAWS], scale)
        return out

    def tails(self, count: int) -> Tails:
        """Return `count` standard normal draws with tail probabilities to 2^-52; round each only once, at any scale."""
        return self._tails(_GAUSSIAN, count)

    def decide(self, tails: Tails, j: int, scale: float) -> float:
        """Return round(scale N_j), by further bits, for a normal draw whose size alone does not decide it."""
        size = self._decide(_GAUSSIAN, int(tails.zeros[j]), int(tails.mantissa[j]), scale)
        return -size if tails.negative[j] else size

    def _tails(self, law: _Law, count: int) -> Tails:
        """Return draws from a sign bit, 52 mantissa bits and the zeros that give the exponent of the tail u."""
        words = self._bits.words(count)
        zeros = _ZEROS[words & np.uint64((1 << _LOW_BITS) - 1)]
        for j in np.flatnonzero(zeros == _LOW_BITS):
            zeros[j] += self._leading_zeros()
        mantissa = (words >> np.uint64(_LOW_BITS)) & _MANTISSA
        # U lies in [u, u + 2^-(zeros + 54)), u = 2^-(zeros + 2) (1 + mantissa 2^-52): dense in (0, 1/2)
        u = (((np.uint64(1021) - zeros) << np.uint64(52)) | mantissa).view(np.float64)
        return Tails(law.quantile(u), (words >> np.uint64(63)).astype(bool), zeros, mantissa)

    def _fill(self, law: _Law, out: NDArray[np.float64], scale: float) -> None:
        """Fill one block, in place as far as possible, for the cache."""
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
        """Return the length of a run of zero bits in the stream, which is geometric and not truncated."""
        zeros = 0
        while (word := int(self._bits.words(1)[0])) == 0:
            zeros += 64
        return np.uint64(zeros + 64 - word.bit_length())

    def _decide(self, law: _Law, zeros: int, mantissa: int, scale: float) -> float:
        """Return the cell of x(U) * scale for U in the given interval, with as many further bits as needed.

        If h is the cell boundary nearest to the approximate value, the value exceeds h exactly if U < P(X > h). This
        probability is evaluated to 64 bits more than U has.
        """
        exact = _THREAD.exact
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
