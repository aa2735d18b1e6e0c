"""The Laplace mechanism on an answer to which each record adds at most b in l1: scale = z b, sensitivity k b.

Precondition: answers of neighbors differ by at most k b in the l1 norm, k = 2 under replace_one, 1 under zero_out.
Pseudo-code: release round_gamma(value) + gamma round(Y / gamma), Y_j i.i.d. of density e^(-|y| / (z b)) / (2 z b).
Postcondition: k/z-DP, delta = 0. Proof: docs/proofs/laplace.md.

Review: The bound is in l1, and epsilon is the sensitivity factor / z.
"""

import math
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Literal

from accounting.divergences import laplace
from accounting.divergences.pure_loss import PureLoss
from accounting.mechanisms.mechanism import AbstractUnsampled, Curves, Event, Source, Vector
from accounting.noise import Noise
from accounting.noise.lattice import Lattice
from accounting.privacy import REPLACE_ONE, Relation, sensitivity_factor


@dataclass(frozen=True, slots=True)
class Laplace(AbstractUnsampled):
    """epsilon = k b / scale = k / z for every answer.

    Reference: Dwork, McSherry, Nissim and Smith 2006; Mironov 2017, Proposition 6 (in one dimension;
    docs/proofs/laplace.md for vectors).
    """

    name: Literal["laplace"] = "laplace"
    answers: ClassVar[int] = 1
    source: ClassVar[Source | None] = Source()

    def curves(self, noise_multiplier: float, relation: Relation = REPLACE_ONE) -> Curves:
        """Return the curves of one coordinate that changes by the whole sensitivity, epsilon = k/z scales."""
        epsilon = sensitivity_factor(relation) / noise_multiplier
        mu = laplace.gdp(epsilon)
        loss = PureLoss(epsilon, ends=(1 + math.exp(-epsilon)) / 2)
        return Curves(partial(laplace.renyi, epsilon), mu, mu, epsilon, (loss,))

    def multiplier(self, mu_squared: float, relation: Relation = REPLACE_ONE) -> float:
        """Return the z at which one answer spends mu^2."""
        return sensitivity_factor(relation) / laplace.epsilon_of_gdp(math.sqrt(mu_squared))

    def event(self, noise_multiplier: float) -> Event:
        """Return one answer as an event; its multiplier is the scale over the per-record bound in l1."""
        return {"type": "LaplaceDpEvent", "noise_multiplier": noise_multiplier}

    def std(self, noise_multiplier: float, bound: float, dimension: int) -> float:
        """Return the noise std that `perturb` uses, in the unit of the answer: sqrt(2) scales."""
        return math.sqrt(2) * Lattice.fit_l1(noise_multiplier, bound, dimension).std

    def perturb(self, value: Vector, noise_multiplier: float, bound: float, noise: Noise) -> Vector:
        """Return the private answer, shape (d,)."""
        return Lattice.fit_l1(noise_multiplier, bound, len(value)).perturb_laplace(value, noise)
