"""Gaussian noise on the slots of a random allocation: each record in one secret slot of T, or in none; adds at most b.

Precondition: one use has T answers; answer t is (sum over slot t of h_i) / normalizer, ||h_i|| / normalizer <= b, the
normalizer fixed; h_i depends on record i and on earlier answers. Slots are drawn afresh for every use, owe nothing to
the data and stay secret.
Pseudo-code: allocate; for t = 1..T release round_gamma(sum of slot t / normalizer) + gamma round(N_t / gamma),
N_t ~ N(0, (z b)^2 I). To allocate, with q = rate,
    independent: each record, by itself, gets no slot with probability 1 - q, else one of T uniformly;
    ordered: q n distinct records in random order, the first q n / T in slot 1, the next in slot 2, ...
Postcondition, for all answers of one use together and both directions: with c = 1/z, Y ~ N(0,1), X_t independent and
kappa = (1-q)(gamma-1)/q, for every gamma >= 1,
    H_gamma <= q E[((X_1 + ... + X_T) / T - kappa)_+],
    independent: X = e^(cY - c^2/2) - gamma e^(-cY - c^2/2),
    ordered:     X = (a - gamma)_+ and, apart from it, (1 - gamma a) where a > 1/gamma,  a = e^(2cY - 2c^2);
and never more than one answer on a sample of rate q would cost, hence 2/z-GDP.
Reference: docs/spec T5; proof in docs/proofs/random_allocation.md; numbers in accounting/divergences/allocation.py.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from accounting import numbers
from accounting.errors import OutOfRange
from accounting.mechanisms import events
from accounting.noise import Noise
from accounting.noise.lattice import Lattice

MOST_SLOTS = 100_000
Form = Literal["independent", "ordered"]


@dataclass(frozen=True, slots=True)
class RandomAllocation:
    """The answers of all slots of one allocation.

    Parameters
    ----------
    rate : q in [1e-9, 1], each record's probability of having a slot
    slots : T in [1, 100000]
    form : how records get their slots
    """

    rate: float
    slots: int
    form: Form = "independent"
    name: Literal["random_allocation"] = "random_allocation"

    def __post_init__(self) -> None:
        numbers.rate(self.rate, "allocation rate")
        if type(self.slots) is not int or not 1 <= self.slots <= MOST_SLOTS:
            raise OutOfRange(f"slots must be an integer in [1, {MOST_SLOTS}]")
        if self.form not in ("independent", "ordered"):
            raise OutOfRange("an allocation is 'independent' or 'ordered'")

    @property
    def answers(self) -> int:
        """One use is one answer for each slot."""
        return self.slots

    def rdp(self, noise_multiplier: float, orders: Sequence[float]) -> NDArray[np.float64]:
        """rho(a) = 2 a / z^2 of one use: a record is in one answer at most. Secret slots improve no Renyi curve at the
        orders that matter, where the chance of a lucky guess is what counts; they improve epsilon at a delta.
        """
        return np.asarray(orders, dtype=float) * (2.0 / noise_multiplier**2)

    def gdp(self, noise_multiplier: float) -> float | None:  # noqa: ARG002
        """None: the secrecy of the slots, which is what the accountant counts, is not Gaussian-DP."""
        return None

    def gdp_bound(self, noise_multiplier: float) -> float | None:
        """mu of a Gaussian pair that dominates one use: what it would cost if every slot were known."""
        return 2.0 / noise_multiplier

    def pure(self, noise_multiplier: float) -> float | None:  # noqa: ARG002
        """None: Gaussian noise has no epsilon at delta = 0."""
        return None

    def multiplier(self, mu_squared: float) -> float:
        """The z at which one use spends about mu^2: in the limit of many slots, 4 q^2 sinh(1/z^2) / T = mu^2."""
        return 1.0 / math.sqrt(math.asinh(mu_squared * self.slots / (4 * self.rate**2)))

    def event(self, noise_multiplier: float) -> events.Event:
        """One use as an event."""
        return events.randomly_allocated(self.rate, self.slots, self.form, events.gaussian(noise_multiplier))

    def normalizer(self, n: int) -> float:
        """q n / T, the fixed number that each slot's sum is divided by."""
        return self.rate * n / self.slots

    def batch(self, n: int) -> int:
        """b = q n / T records in each slot of the ordered form; `OutOfRange` unless it is an integer, to rounding."""
        batch = round(self.normalizer(n))
        if not 1 <= batch <= n // self.slots or abs(self.slots * batch / n - self.rate) > 1e-12 * self.rate:
            raise OutOfRange("an ordered allocation gives each slot the same number of records")
        return batch

    def std(self, noise_multiplier: float, bound: float, dimension: int) -> float:
        """The noise std, in the answer's unit, that `perturb` will use."""
        return Lattice.fit(noise_multiplier, bound, dimension).std

    def perturb(
        self, value: NDArray[np.float64], noise_multiplier: float, bound: float, noise: Noise
    ) -> NDArray[np.float64]:
        """One slot's private answer, shape (d,)."""
        return Lattice.fit(noise_multiplier, bound, len(value)).perturb(value, noise)
