"""The Gaussian mechanism on an answer to which each record adds at most b: std = z b, sensitivity k b.

Precondition: the answer is a sum or mean of per-record vectors of l2 norm at most b. Answers of neighbors differ by at
most k b, with k = 2 under replace_one and k = 1 under zero_out.
Pseudo-code: release round_gamma(value) + gamma round(N / gamma), N ~ N(0, (z b)^2 I).
Postcondition: k/z-GDP; Renyi divergence of order a at most k^2 a / (2 z^2). Proof: docs/proofs/gaussian.md.

Review: The noise std is z times the per-record bound. The sensitivity is the relation's factor times this bound.
"""

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

from accounting.mechanisms.mechanism import AbstractGaussianNoise, AbstractUnsampled, Curves, Event, Source
from accounting.privacy import REPLACE_ONE, Relation, sensitivity_factor


@dataclass(frozen=True, slots=True)
class Gaussian(AbstractUnsampled, AbstractGaussianNoise):
    """mu = k b / std = k / z for every answer.

    Reference: Dwork and Roth 2014, appendix A; Dong, Roth and Su 2022; docs/spec T1.
    """

    name: Literal["gaussian"] = "gaussian"
    answers: ClassVar[int] = 1
    source: ClassVar[Source | None] = Source()

    def curves(self, noise_multiplier: float, relation: Relation = REPLACE_ONE) -> Curves:
        """Return the curves of mu = k/z, which are exact."""
        return Curves.gaussian(sensitivity_factor(relation) / noise_multiplier)

    def multiplier(self, mu_squared: float, relation: Relation = REPLACE_ONE) -> float:
        """Return the z at which one answer spends mu^2."""
        return sensitivity_factor(relation) / math.sqrt(mu_squared)

    def event(self, noise_multiplier: float) -> Event:
        """Return one answer as an event."""
        return {"type": "GaussianDpEvent", "noise_multiplier": noise_multiplier}
