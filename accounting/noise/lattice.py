"""Values on a lattice, and the noise std that pays for putting them there.

With gamma = 2^j and v on gamma Z^d, the release v + gamma round(N / gamma) post-processes v + N, N ~ N(0, s^2 I).
Rounding moves the l2-sensitivity by at most gamma sqrt(d), for a pair and for one record's displacement alike. The std

    s = z b / (1 - z sqrt(d) 2^-k),    gamma <= s 2^-k,    gives    s >= z (b + gamma sqrt(d)),

so the multiplier z that the accountant knows holds for the rounded value (docs/proofs/noise.md). For Laplace
noise, whose sensitivity is counted in l1, d stands in the place of sqrt(d) and the scale in that of the std.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from accounting.errors import OutOfRange
from accounting.noise import Noise
from accounting.numbers import finite

_STEPS = range(24, 33)  # k: lattice steps in one std, as a power of two
_FINE = 2.0**-10  # the inflation that k is raised to reach
FINEST, COARSEST = 2.0**-960, 2.0**900  # the spacing
LARGEST = 2.0**51  # |v| / gamma; sums with noise stay exact integers below 2^53


@dataclass(frozen=True, slots=True)
class Lattice:
    """The std of the noise (Laplace: its scale) and the spacing of its lattice, both in the unit of the answer."""

    std: float
    spacing: float

    @classmethod
    def fit(cls, noise_multiplier: float, bound: float, dimension: int, weight: float = 1.0) -> "Lattice":
        """The least std, and a lattice for it, such that std >= noise_multiplier * (bound + w spacing sqrt(dimension)).

        Parameters
        ----------
        noise_multiplier : z, unitless, std over per-record bound
        bound : b > 0, the most one record can add to the answer in l2, in the answer's unit
        dimension : d, number of coordinates
        weight : w >= 1, how much a lattice step counts beside the bound

        Raises
        ------
        OutOfRange
            if z sqrt(d) is so large that the rounding would cost as much as the record itself.
        """
        return cls._fit(noise_multiplier, bound, weight * math.sqrt(dimension))

    @classmethod
    def fit_l1(cls, noise_multiplier: float, bound: float, dimension: int) -> "Lattice":
        """The least Laplace scale, and its lattice, with scale >= noise_multiplier * (bound + spacing * dimension).

        Parameters and errors as `fit`, with the bound in l1.
        """
        return cls._fit(noise_multiplier, bound, float(dimension))

    @classmethod
    def _fit(cls, noise_multiplier: float, bound: float, growth: float) -> "Lattice":
        """`growth` lattice steps are what rounding may add to the sensitivity."""
        z, b = finite(noise_multiplier, "noise multiplier"), finite(bound, "per-record bound")
        if z <= 0 or b <= 0 or growth < 1:
            raise OutOfRange("noise multiplier, bound and dimension must be positive")
        k, kept = fineness(z, growth)
        std = finite(math.nextafter(z * b / kept * (1 + 1e-12), math.inf), "noise std")
        spacing = 2.0 ** (math.frexp(std)[1] - 1 - k)
        if not FINEST < spacing < COARSEST:
            raise OutOfRange("the noise std is outside the range of exact arithmetic")
        return cls(std, spacing)

    def rounded(self, value: NDArray[np.float64]) -> NDArray[np.float64]:
        """The nearest multiples of the spacing, coordinates first clipped so far that `perturb` clips no sum of two."""
        steps = np.rint(np.clip(value / self.spacing, -LARGEST / 2, LARGEST / 2))
        return np.asarray(steps * self.spacing)

    def perturb(self, value: NDArray[np.float64], noise: Noise) -> NDArray[np.float64]:
        """round(value) + Gaussian noise, an exact multiple of the spacing in every coordinate.

        Coordinates are first clipped to +-2^51 spacings, a 1-Lipschitz map, so that the sum is exact. The oracle sees
        to it, per record, that the value is finite; one that is not, or not a vector, is refused (`OutOfRange`).
        """
        return self._placed(value, noise.rounded_gaussian)

    def perturb_laplace(self, value: NDArray[np.float64], noise: Noise) -> NDArray[np.float64]:
        """The same with Laplace noise."""
        return self._placed(value, noise.rounded_laplace)

    def _placed(
        self, value: NDArray[np.float64], draw: Callable[[int, float], NDArray[np.float64]]
    ) -> NDArray[np.float64]:
        if value.ndim != 1 or not np.isfinite(value).all():
            raise OutOfRange("an answer is a vector of finite numbers")
        steps = np.rint(np.clip(value / self.spacing, -LARGEST, LARGEST))
        steps += draw(len(steps), self.std / self.spacing)
        steps += 0.0  # -0.0 would tell on which side of zero the value was
        return np.asarray(steps * self.spacing)


def fineness(noise_multiplier: float, growth: float) -> tuple[int, float]:
    """k, the lattice's steps in a std as a power of two, and 1 - z growth 2^-k; growth is sqrt(d) in l2.

    Raises
    ------
    OutOfRange
        if z growth is so large that the rounding would cost as much as the record itself.
    """
    k = next((k for k in _STEPS if noise_multiplier * growth * 2.0**-k <= _FINE), _STEPS[-1])
    kept = 1 - noise_multiplier * growth * 2.0**-k
    if kept < 0.5:
        raise OutOfRange("this much noise in this many dimensions is beyond the lattice: raise epsilon or lower d")
    return k, kept
