"""The Gaussian mechanism on an answer to which each record adds at most b: std = z b, replace-one sensitivity 2 b.

Precondition: the answer is a sum or mean of per-record vectors of l2 norm at most b.
Pseudo-code: release round_gamma(value) + gamma round(N / gamma), N ~ N(0, (z b)^2 I).
Postcondition: 2/z-GDP; Renyi divergence of order a at most 2 a / z^2. Proof: docs/proofs/gaussian.md.
"""

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

from accounting.mechanisms.mechanism import AbstractGaussianNoise, Curves, Event


@dataclass(frozen=True, slots=True)
class Gaussian(AbstractGaussianNoise):
    """mu = 2 b / std = 2 / z for every answer.

    Reference: Dwork and Roth 2014, appendix A; Dong, Roth and Su 2022; docs/spec T1.
    """

    name: Literal["gaussian"] = "gaussian"
    answers: ClassVar[int] = 1

    def curves(self, noise_multiplier: float) -> Curves:
        """mu = 2/z, exactly."""
        return Curves.gaussian(2.0 / noise_multiplier)

    def multiplier(self, mu_squared: float) -> float:
        """The z at which one answer spends mu^2."""
        return 2.0 / math.sqrt(mu_squared)

    def event(self, noise_multiplier: float) -> Event:
        """One answer as an event."""
        return {"type": "GaussianDpEvent", "noise_multiplier": noise_multiplier}
