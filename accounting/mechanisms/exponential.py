"""The exponential mechanism: a choice from a public list, by scores that neighbors move by at most k b.

Precondition: a list fixed by public facts, one score for each entry (less is better); between neighbors every
score moves by at most k b, rounding included: k = 2 under replace_one, 1 under zero_out.
Pseudo-code: x_j = scores in units of 2 b on the lattice of 2^-30, less their least, at most the x of e^(-r x) = 2^-80;
w_j = e^(-r x_j) in floats, seven factors from seven tables; draw u of 192 bits; return the j whose share of the sum of
the w_j, an exact integer, u falls into.
Postcondition: k/z-DP exactly, epsilon = k/z; every score costs the same operations. Proof: docs/proofs/exponential.md.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from functools import lru_cache
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from accounting.divergences import randomized_response
from accounting.errors import OutOfRange
from accounting.mechanisms.mechanism import AbstractUnsampled, Curves, Event
from accounting.noise import Noise
from accounting.noise.draws import integer
from accounting.numbers import finite
from accounting.privacy import REPLACE_ONE, Relation, sensitivity_factor

Floats = NDArray[np.float64]
MOST_CHOICES = 1 << 18
_STEPS = 2.0**30  # of the lattice of scores, in one sensitivity
_LARGEST = 2.0**51
_SAFE = 1 - 2.0**-27  # pays for rounding scores to their lattice
_INEXACT = 2.0**-46  # of epsilon: pays for the roundings of the weights, and of the draw
_FLOOR = 80  # log2 of the largest weight over the least
_DIGITS = 7  # to the base 256, of a number of steps
_WHOLE = 133  # 2^133 w is an integer: a float of at least 2^-81 is a multiple of 2^-133
_LIMB = 45  # 3 limbs of 45 bits hold it, and 2^18 limbs add up to less than 2^63
_ONES = (1 << _LIMB) - 1
_DRAWN = 3  # words
_ROUNDING = 1 + 1e-9


@dataclass(frozen=True, slots=True)
class Exponential(AbstractUnsampled):
    """epsilon = k / z for one choice: P(j) is proportional to e^(-score_j / (2 z b)).

    Reference: McSherry and Talwar 2007; docs/spec T10, 7. Deviation: weights are relative to the least
    score, and floored there, so that their size does not grow with the scores.
    """

    name: Literal["exponential"] = "exponential"
    answers: ClassVar[int] = 1

    def curves(self, noise_multiplier: float, relation: Relation = REPLACE_ONE) -> Curves:
        """epsilon = k/z; rho(a) = a epsilon^2 / 8, the losses of one choice lying within epsilon of each other."""
        epsilon = sensitivity_factor(relation) / noise_multiplier

        def rdp(orders: Sequence[float]) -> Floats:
            narrow = np.asarray(orders, dtype=float) * (epsilon**2 / 8 * _ROUNDING)
            return np.minimum(narrow, randomized_response.renyi(epsilon, orders))

        return Curves.of_pure(epsilon, rdp)

    def multiplier(self, mu_squared: float, relation: Relation = REPLACE_ONE) -> float:
        """The z at which one choice spends mu^2."""
        return sensitivity_factor(relation) / randomized_response.epsilon_of_gdp(math.sqrt(mu_squared))

    def event(self, noise_multiplier: float) -> Event:
        """One choice as an event, epsilon as under replace_one; dp-accounting has no name for it."""
        return {"type": "ExponentialMechanismDpEvent", "epsilon": 2.0 / noise_multiplier}

    def std(self, noise_multiplier: float, bound: float, dimension: int) -> float:  # noqa: ARG002
        """0: a choice adds no noise to anything."""
        return 0.0

    def perturb(self, value: Floats, noise_multiplier: float, bound: float, noise: Noise) -> Floats:
        """The position of the choice among the scores `value`, shape (1,)."""
        return np.array([float(_position(weights(value, noise_multiplier, bound), noise))])


def weights(scores: Floats, noise_multiplier: float, bound: float) -> Floats:
    """The weight of each score, in [2^-81, 1]: over their sum the law of the choice, to a factor of 1 +- 2^-93.

    The same operations for every score, whatever the scores are: none is looked up, counted or left out.
    """
    z, b = finite(noise_multiplier, "noise multiplier"), finite(bound, "per-record bound")
    if z <= 0 or b <= 0 or (rate := (_SAFE / z - _INEXACT / 2) / _STEPS) <= 0:
        raise OutOfRange("noise multiplier and bound must be positive, the multiplier at most 1e14")
    if scores.ndim != 1 or not 1 <= len(scores) <= MOST_CHOICES or not np.isfinite(scores).all():
        raise OutOfRange(f"scores are a vector of 1 to {MOST_CHOICES} finite numbers")
    steps = np.rint(np.clip(scores * (_STEPS / (2 * b)), -_LARGEST, _LARGEST))
    above = np.minimum(steps - steps.min(), float(math.floor(_FLOOR * math.log(2) / rate))).astype(np.int64)
    found = np.ones(len(scores))
    for k, powers in enumerate(_powers(rate)):
        found *= powers[above >> 8 * k & 255]
    return found


@lru_cache(maxsize=16)
def _powers(rate: float) -> Floats:
    """e^(-rate i 256^k), k = 0..6, i = 0..255, from 60 digits; the rate is public."""
    exact = Context(prec=60)
    table, base = np.empty((_DIGITS, 256)), exact.exp(-Decimal(rate))
    for row in table:
        power = Decimal(1)
        for i in range(256):
            row[i] = float(power)
            power = exact.multiply(power, base)
        base = power
    table.flags.writeable = False
    return table


def _position(shares: Floats, noise: Noise) -> int:
    """The j with E_(j-1) <= floor(u E / 2^192) < E_j, E_j = 2^133 (w_1 + ... + w_j), E the last, u of 192 bits.

    Every share is cut into limbs, every sum is carried, and every sum is compared.
    """
    whole, limbs = np.ldexp(shares, _WHOLE - 2 * _LIMB), []
    for _ in range(3):
        limb = np.floor(whole)
        limbs.append(np.cumsum(limb.astype(np.int64)))
        whole = np.ldexp(whole - limb, _LIMB)
    high, middle, low = limbs
    middle += low >> _LIMB
    high += middle >> _LIMB
    sums = (low & _ONES, middle & _ONES, high)
    at = integer(noise, _DRAWN) * sum(int(limb[-1]) << k * _LIMB for k, limb in enumerate(sums)) >> 64 * _DRAWN
    passed = np.ones(len(shares), dtype=bool)  # whether a sum is at most this place, by the limbs so far
    for limb, digit in zip(sums, (at & _ONES, at >> _LIMB & _ONES, at >> 2 * _LIMB), strict=True):
        passed = (limb < digit) | ((limb == digit) & passed)
    return int(np.count_nonzero(passed))
