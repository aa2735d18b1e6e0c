"""Gaussian noise on the slots of a random allocation: each record in one secret slot of T, or in none; adds at most b.

Precondition: one use has T answers; answer t is (sum over slot t of h_i) / normalizer, ||h_i|| / normalizer <= b, the
normalizer fixed; h_i depends on record i and on earlier answers. Slots are drawn afresh for every use, without the
data, and stay secret.
Pseudo-code: allocate; for t = 1..T release round_gamma(sum of slot t / normalizer) + gamma round(N_t / gamma),
N_t ~ N(0, (z b)^2 I). To allocate, with q = rate,
    independent: each record, by itself, gets no slot with probability 1 - q, else one of T uniformly;
    ordered: q n distinct records in random order, the first q n / T in slot 1, the next in slot 2, ...
Postcondition, for all answers of one use together and both directions: with c = 1/z, Y ~ N(0,1), X_t independent and
kappa = (1-q)(gamma-1)/q, for every gamma >= 1,
    H_gamma <= q E[((X_1 + ... + X_T) / T - kappa)_+],
    independent: X = e^(cY - c^2/2) - gamma e^(-cY - c^2/2),
    ordered:     X = (a - gamma)_+ and, apart from it, (1 - gamma a) where a > 1/gamma,  a = e^(2cY - 2c^2);
and never more than one answer on a sample of rate q would cost, hence 2/z-GDP. Under zero_out 1/z-GDP; independent:
H_gamma <= E[(1 - q + q S - gamma)_+], in the other order E[(1 - gamma (1 - q + q S))_+], S a mean of T e^(cY - c^2/2).
Reference: docs/spec T5; proof in docs/proofs/random_allocation.md; numbers in accounting/divergences/allocation.py.
"""

import math
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Literal

from accounting import numbers
from accounting.divergences import allocation, polygon
from accounting.divergences.losses import Masses, Search
from accounting.errors import OutOfRange
from accounting.mechanisms.gaussian import Gaussian
from accounting.mechanisms.mechanism import AbstractGaussianNoise, Curves, Event
from accounting.privacy import REPLACE_ONE, Relation, Unit, sensitivity_factor

MOST_SLOTS = 100_000
Form = Literal["independent", "ordered"]


@dataclass(frozen=True, slots=True)
class RandomAllocation(AbstractGaussianNoise):
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
        numbers.whole(self.slots, "slots", 1, MOST_SLOTS)
        if self.form not in ("independent", "ordered"):
            raise OutOfRange("an allocation is 'independent' or 'ordered'")

    @property
    def answers(self) -> int:
        """One use is one answer for each slot."""
        return self.slots

    def fits(self, n: int, unit: Unit) -> bool:  # noqa: ARG002
        """Return whether a slot holds one record or more in expectation."""
        return self.normalizer(n) >= 1 - numbers.LAST_DIGITS

    def curves(self, noise_multiplier: float, relation: Relation = REPLACE_ONE) -> Curves:
        """rho(a) = a mu^2 / 2, mu = 2/z, under zero_out 1/z: a record is in one answer at most. Secret slots improve no
        Renyi curve at the orders that matter, where the chance of a lucky guess is what counts; they improve epsilon at
        a delta, hence the losses.
        """
        mu, use = sensitivity_factor(relation) / noise_multiplier, (self, noise_multiplier)  # the mu of known slots
        return Curves(
            Curves.gaussian(mu).rdp,
            gdp_bound=mu,
            losses=(AllocationLoss(*use, relation=relation),),
            rough=lambda search: (AllocationLoss(*use, search, relation),),
            approximate_rdp=partial(allocation.conditioned_rdp, *use, relation=relation),
            epsilon=partial(allocation.epsilon, *use, relation=relation),
            delta=partial(allocation.hockey_stick, *use, relation=relation),
        )

    def multiplier(self, mu_squared: float, relation: Relation = REPLACE_ONE) -> float:
        """The z at which one use spends about mu^2: in the limit of many slots, 4 q^2 sinh(1/z^2) / T = mu^2."""
        share = mu_squared * self.slots / self.rate**2
        zeroed = relation == "zero_out" and self.form == "independent"
        return 1.0 / math.sqrt(math.log1p(share) if zeroed else math.asinh(share / 4))

    def event(self, noise_multiplier: float) -> Event:
        """The event within once for each slot, on the records of that slot; each record is in one slot at most."""
        within = Gaussian().event(noise_multiplier)
        shape = {"rate": self.rate, "slots": self.slots, "form": self.form}
        return {"type": "RandomAllocationDpEvent", **shape, "event": within}

    def normalizer(self, n: int) -> float:
        """q n / T, the fixed number that each slot's sum is divided by."""
        return self.rate * n / self.slots

    def batch(self, n: int) -> int:
        """b = q n / T records in each slot of the ordered form; `OutOfRange` unless it is an integer, to rounding."""
        batch = round(self.normalizer(n))
        if not 1 <= batch <= n // self.slots or abs(self.slots * batch / n - self.rate) > 1e-12 * self.rate:
            raise OutOfRange("an ordered allocation gives each slot the same number of records")
        return batch


@dataclass(frozen=True, slots=True)
class AllocationLoss:
    """One use of a random allocation: the pair whose profile is the polygon over that of the mechanism.

    Parameters
    ----------
    mechanism, noise_multiplier : the use
    search : with less work for a search of noise, and then no bound
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
        return 2 * float(allocation.knots(self.mechanism, self.noise_multiplier, self.search, self.relation)[0][-1])

    def moments(self, count: int) -> tuple[float, float]:
        """As in the limit of many slots; its rare jumps lie within `widest`."""
        variance = self.deviation**2
        return count * variance / 2, count * variance

    def masses(self, interval: float) -> Masses:
        return _masses(self, interval)


@lru_cache(maxsize=16)
def _masses(loss: AllocationLoss, interval: float) -> Masses:
    knots = allocation.knots(loss.mechanism, loss.noise_multiplier, loss.search, loss.relation)
    return polygon.on_grid(knots, interval)
