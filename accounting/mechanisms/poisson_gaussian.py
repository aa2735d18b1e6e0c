"""Gaussian noise on a sum over a Poisson batch: each record takes part with probability q and adds at most b.

Precondition: the answer is (sum over the batch of h_i) / normalizer, ||h_i|| / normalizer <= b, the normalizer fixed;
the batch is drawn afresh for every answer and stays secret.
Pseudo-code: batch ~ Poisson(q); release round_gamma(sum / normalizer) + gamma round(N / gamma), N ~ N(0, (z b)^2 I).
Postcondition: dominated, in both directions and for all orders, with c = 1/z, by
    P = (1-q) N(0,1) + q N(c,1)   against   Q = (1-q) N(0,1) + q N(-c,1),
under zero_out by P against N(0,1) if the record is in the first dataset, and by N(0,1) against P if it is not.
Reference: docs/spec T3; proof in docs/proofs/poisson_gaussian.md.

Review: The dominating pairs match the relation, in both orders.
"""

import math
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Literal

from accounting.divergences.sampled_gaussian import OppositeLoss, SampledLoss, opposite_renyi, sampled_renyi
from accounting.mechanisms.gaussian import Gaussian
from accounting.mechanisms.mechanism import AbstractFixedAnswers, AbstractGaussianNoise, Curves, Event
from accounting.numbers import RATE_ROUNDING, SMALLEST_RATE, within
from accounting.privacy import REPLACE_ONE, Relation, Unit, sensitivity_factor

MOST_DRAWN = 2**26
"""Largest expected number of records in a batch of partitioned data, because the coordinator lists them."""


@dataclass(frozen=True, slots=True)
class PoissonGaussian(AbstractFixedAnswers, AbstractGaussianNoise):
    """One answer over a fresh Poisson batch.

    Parameters
    ----------
    rate : q in [1e-9, 1], each record's probability of being in the batch
    """

    rate: float
    name: Literal["poisson_gaussian"] = "poisson_gaussian"
    answers: ClassVar[int] = 1
    source: ClassVar[None] = None

    def __post_init__(self) -> None:
        within(self.rate, "sampling rate", SMALLEST_RATE, 1.0)

    def fits(self, n: int, unit: Unit) -> bool:  # noqa: ARG002
        """Return whether a batch holds one record or more in expectation."""
        return self.rate * n >= 1 - RATE_ROUNDING

    def needs_all_rows(self, n: int) -> str | None:
        """Return None for small batches, otherwise the reason, which is that a draw lists all records."""
        return f"its batches hold more than {MOST_DRAWN} rows" if self.rate * n > MOST_DRAWN else None

    def curves(self, noise_multiplier: float, relation: Relation = REPLACE_ONE) -> Curves:
        """Return D_a(P || Q) and the loss of that pair; at q = 1 the curves of the Gaussian mechanism."""
        q, c, mu = self.rate, 1.0 / noise_multiplier, sensitivity_factor(relation) / noise_multiplier
        if q == 1:
            return Curves.gaussian(mu)
        if relation == "zero_out":
            forward = SampledLoss(q, c)
            mirrored = SampledLoss(q, c, mirrored=True)
            return Curves(partial(sampled_renyi, q, c), gdp_bound=mu, losses=(forward,), mirrored=(mirrored,))
        return Curves(partial(opposite_renyi, q, c), gdp_bound=mu, losses=(OppositeLoss(q, c),))

    def multiplier(self, mu_squared: float, relation: Relation = REPLACE_ONE) -> float:
        """Return the z at which one answer spends about mu^2.

        In the many-answer limit 4 q^2 sinh(1/z^2) = mu^2, or, under zero_out, q^2 (e^(1/z^2) - 1) = mu^2.
        """
        if relation == "zero_out":
            return 1.0 / math.sqrt(math.log1p(mu_squared / self.rate**2))
        return 1.0 / math.sqrt(math.asinh(mu_squared / (4 * self.rate**2)))

    def event(self, noise_multiplier: float) -> Event:
        """Return a Gaussian event on a batch that contains each record independently with probability q."""
        gaussian = Gaussian().event(noise_multiplier)
        return {"type": "PoissonSampledDpEvent", "sampling_probability": self.rate, "event": gaussian}
