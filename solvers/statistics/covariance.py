"""Covariance: of numbers, and with it their correlation."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from accounting.mechanisms import Gaussian
from accounting.plan import Query
from solvers import moment_bounds
from solvers.methods.run import Bounds
from solvers.oracles import Counting
from solvers.preparation import moments
from solvers.problem import Problem, Vector
from solvers.statistics.statistic import Statistic, categories_refused, means, numbers, with_share

MOST_COLUMNS = 512
_MEANS = 0.25  # of mu^2


@dataclass(frozen=True, slots=True)
class Covariance(Statistic):
    """S = (1/n) sum_i (x_i - m)(x_i - m)' + noise, about noisy means m that are released first: two Gaussian answers,
    the second a symmetric matrix in the Frobenius norm, of which one record moves at most sqrt(2) f / n (f / n under
    zero_out), f the sum of the most that (x_j - m_j)^2 can be. The mean of S is the covariance, and (mean - m)(mean -
    m)' of it too much, which is of the means' noise squared. Nothing is cut: no record is made to look nearer.

    Precondition: columns are declared, all of them numbers; rows are not clipped, delta > 0.
    Proof: docs/proofs/statistics.md. Reference: docs/spec 17, 22.
    """

    name: Literal["covariance"] = "covariance"

    def refusal(self, problem: Problem) -> str | None:
        """A column is a category, or there are too many."""
        many = f"it is of at most {MOST_COLUMNS} columns" if numbers(problem) > MOST_COLUMNS else None
        return categories_refused(problem) or many

    def queries(self, problem: Problem) -> tuple[Query, ...]:
        """Means, and products about them."""
        return (*means(problem, _MEANS), Query("products", 1, Gaussian(), 1 - _MEANS))

    def bounds(self, problem: Problem) -> Bounds:
        """Of the products at their largest, m an end of each range."""
        columns, p = moments.columns_of(problem), numbers(problem)
        moved = moment_bounds.products(columns, columns.low, problem.relation)
        return {
            "means": moments.bounds(problem)["means"],
            "products": (moved / problem.n, p * (p + 1) // 2),
        }

    def size(self, problem: Problem) -> int:
        """Means and a triangle of products; of persons the share of places that hold a row."""
        p = numbers(problem)
        return p + p * (p + 1) // 2 + problem.unit.is_person

    def run(self, oracle: Counting, problem: Problem) -> Vector:
        """m and S's upper triangle, row by row, what is off the diagonal times sqrt(2); of persons that share."""
        columns = moments.columns_of(problem)
        center = np.clip(oracle.moments.means("means"), columns.low, columns.high)
        return with_share(np.concatenate((center, oracle.products("products", center))), oracle, problem)
