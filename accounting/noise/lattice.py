"""Values on a lattice, and the noise std that covers their rounding.

With gamma = 2^j and v on gamma Z^d, the release v + gamma round(N / gamma) post-processes v + N, N ~ N(0, s^2 I).
Rounding raises the l2-sensitivity by at most gamma sqrt(d), for two answers and for one record's part alike. The std

    s = z b / (1 - z sqrt(d) 2^-k),    gamma <= s 2^-k,    gives    s >= z (b + gamma sqrt(d)),

so the accountant's multiplier z holds for the rounded value (docs/proofs/noise.md). For Laplace noise, whose
sensitivity is in l1, d replaces sqrt(d) and the scale replaces the std.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from accounting.errors import OutOfRange
from accounting.noise import Noise
from accounting.numbers import finite

_STD_BITS = range(24, 33)  # k: lattice steps in one std, as a power of two
_TARGET_INFLATION = 2.0**-10  # of the std; k is raised until it is reached
SMALLEST_SPACING, LARGEST_SPACING = 2.0**-960, 2.0**900
MOST_STEPS = 2.0**51  # |v| / gamma; sums with noise stay exact integers below 2^53


@dataclass(frozen=True, slots=True)
class Lattice:
    """The std of the noise (Laplace: its scale) and the spacing of its lattice, both in the unit of the answer."""

    std: float
    spacing: float

    @classmethod
    def fit(cls, noise_multiplier: float, bound: float, dimension: int, weight: float = 1.0) -> "Lattice":
        """Return the smallest std and a lattice with std >= noise_multiplier * (bound + w spacing sqrt(dimension)).

        Parameters
        ----------
        noise_multiplier : z, unitless, std over per-record bound
        bound : b > 0, the most one record can add to the answer in l2, in the answer's unit
        dimension : d, number of coordinates
        weight : w >= 1, the lattice steps that rounding adds to the bound, per root of the dimension

        Raises
        ------
        OutOfRange
            if z sqrt(d) is so large that the rounding would cost as much as the record itself.
        """
        return cls._fit(noise_multiplier, bound, weight * math.sqrt(dimension))

    @classmethod
    def fit_l1(cls, noise_multiplier: float, bound: float, dimension: int) -> "Lattice":
        """Return the smallest Laplace scale and a lattice with scale >= z (bound + spacing dimension).

        Parameters and errors as `fit`, with the bound in l1.
        """
        return cls._fit(noise_multiplier, bound, float(dimension))

    @classmethod
    def _fit(cls, noise_multiplier: float, bound: float, growth: float) -> "Lattice":
        """Return the lattice if rounding may add `growth` lattice steps to the sensitivity."""
        z = finite(noise_multiplier, "noise multiplier")
        b = finite(bound, "per-record bound")
        if z <= 0 or b <= 0 or growth < 1:
            raise OutOfRange("noise multiplier, bound and dimension must be positive")
        k, divisor = fineness(z, growth)
        std = finite(math.nextafter(z * b / divisor * (1 + 1e-12), math.inf), "noise std")
        spacing = 2.0 ** (math.frexp(std)[1] - 1 - k)
        if not SMALLEST_SPACING < spacing < LARGEST_SPACING:
            raise OutOfRange("the noise std is outside the range of exact arithmetic")
        return cls(std, spacing)

    def rounded(self, value: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the nearest multiples of the spacing, clipped so that `perturb` does not clip a sum of two."""
        steps = np.rint(np.clip(value / self.spacing, -MOST_STEPS / 2, MOST_STEPS / 2))
        return np.asarray(steps * self.spacing)

    def perturb(self, value: NDArray[np.float64], noise: Noise) -> NDArray[np.float64]:
        """Return round(value) + Gaussian noise, an exact multiple of the spacing in every coordinate.

        Coordinates are first clipped to +-2^51 spacings, a 1-Lipschitz map, so that the sum is exact. The oracle keeps
        each record's part finite. A value that is not a finite vector raises `OutOfRange`.
        """
        return self._perturbed(value, noise.rounded_gaussian)

    def perturb_laplace(self, value: NDArray[np.float64], noise: Noise) -> NDArray[np.float64]:
        """Return round(value) + Laplace noise, as `perturb`."""
        return self._perturbed(value, noise.rounded_laplace)

    def _perturbed(
        self, value: NDArray[np.float64], draw: Callable[[int, float], NDArray[np.float64]]
    ) -> NDArray[np.float64]:
        if value.ndim != 1 or not np.isfinite(value).all():
            raise OutOfRange("an answer must be a vector of finite numbers")
        steps = np.rint(np.clip(value / self.spacing, -MOST_STEPS, MOST_STEPS))
        steps += draw(len(steps), self.std / self.spacing)
        steps += 0.0  # -0.0 would reveal on which side of zero the value was
        return np.asarray(steps * self.spacing)


def fineness(noise_multiplier: float, growth: float) -> tuple[int, float]:
    """Return k, log2 of the lattice steps in a std, and 1 - z growth 2^-k; growth is sqrt(d) in l2.

    Raises
    ------
    OutOfRange
        if z growth is so large that the rounding would cost as much as the record itself.
    """
    k = next((k for k in _STD_BITS if noise_multiplier * growth * 2.0**-k <= _TARGET_INFLATION), _STD_BITS[-1])
    divisor = 1 - noise_multiplier * growth * 2.0**-k
    if divisor < 0.5:
        raise OutOfRange("this much noise in this many dimensions is beyond the lattice. Raise epsilon or lower d")
    return k, divisor
