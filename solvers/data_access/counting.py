"""CountingOracle: private counts and products of declared columns, in addition to their moments.

Precondition and guarantee: as `StandardisedOracle`. Proof: docs/proofs/statistics.md.
"""

from collections.abc import Callable

import numpy as np

from accounting.mechanisms import Gaussian
from accounting.noise import Noise
from accounting.plan import Plan
from solvers import moment_bounds
from solvers.bounds import UNIT
from solvers.data_access.count_sums import Cells, Histograms, Products, Scores
from solvers.data_access.data import Work
from solvers.data_access.frames import check_center
from solvers.data_access.meter import Meter
from solvers.data_access.standardised import StandardisedOracle
from solvers.data_access.summed import Summed
from solvers.errors import Unsuitable
from solvers.problem import Problem, Vector

MOST_BINS, MOST_CELLS = 2**16, 2**20


class CountingOracle:
    """Private answers about rows whose layout is public, each one use of the Gaussian mechanism over all rows.

    Parameters
    ----------
    moments : the oracle of moments of the same data, with its own part of the plan
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
        """Return counts of rows in `bins` equal parts of each number's range + noise, (p bins,), number by number.

        A record is in p parts. Replacing it moves the counts by sqrt(2 p), and removing it by sqrt(p). A person's row
        counts 1/k.
        """
        if not 1 <= bins <= MOST_BINS or not self.__columns.widths.count(1):
            raise Unsuitable(f"bins must lie in [1, {MOST_BINS}], and at least one column must be a number")
        return self.__counted(query, Histograms(bins), moment_bounds.counts(self.__columns, self.__problem.relation))

    def cells(self, query: str, bins: int) -> Vector:
        """Return counts of rows in each cell of all columns + noise, (cells,); see `count_sums.Cells`.

        A record is in one cell. Replacing it moves the counts by sqrt(2), and removing it by 1. A person's row counts
        1/k.
        """
        if not 1 <= bins <= MOST_BINS or self.__columns.cells(bins) > MOST_CELLS:
            raise Unsuitable(
                f"bins must lie in [1, {MOST_BINS}] and make at most {MOST_CELLS} cells. Use fewer bins or columns"
            )
        return self.__counted(query, Cells(bins), moment_bounds.cells(self.__problem.relation))

    def products(self, query: str, center: Vector) -> Vector:
        """Return the mean of y y' + noise, with y the numbers of x - m.

        The answer is the upper triangle, off the diagonal times sqrt(2), so its l2 norm is the Frobenius norm. The mean
        is over slots that hold a row, whose share `StandardisedOracle.means` has released.
        """
        check_center(center, self.__problem)
        planned = self.__meter.take(query, Gaussian)
        slip = 1 + (self.__problem.d + 16) * UNIT  # rounding of a sum of squares
        moved = slip * moment_bounds.products(self.__columns, center, self.__problem.relation)
        longest = slip * float(moment_bounds.farthest(self.__columns, center).sum())
        bound = moment_bounds.of_means(self.__problem, moved, longest)
        mean = self.__data.total(Products(center)) / self.__problem.slots
        return self.__meter.answer(planned, mean, bound) / self.moments.share

    def scores(self, query: str, weights: Vector, bins: int, clip: float) -> Vector:
        """Return counts of records in each cell of target and prediction + noise; see `count_sums.Scores`.

        A record is in one cell. Replacing it moves the counts by sqrt(2), and removing it by 1. A person's row counts
        1/k.
        """
        if weights.shape != (self.__problem.size,) or not np.isfinite(weights).all():
            raise Unsuitable("weights must be finite, one for each column and each output")
        if not 1 <= bins <= MOST_BINS or not 0 < clip <= 2 or moment_bounds.scored(self.__problem, bins) > MOST_CELLS:
            raise Unsuitable(
                f"bins must lie in [1, {MOST_BINS}] and make at most {MOST_CELLS} cells, and clip lie in (0, 2]"
            )
        work = Scores(weights.reshape(-1, self.__problem.d).copy(), bins, clip)
        return self.__counted(query, work, moment_bounds.cells(self.__problem.relation))

    def transcript(self) -> Plan:
        """Return what was really answered, without the moments."""
        return self.__meter.transcript()

    def __counted(self, query: str, work: Work, moved: float) -> Vector:
        """Return counts with noise; the counts are whole numbers below 2^53, which floats add exactly."""
        planned, k = self.__meter.take(query, Gaussian), self.__problem.unit.slots
        return self.__meter.answer(planned, self.__data.total(work), k * moved * moment_bounds.SLIP) / k
