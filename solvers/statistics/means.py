"""Means: of numbers, and how often each category occurs."""

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
    """m = (1/n) sum_i x_i + N(0, std^2 I), x_i the columns' coded values: numbers in their ranges, categories as 0/1
    columns. One Gaussian answer, whose l2 sensitivity is the diameter of a row over n.

    Precondition: columns are declared, rows are not clipped, delta > 0.
    Proof: docs/proofs/statistics.md. Reference: docs/spec 22.
    """

    name: Literal["means"] = "means"

    def refusal(self, problem: Problem) -> None:
        """None."""

    def queries(self, problem: Problem) -> tuple[Query, ...]:
        """One answer."""
        return means(problem)

    def bounds(self, problem: Problem) -> Bounds:
        """Half the diameter over n."""
        return {"means": moments.bounds(problem)["means"]}

    def size(self, problem: Problem) -> int:
        """A mean for each coded value; of persons the share of places that hold a row."""
        return problem.d - 1 + problem.unit.is_person

    def run(self, oracle: Counting, problem: Problem) -> Vector:
        """The means; of persons over their rows, and that share."""
        return with_share(oracle.moments.means("means"), oracle, problem)
