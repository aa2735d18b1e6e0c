"""Randomized response on one bit is 2/z-DP: docs/proofs/coin.md.

Review: Its epsilon.
"""

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from accounting.divergences import randomized_response
from accounting.mechanisms.mechanism import AbstractFixedAnswers, Curves, Event, Source, Vector
from accounting.noise import Noise
from accounting.noise.draws import uniform_below
from accounting.numbers import whole
from accounting.privacy import REPLACE_ONE, Relation, Unit, sensitivity_factor


@dataclass(frozen=True, slots=True)
class Coin(AbstractFixedAnswers):
    """Randomized response with a coin of two sides."""

    sides: int
    name: Literal["coin"] = "coin"
    answers: ClassVar[int] = 1
    source: ClassVar[Source | None] = Source()

    def __post_init__(self) -> None:
        whole(self.sides, "sides", 2, 2)

    def fits(self, n: int, unit: Unit) -> bool:
        return unit.slots == 1

    def needs_all_rows(self, n: int) -> None:
        pass

    def curves(self, noise_multiplier: float, relation: Relation = REPLACE_ONE) -> Curves:
        return Curves.of_pure(sensitivity_factor(relation) / noise_multiplier)

    def multiplier(self, mu_squared: float, relation: Relation = REPLACE_ONE) -> float:
        return sensitivity_factor(relation) / randomized_response.epsilon_of_gdp(mu_squared**0.5)

    def event(self, noise_multiplier: float) -> Event:
        return {"type": "RandomizedResponseDpEvent", "noise_multiplier": noise_multiplier, "sides": self.sides}

    def std(self, noise_multiplier: float, bound: float, dimension: int) -> float:
        return 0.0

    def perturb(self, value: Vector, noise_multiplier: float, bound: float, noise: Noise) -> Vector:
        is_true = uniform_below(noise, 1 << 40) < (1 << 40) / (1 + np.exp(-2.0 / noise_multiplier))
        return value if is_true else 1 - value
