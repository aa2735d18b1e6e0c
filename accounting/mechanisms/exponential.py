"""The exponential mechanism: a choice from a public list, by scores that one replaced record moves by at most 2 b.

Precondition: a list fixed by public facts, one score for each entry (less is better); replacing one record moves every
score by at most 2 b, rounding included.
Pseudo-code: q_j = scores in units of 2 b, on the lattice of 2^-30; w_j = ceil(2^K max(e^(-epsilon (q_j - min q) / 2),
e^-B)); draw an integer below the sum of the w_j from cryptographic bits; return the j into whose share it falls.
Postcondition: 2/z-DP exactly, epsilon = 2/z. Proof: docs/proofs/exponential.md.
"""

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import MAX_EMAX, MIN_EMIN, ROUND_CEILING, Context, Decimal
from itertools import accumulate
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from accounting.divergences import randomized_response
from accounting.errors import OutOfRange
from accounting.mechanisms import events
from accounting.noise import Noise
from accounting.numbers import finite

MOST_CHOICES = 1 << 18
_STEPS = 2.0**30  # of the lattice of scores, in one sensitivity
_LARGEST = 2.0**51
_GUARD = 80  # bits to which integer weights are exact, and log2 of how little all floored weights make together
_SAFE = 1 - 2.0**-28  # pays for rounding scores to their lattice and weights to integers
_ROUNDING = 1 + 1e-9


@dataclass(frozen=True, slots=True)
class Exponential:
    """epsilon = 2 / z for one choice: P(j) is proportional to e^(-score_j / (2 z b)).

    Reference: McSherry and Talwar 2007; docs/spec T10, 7. Deviation: weights are relative to the least
    score, and floored there, so that their size does not grow with the scores.
    """

    name: Literal["exponential"] = "exponential"

    @property
    def answers(self) -> int:
        """One use is one answer."""
        return 1

    def rdp(self, noise_multiplier: float, orders: Sequence[float]) -> NDArray[np.float64]:
        """rho(a) = a epsilon^2 / 8, the losses of one choice lying within epsilon of each other; at each a > 1."""
        epsilon = 2.0 / noise_multiplier
        narrow = np.asarray(orders, dtype=float) * (epsilon**2 / 8 * _ROUNDING)
        return np.minimum(narrow, randomized_response.renyi(epsilon, orders))

    def gdp(self, noise_multiplier: float) -> float:
        """mu of one choice, as of every answer of this epsilon."""
        return randomized_response.gdp(2.0 / noise_multiplier)

    def gdp_bound(self, noise_multiplier: float) -> float | None:
        """The same."""
        return randomized_response.gdp(2.0 / noise_multiplier)

    def pure(self, noise_multiplier: float) -> float | None:
        """epsilon at delta = 0."""
        return 2.0 / noise_multiplier

    def multiplier(self, mu_squared: float) -> float:
        """The z at which one choice spends mu^2."""
        return 2.0 / randomized_response.epsilon_of_gdp(float(np.sqrt(mu_squared)))

    def event(self, noise_multiplier: float) -> events.Event:
        """One choice as an event."""
        return events.exponential(2.0 / noise_multiplier)

    def std(self, noise_multiplier: float, bound: float, dimension: int) -> float:  # noqa: ARG002
        """0: a choice adds no noise to anything."""
        return 0.0

    def perturb(
        self, value: NDArray[np.float64], noise_multiplier: float, bound: float, noise: Noise
    ) -> NDArray[np.float64]:
        """The position of the choice among the scores `value`, shape (1,)."""
        shares = weights(value, noise_multiplier, bound)
        ends = list(accumulate(shares))
        return np.array([float(bisect_right(ends, noise.below(ends[-1])))])


def weights(scores: NDArray[np.float64], noise_multiplier: float, bound: float) -> list[int]:
    """The integer weight of each score: the law of the choice, exactly."""
    z, b = finite(noise_multiplier, "noise multiplier"), finite(bound, "per-record bound")
    if z <= 0 or b <= 0:
        raise OutOfRange("noise multiplier and bound must be positive")
    if scores.ndim != 1 or not 1 <= len(scores) <= MOST_CHOICES or not np.isfinite(scores).all():
        raise OutOfRange(f"scores are a vector of 1 to {MOST_CHOICES} finite numbers")
    steps = np.rint(np.clip(scores * (_STEPS / (2 * b)), -_LARGEST, _LARGEST))
    different, which = np.unique(steps - steps.min(), return_inverse=True)
    size = len(scores).bit_length()
    bits = 2 * _GUARD + size
    exact = Context(prec=math.ceil((bits + 64) * math.log10(2)) + 5, Emin=MIN_EMIN, Emax=MAX_EMAX)
    rate = exact.divide(Decimal(_SAFE / _STEPS), Decimal(z))  # epsilon / 2 for each sensitivity
    found = [_weight(exact, exact.multiply(rate, Decimal(step)), bits) for step in different.tolist()]
    return [found[j] for j in which]


def _weight(exact: Context, exponent: Decimal, bits: int) -> int:
    """max(2^80, ceil(2^bits e^-exponent)), the exponential correctly rounded; not evaluated far below the floor."""
    least = 1 << _GUARD
    if exponent > bits:
        return least
    scaled = exact.multiply(exact.exp(exponent.copy_negate()), Decimal(1 << bits))
    return max(least, int(scaled.to_integral_value(ROUND_CEILING)))
