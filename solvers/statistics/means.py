"""Means of numbers, and shares of categories.

Review: Numbers and category shares are one answer with one bound.
"""

from dataclasses import dataclass
from typing import Literal

from accounting.plan import Query
from solvers.methods.run import Bounds
from solvers.oracles import Counting
from solvers.preparation import moments
from solvers.problem import Problem, Vector
from solvers.statistics.statistic import Statistic, means, with_share


@dataclass(frozen=True, slots=True)
class Means(Statistic):
    """Noisy means m = (1/n) sum_i x_i + N(0, std^2 I).

    x_i are the coded values of the columns: numbers in their ranges, categories as 0/1 columns. This is one Gaussian
    answer, whose l2 sensitivity is the diameter of a row over n.

    Precondition: columns are declared, rows are not clipped, delta > 0.
    Proof: docs/proofs/statistics.md. Reference: docs/spec 22.
    """

    name: Literal["means"] = "means"

    def refusal(self, problem: Problem) -> None:
        """Return None, because all columns are accepted."""

    def queries(self, problem: Problem) -> tuple[Query, ...]:
        """Return the query of one answer."""
        return means(problem)

    def bounds(self, problem: Problem) -> Bounds:
        """Return half the diameter over n, or the longest row over n under zero_out."""
        return {"means": moments.bounds(problem)["means"]}

    def size(self, problem: Problem) -> int:
        """Return the number of coded values, plus 1 for the share of filled slots if records are persons."""
        return problem.d - 1 + problem.unit.is_person

    def run(self, oracle: Counting, problem: Problem) -> Vector:
        """Return the means; for persons they are over rows, and the share is last."""
        return with_share(oracle.moments.means("means"), oracle, problem)
