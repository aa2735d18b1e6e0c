"""The last of T noisy contracting steps whose iterates stay hidden, so that earlier noise also covers later steps.

Precondition: y_(k+1) = m_k + gamma round(N_k / gamma), N_k ~ N(0, std^2 I), k = 0..T-1, where m_k on the lattice gamma
Z^d is a function of y_k and of the data. For some c-Lipschitz phi of y_k, fixed for one dataset, m_k is so near
phi(y_k) that between neighbors, from y and x, ||m - m'|| <= c ||y - x|| + k b + 2 gamma sqrt(d). The start is public, T
and c are fixed beforehand, and only y_T is released. std >= z (b + 2 gamma sqrt(d)).
Pseudo-code: one step is `perturb`, round_gamma(value) + gamma round(N / gamma), with one lattice for all steps. The
caller makes T steps; the answer of a single step is private only if it is the last.
Postcondition: y_T is mu-GDP with mu = (k/z) sqrt(T_eff), T_eff = (1-c^T)/(1+c^T) (1+c)/(1-c), which is T at c = 1.
Proof: docs/proofs/last_iterate.md.

Review: The cost assumes contracting steps whose iterates stay hidden.
"""

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

from accounting.mechanisms.gaussian import Gaussian
from accounting.mechanisms.mechanism import AbstractGaussianNoise, AbstractUnsampled, Curves, Event
from accounting.numbers import whole, within
from accounting.privacy import REPLACE_ONE, Relation, sensitivity_factor

MOST_STEPS = 1_000_000
_UNIT_ROUNDOFF = 2.0**-53


@dataclass(frozen=True, slots=True)
class LastIterate(AbstractUnsampled, AbstractGaussianNoise):
    """One use is T hidden steps and one answer.

    Parameters
    ----------
    steps : T, in [1, 1000000]
    contraction : c in [0, 1], a Lipschitz constant of one step without its noise

    Reference: Bok, Su and Altschuler 2024 (shifted interpolation); docs/spec T6 and 15 (lattice iterates).
    """

    steps: int
    contraction: float
    name: Literal["last_iterate"] = "last_iterate"
    answers: ClassVar[int] = 1  # hidden steps are not answers
    source: ClassVar[None] = None
    rounded_steps: ClassVar[float] = 2.0  # of a step's start and of its answer

    def __post_init__(self) -> None:
        whole(self.steps, "steps", 1, MOST_STEPS)
        within(self.contraction, "contraction", 0.0, 1.0)

    @property
    def effective_steps(self) -> float:
        """T_eff = (1 + c + .. + c^(T-1))^2 / (1 + c^2 + .. + c^(2(T-1))), rounded up.

        Both sums have positive terms and are computed by doubling, so nothing cancels as c -> 1. Every platform rounds
        additions, products and the division alike, so the written event is the same everywhere.
        """
        c = float(self.contraction)
        rounding = 1 + (8 * self.steps + 400) * _UNIT_ROUNDOFF
        return _power_sum(c, self.steps) ** 2 / _power_sum(c * c, self.steps) * rounding

    def curves(self, noise_multiplier: float, relation: Relation = REPLACE_ONE) -> Curves:
        """Return the curves of the last iterate, of mu = k sqrt(T_eff) / z."""
        return Curves.gaussian(sensitivity_factor(relation) / self._single_multiplier(noise_multiplier))

    def multiplier(self, mu_squared: float, relation: Relation = REPLACE_ONE) -> float:
        """Return the z at which the last iterate spends mu^2."""
        return sensitivity_factor(relation) / math.sqrt(mu_squared) * math.sqrt(self.effective_steps)

    def event(self, noise_multiplier: float) -> Event:
        """Return one Gaussian answer of the same mu, since only the last iterate is released."""
        return Gaussian().event(self._single_multiplier(noise_multiplier))

    def _single_multiplier(self, noise_multiplier: float) -> float:
        """Return the multiplier of a single Gaussian answer of the same cost."""
        return noise_multiplier / math.sqrt(self.effective_steps)


def _power_sum(c: float, count: int) -> float:
    """Return 1 + c + .. + c^(count - 1), by S_2n = S_n (1 + c^n) and S_(n+1) = 1 + c S_n."""
    total, power = 1.0, c
    for bit in bin(count)[3:]:
        total, power = total * (1 + power), power * power
        if bit == "1":
            total, power = 1 + c * total, power * c
    return total
