"""Schedules of phases on disjoint rows, and the parallel query that answers them."""

import math
from dataclasses import dataclass
from typing import Literal

from accounting.mechanisms import Gaussian, Laplace, Parallel
from accounting.plan import Query
from accounting.privacy import Privacy
from solvers.errors import NeedsDelta

NoiseName = Literal["gaussian", "laplace"]
QUERY = "phase"
MOST_PHASES = 64


@dataclass(frozen=True, slots=True)
class Phases:
    """A schedule of phases.

    Parameters
    ----------
    begin : index of the first row
    count : k, number of phases
    rows : m, number of rows in each phase
    ratio : q, by which eta decreases in each phase
    step : h, the eta of the first phase
    """

    begin: int
    count: int
    rows: int
    ratio: float
    step: float

    def positions(self, i: int) -> range:
        """Return the row indices of phase i = 0..k-1."""
        return range(self.begin + i * self.rows, self.begin + (i + 1) * self.rows)

    def eta(self, i: int) -> float:
        """Return eta of phase i = 0..k-1."""
        return self.step * self.ratio**-i


def noise_for(method: str, noise: NoiseName | None, privacy: Privacy) -> NoiseName:
    """Return the noise: as requested, or Laplace at delta = 0 and Gaussian otherwise.

    Raises
    ------
    NeedsDelta
        for Gaussian noise at delta = 0.
    """
    if noise == "gaussian" and privacy.is_pure:
        raise NeedsDelta(f"{method}: noise must not be gaussian at delta = 0. Use laplace, or leave out noise")
    return noise or ("laplace" if privacy.is_pure else "gaussian")


def parallel(noise: NoiseName, parts: int) -> tuple[Query, ...]:
    """Return one query with a release for each part, at the cost of one release."""
    return (Query(QUERY, 1, Parallel(Laplace() if noise == "laplace" else Gaussian(), parts)),)


def bound(noise: NoiseName, sensitivity: float, d: int) -> float:
    """Return half the sensitivity of replacement in the mechanism's norm, because ||v||_1 <= sqrt(d) ||v||_2."""
    return sensitivity / 2 * (math.sqrt(d) * (1 + 1e-15) if noise == "laplace" else 1.0)
