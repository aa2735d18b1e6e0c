"""The best of N private runs, each of which counts if a hidden fair coin shows heads.

Precondition: run i = 1..N is mu-GDP by noise of its own, mu = k / z, k = 2 under replace_one and 1 under zero_out. Its
score is part of its output. The runs and N do not depend on the data. All N runs are made, whatever the coins show.
Pseudo-code: for i = 1..N: (s_i, y_i) <- run i. Draw N fair coins, again until one shows heads. Release i, s_i, y_i of
the largest (s_i, i) among those that show heads, and nothing about the coins or the other runs.
Postcondition: Renyi divergence of order a at most `BestOf(N, mu)`, and a privacy profile of at most
`BestOfProfile(N, mu)`. Proof: docs/proofs/selection.md.

Review: All runs take place, and coins and losing runs stay secret.
"""

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from accounting.divergences.renyi_profile import RenyiLoss
from accounting.divergences.selection import BestOf, BestOfProfile
from accounting.errors import OutOfRange
from accounting.mechanisms.gaussian import Gaussian
from accounting.mechanisms.mechanism import AbstractUnsampled, Curves, Event, Vector
from accounting.noise import Noise, coins
from accounting.numbers import whole
from accounting.privacy import REPLACE_ONE, Relation, sensitivity_factor

MOST_RUNS = 256


@dataclass(frozen=True, slots=True)
class Selection(AbstractUnsampled):
    """One choice among N runs; its noise multiplier is that of a Gaussian answer with the allowed cost of one run.

    Parameters
    ----------
    runs : N, in [2, 256]

    Reference: Papernot and Steinke 2022; docs/spec 11. Deviation: N is public and bounded, the runs may differ, and
    each counts by its own coin. So the number that count is binomial, and the work is always the same.
    """

    runs: int
    name: Literal["selection"] = "selection"
    source: ClassVar[None] = None

    def __post_init__(self) -> None:
        whole(self.runs, "runs", 2, MOST_RUNS)

    @property
    def answers(self) -> int:
        """Number of scores: one for every run. Only the choice reads them."""
        return self.runs

    def curves(self, noise_multiplier: float, relation: Relation = REPLACE_ONE) -> Curves:
        """Return the postcondition's curve, a pair over it and the profile, and the cost of releasing all runs."""
        mu = sensitivity_factor(relation) / noise_multiplier
        curve = BestOf(self.runs, mu)
        loss = RenyiLoss(curve, self._noise_ratio * mu, BestOfProfile(self.runs, mu))
        return Curves(curve, gdp_bound=mu * math.sqrt(self.runs), losses=(loss,))

    def multiplier(self, mu_squared: float, relation: Relation = REPLACE_ONE) -> float:
        """Return the z at which one choice spends about mu^2."""
        return self._noise_ratio * sensitivity_factor(relation) / math.sqrt(mu_squared)

    def event(self, noise_multiplier: float) -> Event:
        """Return the choice as an event over one that bounds each run; dp-accounting has no name for it."""
        return {"type": "SelectionDpEvent", "runs": self.runs, "event": Gaussian().event(noise_multiplier)}

    def std(self, noise_multiplier: float, bound: float, dimension: int) -> float:  # noqa: ARG002
        """Return 0, since a choice adds no noise to an answer."""
        return 0.0

    def perturb(self, value: Vector, noise_multiplier: float, bound: float, noise: Noise) -> Vector:  # noqa: ARG002
        """Return the index of the best score whose coin shows heads, the last one of several, shape (1,)."""
        if value.ndim != 1 or not len(value) or np.isnan(value).any():
            raise OutOfRange("scores must be a non-empty vector of numbers without NaN")
        heads = coins.heads(noise, len(value))
        ranks = np.where(heads, 1 + np.lexsort((np.arange(len(value)), value)).argsort(), 0)
        return np.array([float(ranks.argmax())])

    @property
    def _noise_ratio(self) -> float:
        """The approximate ratio of a run's noise to that of a single run of the same cost."""
        return math.sqrt(1 + self.runs / 8)
