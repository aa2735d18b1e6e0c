"""Gaussian noise on the slots of a random allocation: each record adds at most b to one secret slot of T, or to none.

Precondition: one use has T answers; answer t is (sum over slot t of h_i) / normalizer, ||h_i|| / normalizer <= b, the
normalizer fixed; h_i depends on record i and on earlier answers. Slots are drawn afresh for every use, independently of
the data, and stay secret.
Pseudo-code: allocate; for t = 1..T release round_gamma(sum of slot t / normalizer) + gamma round(N_t / gamma),
N_t ~ N(0, (z b)^2 I). To allocate, with q = rate,
    independent: each record, by itself, gets no slot with probability 1 - q, else one of T uniformly;
    ordered: q n distinct records in random order, the first q n / T in slot 1, the next in slot 2, and so on.
Postcondition, for all answers of one use together and both directions: with c = 1/z, Y ~ N(0,1), X_t independent and
kappa = (1-q)(gamma-1)/q, for every gamma >= 1,
    H_gamma <= q E[((X_1 + ... + X_T) / T - kappa)_+],
    independent: X = e^(cY - c^2/2) - gamma e^(-cY - c^2/2),
    ordered:     X = (a - gamma)_+ and, apart from it, (1 - gamma a) where a > 1/gamma,  a = e^(2cY - 2c^2);
and never more than one answer on a sample of rate q would cost, hence 2/z-GDP. If the slots of the ordered form hold
all records (q = 1), only this last bound is proved, and it alone is used. Under zero_out 1/z-GDP; independent:
H_gamma <= E[(1 - q + q S - gamma)_+], in the other order E[(1 - gamma (1 - q + q S))_+], S a mean of T e^(cY - c^2/2);
ordered: the formula above with, for a_j = e^(jcY - (jc)^2/2), X = (a_2 - gamma a_1)_+ and, apart from it, 1 - gamma a_1
where a_1 > 1/gamma; in the other order X = (a_1 - gamma)_+ and, apart from it, a_1 - gamma a_2 where that is negative.
Reference: docs/spec T5; proof in docs/proofs/random_allocation.md; numbers in accounting/divergences/allocation.py.

Review: The profile holds for independent and ordered slots.
"""

import math
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Literal

from accounting.divergences import allocation, polygon
from accounting.divergences.losses import Masses, Search
from accounting.errors import OutOfRange
from accounting.mechanisms.gaussian import Gaussian
from accounting.mechanisms.mechanism import AbstractFixedAnswers, AbstractGaussianNoise, Curves, Event
from accounting.numbers import RATE_ROUNDING, SMALLEST_RATE, whole, within
from accounting.privacy import REPLACE_ONE, Relation, Unit, sensitivity_factor

MOST_SLOTS = 100_000
Form = Literal["independent", "ordered"]


@dataclass(frozen=True, slots=True)
class RandomAllocation(AbstractFixedAnswers, AbstractGaussianNoise):
    """The answers of all slots of one allocation.

    Parameters
    ----------
    rate : q in [1e-9, 1], each record's probability of having a slot
    slots : T in [1, 100000]
    form : distribution of the slots
    """

    rate: float
    slots: int
    form: Form = "independent"
    name: Literal["random_allocation"] = "random_allocation"
    source: ClassVar[None] = None

    def __post_init__(self) -> None:
        within(self.rate, "allocation rate", SMALLEST_RATE, 1.0)
        whole(self.slots, "slots", 1, MOST_SLOTS)
        if self.form not in ("independent", "ordered"):
            raise OutOfRange("form must be 'independent' or 'ordered'")

    @property
    def answers(self) -> int:
        """Number of answers of one use: one for each slot."""
        return self.slots

    def fits(self, n: int, unit: Unit) -> bool:  # noqa: ARG002
        """Return whether a slot holds one record or more in expectation."""
        return self.normalizer(n) >= 1 - RATE_ROUNDING

    def needs_all_rows(self, n: int) -> str:  # noqa: ARG002
        """Return the reason, which is that the allocation lists all records."""
        return "its secret slots are a list of all rows"

    def curves(self, noise_multiplier: float, relation: Relation = REPLACE_ONE) -> Curves:
        """Return the Renyi curve of known slots, a mu^2 / 2 with mu = 2/z (zero_out: 1/z), and losses of secret slots.

        A record is in one answer at most. Secret slots do not improve the Renyi curve at the orders that matter, where
        the chance of guessing the slot dominates. They improve epsilon at a delta, and the losses account for that.
        """
        mu, use = sensitivity_factor(relation) / noise_multiplier, (self, noise_multiplier)  # the mu of known slots
        return Curves(
            Curves.gaussian(mu).rdp,
            gdp_bound=mu,
            losses=(AllocationLoss(*use, relation=relation),),
            rough=lambda search: (AllocationLoss(*use, search, relation),),
            approximate_rdp=partial(allocation.conditioned_rdp, *use, relation=relation),
            epsilon=partial(allocation.epsilon, *use, relation=relation),
            delta=partial(allocation.searched_delta, *use, relation=relation),
        )

    def multiplier(self, mu_squared: float, relation: Relation = REPLACE_ONE) -> float:
        """Return the z at which one use spends about mu^2.

        For many slots, 4 q^2 sinh(1/z^2) / T = mu^2; under zero_out q^2 (e^(1/z^2) - 1) / T = mu^2.
        """
        share = mu_squared * self.slots / self.rate**2
        return 1.0 / math.sqrt(math.log1p(share) if relation == "zero_out" else math.asinh(share / 4))

    def event(self, noise_multiplier: float) -> Event:
        """Return a Gaussian event for each slot, on its records; each record is in one slot at most."""
        gaussian = Gaussian().event(noise_multiplier)
        shape = {"rate": self.rate, "slots": self.slots, "form": self.form}
        return {"type": "RandomAllocationDpEvent", **shape, "event": gaussian}

    def normalizer(self, n: int) -> float:
        """Return q n / T, the fixed number by which each slot's sum is divided."""
        return self.rate * n / self.slots

    def batch(self, n: int) -> int:
        """Return b = q n / T, the records in each slot of the ordered form; `OutOfRange` unless it is an integer."""
        batch = round(self.normalizer(n))
        if not 1 <= batch <= n // self.slots or abs(self.slots * batch / n - self.rate) > 1e-12 * self.rate:
            raise OutOfRange("rate * n / slots must be an integer: an ordered allocation fills its slots equally")
        return batch


@dataclass(frozen=True, slots=True)
class AllocationLoss:
    """The loss of one use of a random allocation, by the pair whose profile is a polygon over the mechanism's.

    Parameters
    ----------
    mechanism, noise_multiplier : the use
    search : approximate, for a search of noise; then it is not a bound
    relation : of the neighbors
    """

    mechanism: RandomAllocation
    noise_multiplier: float
    search: Search | None = None
    relation: Relation = REPLACE_ONE

    @property
    def shift(self) -> float:
        return 1 / self.noise_multiplier

    @property
    def deviation(self) -> float:
        return allocation.typical_deviation(self.mechanism, self.noise_multiplier, self.relation)

    @property
    def widest(self) -> float:
        return 2 * float(self._knots.epsilons[-1])

    def moments(self, count: int) -> tuple[float, float]:
        """Return mean and variance in the limit of many slots; rare jumps lie within `widest`."""
        variance = self.deviation**2
        return count * variance / 2, count * variance

    def masses(self, interval: float) -> Masses:
        return polygon.on_grid(self._knots, interval)

    @property
    def _knots(self) -> polygon.Knots:
        return allocation.knots(self.mechanism, self.noise_multiplier, self.search, self.relation)
