"""A profile: how often each category occurs, how numbers are spread, and the moments that standardise rows."""

from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from accounting.mechanisms import Gaussian
from accounting.plan import Query
from solvers import moment_bounds
from solvers.methods.run import Bounds
from solvers.oracles import Counting
from solvers.preparation import moments
from solvers.preparation.moments import Moments
from solvers.problem import Problem, Vector
from solvers.statistics.statistic import Statistic, bins_refused, numbers, with_share

MOST_BINS, MOST_CELLS = 1024, 2**18
_SHARES = {"means": 0.40, "spread": 0.05, "variances": 0.25}  # of mu^2, where there are numbers
_HISTOGRAMS = 0.30


@dataclass(frozen=True, slots=True)
class Profile(Statistic):
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

    def refusal(self, problem: Problem) -> str | None:
        """Too many bins, or numbers whose moments are none."""
        too_many = self.bins * numbers(problem) > MOST_CELLS
        many = f"it counts in at most {MOST_CELLS} bins of all numbers together: take fewer" if too_many else None
        narrow = moments.NARROW if moments.are_narrow(moments.columns_of(problem)) else None
        return bins_refused(self.bins, MOST_BINS) or many or narrow

    def queries(self, problem: Problem) -> tuple[Query, ...]:
        """Means, spread and variances, and the numbers' histograms."""
        asked = moments.queries(problem, **_SHARES)
        return (*asked, Query("histograms", 1, Gaussian(), _HISTOGRAMS)) if numbers(problem) else asked

    def bounds(self, problem: Problem) -> Bounds:
        """The moments', and for counts sqrt(p / k): a record is in one bin of each of p numbers."""
        found, p = moments.bounds(problem), numbers(problem)
        moved = moment_bounds.counts(moments.columns_of(problem), problem.relation)
        return found | {"histograms": (moved, p * self.bins)} if p else found

    def size(self, problem: Problem) -> int:
        """How many numbers `run` gives."""
        return 3 * (problem.d - 1) + numbers(problem) * self.bins + problem.unit.is_person

    def run(self, oracle: Counting, problem: Problem) -> Vector:
        """Center, variances and their noise stds, the counts number by number, persons' share of full places: flat."""
        found = moments.answered(oracle.moments, problem)
        counts = oracle.histograms("histograms", self.bins) if numbers(problem) else np.zeros(0)
        told = np.concatenate((found.center, found.variances, found.noise, counts))
        return with_share(told, oracle, problem)

    def parted(self, problem: Problem, answers: Vector) -> tuple[Moments, Vector, float]:
        """What `run` gave: the moments, the counts, (p, bins), and the share, 1 where records are rows."""
        d, p = problem.d - 1, numbers(problem)
        counts = answers[3 * d : 3 * d + p * self.bins].reshape(p, self.bins)
        center, variances, noise = (tuple(part.tolist()) for part in answers[: 3 * d].reshape(3, d))
        return Moments(center, variances, noise), counts, float(answers[-1]) if problem.unit.is_person else 1.0
