"""CountingOracle: private counts and products of declared columns, beside their moments.

Precondition and promise: as `StandardisedOracle`. Proof: docs/proofs/statistics.md.
"""

from collections.abc import Callable

import numpy as np

from accounting.mechanisms import Gaussian
from accounting.noise import Noise
from accounting.plan import Plan
from solvers import moment_bounds
from solvers.bounds import UNIT
from solvers.data_access.count_sums import Cells, Histograms, Products, Scores
from solvers.data_access.frames import check_center
from solvers.data_access.meter import Meter
from solvers.data_access.standardised import StandardisedOracle
from solvers.data_access.summed import Summed, Work
from solvers.errors import Unsuitable
from solvers.problem import Problem, Vector

MOST_BINS, MOST_CELLS = 2**16, 2**20


class CountingOracle:
    """Noisy answers about rows whose layout is public, each one use of the Gaussian mechanism over all rows.

    Parameters
    ----------
    moments : answers its own queries, of a plan of its own, about the same data
    problem, data, plan, noise, on_answer : as `FullBatchOracle`
    """

    __slots__ = ("__columns", "__data", "__meter", "__problem", "moments")

    def __init__(
        self,
        moments: StandardisedOracle,
        problem: Problem,
        data: Summed,
        plan: Plan,
        noise: Noise,
        on_answer: Callable[[int], None] | None = None,
    ) -> None:
        if data.problem != problem or problem.columns is None:
            raise Unsuitable("the data were prepared for another problem, or their columns are not declared")
        self.moments, self.__problem, self.__data = moments, problem, data
        self.__meter, self.__columns = Meter(plan, noise, on_answer, problem.relation), problem.columns

    def histograms(self, query: str, bins: int) -> Vector:
        """How many rows lie in each of so many equal parts of each number's range + noise, (p bins,), number by number:
        a record is in p of them; replacing it moves the counts by sqrt(2 p), emptying it by sqrt(p). A person's row
        counts 1/k.
        """
        if not 1 <= bins <= MOST_BINS or not self.__columns.widths.count(1):
            raise Unsuitable(f"numbers are counted in 1 to {MOST_BINS} bins")
        return self.__counted(query, Histograms(bins), moment_bounds.counts(self.__columns, self.__problem.relation))

    def cells(self, query: str, bins: int) -> Vector:
        """How many rows lie in each cell of all columns together + noise, (cells,), see `count_sums.Cells`: a record is
        in one; replacing it moves the counts by sqrt(2), emptying it by 1. A person's row counts 1/k.
        """
        if not 1 <= bins <= MOST_BINS or self.__columns.cells(bins) > MOST_CELLS:
            raise Unsuitable(f"rows are counted in at most {MOST_CELLS} cells, of 1 to {MOST_BINS} bins")
        return self.__counted(query, Cells(bins), moment_bounds.cells(self.__problem.relation))

    def products(self, query: str, center: Vector) -> Vector:
        """The mean of y y' + noise, y the numbers of x - m: its upper triangle, what is off the diagonal times sqrt(2),
        so that its l2 norm is the matrix's own. Over places that hold a row, as `StandardisedOracle.means` told them.
        """
        check_center(center, self.__problem)
        planned, slip = self.__meter.take(query, Gaussian), 1 + (self.__problem.d + 16) * UNIT  # of a sum of squares
        moved = slip * moment_bounds.products(self.__columns, center, self.__problem.relation)
        most = slip * float(moment_bounds.farthest(self.__columns, center).sum())
        bound = moment_bounds.of_means(self.__problem, moved, most)
        mean = self.__data.total(Products(center)) / self.__problem.places
        return self.__meter.answer(planned, mean, bound) / self.moments.share

    def scores(self, query: str, weights: Vector, bins: int, clip: float) -> Vector:
        """How many records lie in each cell of target and what a public model says + noise, see `count_sums.Scores`: a
        record is in one; replacing it moves the counts by sqrt(2), emptying it by 1. A person's row counts 1/k.
        """
        if weights.shape != (self.__problem.size,) or not np.isfinite(weights).all():
            raise Unsuitable("a model has a finite weight for each column and each output")
        if not 1 <= bins <= MOST_BINS or not 0 < clip <= 2 or moment_bounds.scored(self.__problem, bins) > MOST_CELLS:
            raise Unsuitable(f"scores are counted in at most {MOST_CELLS} cells, residuals cut to at most 2")
        work = Scores(weights.reshape(-1, self.__problem.d).copy(), bins, clip)
        return self.__counted(query, work, moment_bounds.cells(self.__problem.relation))

    def transcript(self) -> Plan:
        """What was really answered, moments aside."""
        return self.__meter.transcript()

    def __counted(self, query: str, work: Work, moved: float) -> Vector:
        """Whole numbers below 2^53, which floats add up exactly."""
        planned, k = self.__meter.take(query, Gaussian), self.__problem.unit.slots
        return self.__meter.answer(planned, self.__data.total(work), k * moved * moment_bounds.SLIP) / k
