"""A profile: how often each category occurs, how numbers are spread, and the moments that standardise rows."""

from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from accounting.mechanisms import Gaussian
from accounting.plan import Query
from accounting.privacy import Privacy
from solvers import moment_bounds
from solvers.doors import Standardised
from solvers.errors import NeedsDelta, Unsuitable
from solvers.methods.run import Bounds, StandardisedRun
from solvers.preparation import moments
from solvers.preparation.moments import Moments
from solvers.problem import Problem, Vector

MOST_BINS, MOST_CELLS = 1024, 2**18
_SHARES = {"means": 0.40, "spread": 0.05, "variances": 0.25}  # of mu^2, where there are numbers
_HISTOGRAMS = 0.30


@dataclass(frozen=True, slots=True)
class Profile(StandardisedRun):
    """All one-way marginals and the moments of all columns, by four Gaussian answers about all rows.

    The means of a category's 0/1 columns are its marginal; a number's is counted in equal bins of its declared range.
    Moments are those of docs/spec 17, which later jobs may standardise rows by at no further charge. All else that is
    said of the columns (quantiles, intervals) is post-processing.

    Parameters
    ----------
    bins : of every number's range, in [1, 1024]

    Precondition: columns are declared, rows are not clipped, delta > 0.
    Proof: docs/proofs/standardisation.md. Reference: docs/spec 22.
    """

    bins: Annotated[int, Field(ge=1, le=MOST_BINS)] = 32
    name: Literal["profile"] = "profile"

    def check(self, problem: Problem, privacy: Privacy) -> None:
        """`Unsuitable` if it cannot be had of such rows; a function of public facts."""
        if type(self.bins) is not int or not 1 <= self.bins <= MOST_BINS:
            raise Unsuitable(f"profile: bins must lie in [1, {MOST_BINS}]")
        if self.bins * _numbers(problem) > MOST_CELLS:
            raise Unsuitable(f"a profile counts in at most {MOST_CELLS} bins of all numbers together: take fewer")
        if privacy.is_pure:
            raise NeedsDelta("a profile's answers are Gaussian, which need delta > 0")

    def queries(self, problem: Problem) -> tuple[Query, ...]:
        """Means, spread and variances, and the numbers' histograms."""
        asked = moments.queries(problem, **_SHARES)
        return (*asked, Query("histograms", 1, Gaussian(), _HISTOGRAMS)) if _numbers(problem) else asked

    def bounds(self, problem: Problem) -> Bounds:
        """The moments', and for counts sqrt(p / k): a record is in one bin of each of p numbers."""
        found, p = moments.bounds(problem), _numbers(problem)
        moved = moment_bounds.counts(moments.columns_of(problem), problem.relation)
        return found | {"histograms": (moved, p * self.bins)} if p else found

    def gradient_evaluations(self, problem: Problem) -> float:
        """A pass for each answer."""
        return float(problem.n) * len(self.queries(problem))

    def excess_risk(self, problem: Problem, noise_std: float, start: object) -> str:  # noqa: ARG002
        """None."""
        return "A profile is no model: there is no risk to forecast."

    def size(self, problem: Problem) -> int:
        """How many numbers `run` gives."""
        return 3 * (problem.d - 1) + _numbers(problem) * self.bins + problem.unit.is_person

    def run(self, oracle: Standardised, problem: Problem) -> Vector:
        """Center, variances and their noise stds, the counts number by number, persons' share of full places: flat."""
        found = moments.answered(oracle, problem)
        counts = oracle.histograms("histograms", self.bins) if _numbers(problem) else np.zeros(0)
        share = [oracle.share] if problem.unit.is_person else []
        return np.concatenate((found.center, found.variances, found.noise, counts, share))

    def parted(self, problem: Problem, answers: Vector) -> tuple[Moments, Vector, float]:
        """What `run` gave: the moments, the counts, (p, bins), and the share, 1 where records are rows."""
        d, p = problem.d - 1, _numbers(problem)
        counts = answers[3 * d : 3 * d + p * self.bins].reshape(p, self.bins)
        center, variances, noise = (tuple(part.tolist()) for part in answers[: 3 * d].reshape(3, d))
        return Moments(center, variances, noise), counts, float(answers[-1]) if problem.unit.is_person else 1.0


def _numbers(problem: Problem) -> int:
    return int(moments.columns_of(problem).is_number.sum())
