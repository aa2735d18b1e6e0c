"""Quantiles of numbers, from a private histogram.

Review: Quantiles are computed from a private histogram only.
"""

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from accounting.mechanisms import Gaussian
from accounting.plan import Query
from solvers import count_bounds
from solvers.methods.run import Bounds
from solvers.oracles import Counting
from solvers.preparation import moments
from solvers.problem import Problem, Vector
from solvers.statistics.statistic import Statistic, bins_refused, categories_refused, means, numbers, with_share

MOST_BINS, MOST_CELLS, MOST_SHARES = 2**14, 2**18, 64
_MEANS_SHARE = 0.2  # of mu^2, for the number of rows, if records are persons

Share = Annotated[float, Field(gt=0, lt=1)]


@dataclass(frozen=True, slots=True)
class Quantiles(Statistic):
    """Noisy counts of numbers in equal bins, from which quantiles are read.

    A quantile of the share q is the bin in which #{i : x_i <= t} / n reaches q. The counts of p numbers + N(0, std^2 I)
    are one Gaussian answer of l2 sensitivity sqrt(2 p) (sqrt(p) under zero_out). A quantile is as precise as a bin.
    More bins cost no privacy, but the sum of more bins has more noise. If a record is a person, the number of rows is
    secret, and a fifth of mu^2 is used for the means, which give the share of filled slots.

    Parameters
    ----------
    shares : q in (0, 1), at most 64 of them
    bins : number of equal bins of each number's declared range, in [1, 16384]

    Precondition: columns are declared, all of them numbers; rows are not clipped, delta > 0.
    Proof: docs/proofs/statistics.md. Reference: docs/spec 22.
    """

    shares: Annotated[tuple[Share, ...], Field(min_length=1, max_length=MOST_SHARES)] = (0.25, 0.5, 0.75)
    bins: Annotated[int, Field(ge=1, le=MOST_BINS)] = 256
    name: Literal["quantiles"] = "quantiles"

    def refusal(self, problem: Problem) -> str | None:
        """Return why shares, columns or bins are not accepted, or None if they are."""
        if not (1 <= len(self.shares) <= MOST_SHARES and all(0 < share < 1 for share in self.shares)):
            return f"shares must have 1 to {MOST_SHARES} entries, each in (0, 1)"
        too_many = self.bins * numbers(problem) > MOST_CELLS
        many = f"all columns together may have at most {MOST_CELLS} bins. Use fewer" if too_many else None
        return bins_refused(self.bins, MOST_BINS) or categories_refused(problem) or many

    def queries(self, problem: Problem) -> tuple[Query, ...]:
        """Return the query of the counts, and for persons that of the means."""
        if problem.unit.is_person:
            return (*means(problem, _MEANS_SHARE), Query("histograms", 1, Gaussian(), 1 - _MEANS_SHARE))
        return (Query("histograms", 1, Gaussian()),)

    def bounds(self, problem: Problem) -> Bounds:
        """Return sqrt(p / 2), or sqrt(p) under zero_out, because a record is in one bin of each number."""
        p = numbers(problem)
        bounds: Bounds = {"histograms": (count_bounds.cells(problem.relation, p), self.bins * p)}
        return bounds | {query.name: moments.bounds(problem)[query.name] for query in self.queries(problem)[:-1]}

    def size(self, problem: Problem) -> int:
        """Return the number of bins, plus 1 for the share of filled slots if records are persons."""
        return self.bins * numbers(problem) + problem.unit.is_person

    def run(self, oracle: Counting, problem: Problem) -> Vector:
        """Return the counts, number by number; for persons the share is last."""
        if problem.unit.is_person:
            oracle.moments.means("means")
        return with_share(oracle.histograms("histograms", self.bins), oracle, problem)
