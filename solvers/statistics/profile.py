"""Profile: shares of categories, histograms of numbers, and the moments that standardize rows.

Review: The four answers use the planned parts of mu^2.
"""

from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from accounting.mechanisms import Gaussian
from accounting.plan import Query
from solvers import count_bounds
from solvers.methods.run import Bounds
from solvers.oracles import Counting
from solvers.preparation import moments
from solvers.preparation.moments import Moments
from solvers.problem import Problem, Vector
from solvers.statistics.statistic import Statistic, bins_refused, numbers, with_share

MOST_BINS, MOST_CELLS = 1024, 2**18
_SHARES = {"means": 0.40, "spread": 0.05, "variances": 0.25}  # of mu^2, if there are numbers
_HISTOGRAMS_SHARE = 0.30


@dataclass(frozen=True, slots=True)
class Profile(Statistic):
    """One-way marginals and moments of all columns, by four Gaussian answers about all rows.

    The means of a category's 0/1 columns are its marginal. A number is counted in equal bins of its declared range. The
    moments are those of docs/spec 17; later jobs may standardize rows with them without a further charge. Quantiles and
    intervals of the columns are post-processing.

    Parameters
    ----------
    bins : number of bins of each number's range, in [1, 1024]

    Precondition: columns are declared, rows are not clipped, delta > 0.
    Proof: docs/proofs/standardisation.md. Reference: docs/spec 22.
    """

    bins: Annotated[int, Field(ge=1, le=MOST_BINS)] = 32
    name: Literal["profile"] = "profile"

    def refusal(self, problem: Problem) -> str | None:
        """Return why there are too many bins or too narrow numbers, or None."""
        too_many = self.bins * numbers(problem) > MOST_CELLS
        many = f"all numbers together may have at most {MOST_CELLS} bins. Use fewer" if too_many else None
        narrow = moments.NARROW if moments.are_narrow(moments.columns_of(problem)) else None
        return bins_refused(self.bins, MOST_BINS) or many or narrow

    def queries(self, problem: Problem) -> tuple[Query, ...]:
        """Return the queries for means, spread, variances and histograms."""
        planned = moments.queries(problem, **_SHARES)
        return (*planned, Query("histograms", 1, Gaussian(), _HISTOGRAMS_SHARE)) if numbers(problem) else planned

    def bounds(self, problem: Problem) -> Bounds:
        """Return the bounds of the moments and of the counts; a record is in one bin of each of p numbers."""
        bounds = moments.bounds(problem)
        p = numbers(problem)
        return bounds | {"histograms": (count_bounds.cells(problem.relation, p), p * self.bins)} if p else bounds

    def size(self, problem: Problem) -> int:
        """Return how many numbers `run` returns."""
        return 3 * (problem.d - 1) + numbers(problem) * self.bins + problem.unit.is_person

    def run(self, oracle: Counting, problem: Problem) -> Vector:
        """Return center, variances, noise stds and the counts of each number, flat; for persons also the share."""
        released = moments.answered(oracle.moments, problem)
        counts = oracle.histograms("histograms", self.bins) if numbers(problem) else np.zeros(0)
        answers = np.concatenate((released.center, released.variances, released.noise, counts))
        return with_share(answers, oracle, problem)

    def unpack(self, problem: Problem, answers: Vector) -> tuple[Moments, Vector, float]:
        """Return the moments, the counts, (p, bins), and the share of a result of `run`; the share is 1 for rows."""
        d, p = problem.d - 1, numbers(problem)
        counts = answers[3 * d : 3 * d + p * self.bins].reshape(p, self.bins)
        center, variances, noise = (tuple(part.tolist()) for part in answers[: 3 * d].reshape(3, d))
        return Moments(center, variances, noise), counts, float(answers[-1]) if problem.unit.is_person else 1.0
