"""A schedule of phases on disjoint positions, and the one parallel query that they are answered by."""

import math
from dataclasses import dataclass
from typing import Literal

from accounting.mechanisms import Gaussian, Laplace, Parallel
from accounting.plan import Query
from accounting.privacy import Privacy
from solvers.errors import NeedsDelta, Unsuitable

NoiseName = Literal["gaussian", "laplace"]
QUERY = "phase"
MOST_PHASES = 64


@dataclass(frozen=True, slots=True)
class Phases:
    """A schedule.

    Parameters
    ----------
    begin : the first position
    count : k
    rows : m of each
    ratio : q
    step : h, the first phase's eta
    """

    begin: int
    count: int
    rows: int
    ratio: float
    step: float

    def positions(self, i: int) -> range:
        """The positions of phase i = 0..k-1."""
        return range(self.begin + i * self.rows, self.begin + (i + 1) * self.rows)

    def eta(self, i: int) -> float:
        """eta of phase i = 0..k-1."""
        return self.step * self.ratio**-i


def noise_for(method: str, noise: NoiseName | None, privacy: Privacy) -> NoiseName:
    """Laplace at delta = 0 and Gaussian above, if open; `NeedsDelta` for Gaussian noise at delta = 0."""
    if noise not in (None, "gaussian", "laplace"):
        raise Unsuitable(f"{method}: noise must be gaussian or laplace")
    if noise == "gaussian" and privacy.is_pure:
        raise NeedsDelta("delta = 0 needs a pure mechanism: leave out `noise`, or make it laplace")
    return noise or ("laplace" if privacy.is_pure else "gaussian")


def parallel(noise: NoiseName, parts: int) -> tuple[Query, ...]:
    """The one query: a release a part, all at the cost of one."""
    return (Query(QUERY, 1, Parallel(Laplace() if noise == "laplace" else Gaussian(), parts)),)


def bound(noise: NoiseName, sensitivity: float, d: int) -> float:
    """Half an l2 sensitivity of replacement, in the mechanism's norm: ||v||_1 <= sqrt(d) ||v||_2."""
    return sensitivity / 2 * (math.sqrt(d) * (1 + 1e-15) if noise == "laplace" else 1.0)
