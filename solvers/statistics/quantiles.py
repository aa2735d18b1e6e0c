"""Quantiles: where a share of the rows lies below, from a private histogram."""

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from accounting.mechanisms import Gaussian
from accounting.plan import Query
from solvers import moment_bounds
from solvers.methods.run import Bounds
from solvers.oracles import Counting
from solvers.preparation import moments
from solvers.problem import Problem, Vector
from solvers.statistics.statistic import Statistic, bins_refused, categories_refused, means, numbers, with_share

MOST_BINS, MOST_CELLS, MOST_SHARES = 2**14, 2**18, 64
_OF_ROWS = 0.2  # of mu^2, for the number of rows, where persons are the unit

Share = Annotated[float, Field(gt=0, lt=1)]


@dataclass(frozen=True, slots=True)
class Quantiles(Statistic):
    """For each number and share q the bin in which #{i : x_i <= t} / n reaches q, from counts of the p numbers in equal
    bins of their ranges + N(0, std^2 I): one Gaussian answer, of l2 sensitivity sqrt(2 p) (sqrt(p) under zero_out).

    What is found is no finer than a bin; more bins cost no privacy, and sums of many of them hold more noise.
    Where a person is the unit the number of rows is secret, and a fifth of mu^2 goes to the means, which tell it.

    Parameters
    ----------
    shares : q, in (0, 1), at most 64
    bins : of every number's declared range, in [1, 16384]

    Precondition: columns are declared, all of them numbers; rows are not clipped, delta > 0.
    Proof: docs/proofs/statistics.md. Reference: docs/spec 22.
    """

    shares: Annotated[tuple[Share, ...], Field(min_length=1, max_length=MOST_SHARES)] = (0.25, 0.5, 0.75)
    bins: Annotated[int, Field(ge=1, le=MOST_BINS)] = 256
    name: Literal["quantiles"] = "quantiles"

    def refusal(self, problem: Problem) -> str | None:
        """A column is a category, or there would be too many bins."""
        if not (1 <= len(self.shares) <= MOST_SHARES and all(0 < share < 1 for share in self.shares)):
            return f"there are 1 to {MOST_SHARES} shares, each in (0, 1)"
        too_many = self.bins * numbers(problem) > MOST_CELLS
        many = f"there are at most {MOST_CELLS} bins of all columns together: take fewer" if too_many else None
        return bins_refused(self.bins, MOST_BINS) or categories_refused(problem) or many

    def queries(self, problem: Problem) -> tuple[Query, ...]:
        """One answer; of persons a second."""
        if problem.unit.is_person:
            return (*means(problem, _OF_ROWS), Query("histograms", 1, Gaussian(), 1 - _OF_ROWS))
        return (Query("histograms", 1, Gaussian()),)

    def bounds(self, problem: Problem) -> Bounds:
        """sqrt(p / 2) or sqrt(p): a record is in one bin of each number."""
        moved = moment_bounds.counts(moments.columns_of(problem), problem.relation)
        found: Bounds = {"histograms": (moved, self.bins * numbers(problem))}
        return found | {query.name: moments.bounds(problem)[query.name] for query in self.queries(problem)[:-1]}

    def size(self, problem: Problem) -> int:
        """A count for each bin; of persons the share of places that hold a row."""
        return self.bins * numbers(problem) + problem.unit.is_person

    def run(self, oracle: Counting, problem: Problem) -> Vector:
        """The counts, number by number; of persons and last that share."""
        if problem.unit.is_person:
            oracle.moments.means("means")
        return with_share(oracle.histograms("histograms", self.bins), oracle, problem)
