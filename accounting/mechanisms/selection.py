"""The best of N private runs, each of which counts with a fair coin that nobody sees.

Precondition: run i = 1..N is mu-GDP, mu = k / z, k = 2 under replace_one and 1 under zero_out, by noise of its own; its
score is part of its output; what each run is, and N, do not depend on the data; all N are made, whatever coins say.
Pseudo-code: for i = 1..N: (s_i, y_i) <- run i. Draw N fair coins, again until one shows heads. Release i, s_i, y_i of
the largest (s_i, i) among those that show heads, and nothing of coins and other runs.
Postcondition: Renyi divergence of order a at most `BestOf(N, mu)`. Proof: docs/proofs/selection.md.
"""

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from accounting.divergences.renyi_profile import RenyiLoss
from accounting.divergences.selection import BestOf
from accounting.errors import OutOfRange
from accounting.mechanisms.gaussian import Gaussian
from accounting.mechanisms.mechanism import AbstractUnsampled, Curves, Event, Vector
from accounting.noise import Noise, coins
from accounting.numbers import whole
from accounting.privacy import REPLACE_ONE, Relation, sensitivity_factor

MOST_RUNS = 256


@dataclass(frozen=True, slots=True)
class Selection(AbstractUnsampled):
    """One choice among N runs; the noise multiplier is that of a Gaussian answer that costs what one run may.

    Parameters
    ----------
    runs : N, in [2, 256]

    Reference: Papernot and Steinke 2022; docs/spec 11. Deviation: N is public and bounded, the runs may differ, and
    each counts by a coin of its own, so that how many count is binomial and the work always the same.
    """

    runs: int
    name: Literal["selection"] = "selection"

    def __post_init__(self) -> None:
        whole(self.runs, "the runs", 2, MOST_RUNS)

    @property
    def answers(self) -> int:
        """Every run is made and gives its score, which only the choice sees."""
        return self.runs

    def curves(self, noise_multiplier: float, relation: Relation = REPLACE_ONE) -> Curves:
        """The postcondition's Renyi curve, a pair over it, and what it would cost to release all runs."""
        curve = BestOf(self.runs, sensitivity_factor(relation) / noise_multiplier)
        return Curves(
            curve, gdp_bound=curve.mu * math.sqrt(self.runs), over=(RenyiLoss(curve, self._times * curve.mu),)
        )

    def multiplier(self, mu_squared: float, relation: Relation = REPLACE_ONE) -> float:
        """The z at which one choice spends mu^2, about."""
        return self._times * sensitivity_factor(relation) / math.sqrt(mu_squared)

    def event(self, noise_multiplier: float) -> Event:
        """The best of so many runs, each no more than the event within; dp-accounting has no name for it."""
        return {"type": "SelectionDpEvent", "runs": self.runs, "event": Gaussian().event(noise_multiplier)}

    def std(self, noise_multiplier: float, bound: float, dimension: int) -> float:  # noqa: ARG002
        """0: a choice adds no noise to anything."""
        return 0.0

    def perturb(self, value: Vector, noise_multiplier: float, bound: float, noise: Noise) -> Vector:  # noqa: ARG002
        """The position of the best among the scores `value` whose coins show heads, the last of several: shape (1,)."""
        if value.ndim != 1 or not len(value) or np.isnan(value).any():
            raise OutOfRange("scores are a vector of numbers")
        heads = coins.heads(noise, len(value))
        ranks = np.where(heads, 1 + np.lexsort((np.arange(len(value)), value)).argsort(), 0)
        return np.array([float(ranks.argmax())])

    @property
    def _times(self) -> float:
        """About by how much more noise a run needs than if it were alone."""
        return math.sqrt(1 + self.runs / 8)
