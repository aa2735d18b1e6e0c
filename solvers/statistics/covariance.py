"""Covariance of numbers, which also gives their correlation.

Review: Products are taken about released means.
"""

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from accounting.mechanisms import Gaussian
from accounting.plan import Query
from solvers import count_bounds
from solvers.methods.run import Bounds
from solvers.oracles import Counting
from solvers.preparation import moments
from solvers.problem import Problem, Vector
from solvers.statistics.statistic import Row, Statistic, categories_refused, means, numbers, with_share

MOST_COLUMNS = 512
_MEANS_SHARE = 0.25  # of mu^2


@dataclass(frozen=True, slots=True)
class Covariance(Statistic):
    """Noisy covariances S = (1/n) sum_i (x_i - m)(x_i - m)' + noise about noisy means m.

    The means are released first, so there are two Gaussian answers. The second is a symmetric matrix in the Frobenius
    norm. One record moves it by at most sqrt(2) f / n (f / n under zero_out), where f is the sum of the largest
    (x_j - m_j)^2. The mean of S exceeds the covariance by (mean - m)(mean - m)', which has the size of the means' noise
    squared. No record is clipped.

    Precondition: columns are declared, all of them numbers; rows are not clipped, delta > 0.
    Proof: docs/proofs/statistics.md. Reference: docs/spec 17, 22.
    """

    name: Literal["covariance"] = "covariance"
    audited_rows: ClassVar[tuple[Row, Row]] = ((1.0, 1.0, 1.0), (1.0, -1.0, 1.0))  # products 1 and -1, both ends

    def refusal(self, problem: Problem) -> str | None:
        """Return why the columns are not accepted: a category, or too many columns. Return None if they are."""
        many = f"it accepts at most {MOST_COLUMNS} columns. Select fewer" if numbers(problem) > MOST_COLUMNS else None
        return categories_refused(problem) or many

    def queries(self, problem: Problem) -> tuple[Query, ...]:
        """Return the queries for the means and for the products."""
        return (*means(problem, _MEANS_SHARE), Query("products", 1, Gaussian(), 1 - _MEANS_SHARE))

    def bounds(self, problem: Problem) -> Bounds:
        """Return the bounds; that of the products is largest if m is an end of each range."""
        columns = moments.columns_of(problem)
        p = numbers(problem)
        moved = count_bounds.products(columns, columns.low, problem.relation)
        return {
            "means": moments.bounds(problem)["means"],
            "products": (moved / problem.n, p * (p + 1) // 2),
        }

    def size(self, problem: Problem) -> int:
        """Return the number of means and products, plus 1 for the share of filled slots if records are persons."""
        p = numbers(problem)
        return p + p * (p + 1) // 2 + problem.unit.is_person

    def run(self, oracle: Counting, problem: Problem) -> Vector:
        """Return m and the upper triangle of S by rows, off the diagonal times sqrt(2); for persons also the share."""
        columns = moments.columns_of(problem)
        center = np.clip(oracle.moments.means("means"), columns.low, columns.high)
        return with_share(np.concatenate((center, oracle.products("products", center))), oracle, problem)
