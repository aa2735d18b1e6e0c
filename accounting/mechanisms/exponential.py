"""The exponential mechanism: a choice from a public list, by scores that change by at most k b between neighbors.

Precondition: the list depends on public facts only, with one score for each entry (less is better). Between neighbors
every score changes by at most k b, rounding included: k = 2 under replace_one, 1 under zero_out.
Pseudo-code: x_j = scores in units of 2 b on the lattice of 2^-30, minus the smallest, at most the x of
e^(-r x) = 2^-80; w_j = e^(-r x_j) in floats, seven factors from seven tables; draw u of 192 bits; return the j whose
share of the sum of the w_j, an exact integer, contains u.
Postcondition: k/z-DP exactly, epsilon = k/z; every score takes the same operations. Proof: docs/proofs/exponential.md.

Review: Every score moves by at most the sensitivity, rounding included.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from functools import lru_cache
from typing import ClassVar, Literal

import numpy as np

from accounting.divergences import randomized_response
from accounting.divergences.pure_loss import PureLoss
from accounting.errors import OutOfRange
from accounting.mechanisms.mechanism import AbstractUnsampled, Curves, Event, Source, Vector
from accounting.noise import Noise
from accounting.noise.draws import integer
from accounting.numbers import finite
from accounting.privacy import REPLACE_ONE, Relation, sensitivity_factor

MOST_CHOICES = 1 << 18
_STEPS_PER_SENSITIVITY = 2.0**30  # of the lattice of scores
_MOST_STEPS = 2.0**51
SCORE_MARGIN = 1 - 2.0**-27  # covers rounding the scores to their lattice
_WEIGHT_ERROR = 2.0**-46  # of epsilon: covers the rounding of the weights and of the draw
_WEIGHT_RANGE_BITS = 80  # log2 of the largest weight over the smallest
_DIGITS = 7  # to the base 256, of a number of steps
_WEIGHT_BITS = 133  # 2^133 w is an integer: a float of at least 2^-81 is a multiple of 2^-133
_LIMB_BITS = 45  # 3 limbs of 45 bits hold it, and 2^18 limbs add up to less than 2^63
_LIMB_MASK = (1 << _LIMB_BITS) - 1
_DRAWN_WORDS = 3
_ROUNDING = 1 + 1e-9


@dataclass(frozen=True, slots=True)
class Exponential(AbstractUnsampled):
    """epsilon = k / z for one choice: P(j) is proportional to e^(-score_j / (2 z b)).

    Reference: McSherry and Talwar 2007; docs/spec T10, 7. Deviation: weights are relative to the smallest score and
    have a floor, so that their size does not grow with the scores.
    """

    name: Literal["exponential"] = "exponential"
    answers: ClassVar[int] = 1
    source: ClassVar[Source | None] = Source()

    def curves(self, noise_multiplier: float, relation: Relation = REPLACE_ONE) -> Curves:
        """Return the curves of a choice whose losses differ by at most epsilon = k/z; rho(a) = a epsilon^2 / 8."""
        epsilon = sensitivity_factor(relation) / noise_multiplier

        def rdp(orders: Sequence[float]) -> Vector:
            bounded_range = np.asarray(orders, dtype=float) * (epsilon**2 / 8 * _ROUNDING)
            return np.minimum(bounded_range, randomized_response.renyi(epsilon, orders))

        mu = randomized_response.gdp(epsilon / 2)
        return Curves(rdp, mu, mu, epsilon, (PureLoss(epsilon, ends=0.0),))

    def multiplier(self, mu_squared: float, relation: Relation = REPLACE_ONE) -> float:
        """Return the z at which one choice spends mu^2."""
        return sensitivity_factor(relation) / (2 * randomized_response.epsilon_of_gdp(math.sqrt(mu_squared)))

    def event(self, noise_multiplier: float) -> Event:
        """Return one choice as an event, with the epsilon of replace_one; dp-accounting has no name for it."""
        return {"type": "ExponentialMechanismDpEvent", "epsilon": 2.0 / noise_multiplier}

    def std(self, noise_multiplier: float, bound: float, dimension: int) -> float:  # noqa: ARG002
        """Return 0, since a choice adds no noise to an answer."""
        return 0.0

    def perturb(self, value: Vector, noise_multiplier: float, bound: float, noise: Noise) -> Vector:
        """Return the index of the choice among the scores `value`, shape (1,)."""
        return np.array([float(chosen_index(weights(value, noise_multiplier, bound), noise))])


def weights(scores: Vector, noise_multiplier: float, bound: float) -> Vector:
    """Return the weight of each score, in [2^-81, 1]; divided by their sum, the law of the choice up to 1 +- 2^-93.

    Every score takes the same operations, whatever the scores are: none is looked up, counted or left out.
    """
    z = finite(noise_multiplier, "noise multiplier")
    b = finite(bound, "per-record bound")
    if z <= 0 or b <= 0 or (rate := (SCORE_MARGIN / z - _WEIGHT_ERROR / 2) / _STEPS_PER_SENSITIVITY) <= 0:
        raise OutOfRange("noise multiplier and bound must be positive, the multiplier at most 1e14")
    if scores.ndim != 1 or not 1 <= len(scores) <= MOST_CHOICES or not np.isfinite(scores).all():
        raise OutOfRange(f"scores must be a vector of 1 to {MOST_CHOICES} finite numbers")
    steps = np.rint(np.clip(scores * (_STEPS_PER_SENSITIVITY / (2 * b)), -_MOST_STEPS, _MOST_STEPS))
    cap = float(math.floor(_WEIGHT_RANGE_BITS * math.log(2) / rate))
    above_minimum = np.minimum(steps - steps.min(), cap).astype(np.int64)
    products = np.ones(len(scores))
    for k, powers in enumerate(_powers(rate)):
        products *= powers[above_minimum >> 8 * k & 255]
    return products


@lru_cache(maxsize=16)
def _powers(rate: float) -> Vector:
    """Return e^(-rate i 256^k) for k = 0..6 and i = 0..255, from 60 digits; the rate is public."""
    exact = Context(prec=60)
    table = np.empty((_DIGITS, 256))
    base = exact.exp(-Decimal(rate))
    for row in table:
        power = Decimal(1)
        for i in range(256):
            row[i] = float(power)
            power = exact.multiply(power, base)
        base = power
    table.flags.writeable = False
    return table


def chosen_index(shares: Vector, noise: Noise) -> int:
    """Return the j with E_(j-1) <= floor(u E / 2^192) < E_j, E_j = 2^133 (w_1 + ... + w_j), E the last, u of 192 bits.

    Every share is cut into limbs, every sum is carried, and every sum is compared.
    """
    remainder, limbs = np.ldexp(shares, _WEIGHT_BITS - 2 * _LIMB_BITS), []
    for _ in range(3):
        limb = np.floor(remainder)
        limbs.append(np.cumsum(limb.astype(np.int64)))
        remainder = np.ldexp(remainder - limb, _LIMB_BITS)
    high, middle, low = limbs
    middle += low >> _LIMB_BITS
    high += middle >> _LIMB_BITS
    sums = (low & _LIMB_MASK, middle & _LIMB_MASK, high)
    total = sum(int(limb[-1]) << k * _LIMB_BITS for k, limb in enumerate(sums))
    target = integer(noise, _DRAWN_WORDS) * total >> 64 * _DRAWN_WORDS
    digits = (target & _LIMB_MASK, target >> _LIMB_BITS & _LIMB_MASK, target >> 2 * _LIMB_BITS)
    is_passed = np.ones(len(shares), dtype=bool)  # whether a sum is at most the target, by the limbs so far
    for limb, digit in zip(sums, digits, strict=True):
        is_passed = (limb < digit) | ((limb == digit) & is_passed)
    return int(np.count_nonzero(is_passed))
