"""CountingOracle: private counts and products of declared columns, in addition to their moments.

Precondition and guarantee: as `StandardisedOracle`. Proof: docs/proofs/statistics.md.
"""

import math

import numpy as np

from accounting.mechanisms import Gaussian
from solvers import count_bounds, moment_bounds
from solvers.bounds import UNIT
from solvers.columns import Columns
from solvers.data_access.count_sums import Cells, Histograms, PredictionCounts, Products
from solvers.data_access.data import Work
from solvers.data_access.frames import check_center
from solvers.data_access.group_sums import GroupCounts, GroupMoments
from solvers.data_access.moment_sums import columns_of
from solvers.data_access.with_moments import AbstractWithMoments
from solvers.errors import Unsuitable
from solvers.groups import Groups
from solvers.moment_bounds import MOMENTS
from solvers.problem import Vector

MOST_BINS, MOST_CELLS = 2**16, 2**20


class CountingOracle(AbstractWithMoments):
    """Private answers about rows whose layout is public, each one use of the Gaussian mechanism over all rows.

    Parameters as `AbstractWithMoments`.
    """

    __slots__ = ()
    _moment_queries = MOMENTS

    def histograms(self, query: str, bins: int) -> Vector:
        """Return counts of rows in `bins` equal parts of each number's range + noise, (p bins,), number by number.

        A record is in p parts. Replacing it moves the counts by sqrt(2 p), and removing it by sqrt(p). A person's row
        counts 1/k.
        """
        p = columns_of(self._data).widths.count(1)
        if not 1 <= bins <= MOST_BINS or not p:
            raise Unsuitable(f"bins must lie in [1, {MOST_BINS}], and at least one column must be a number")
        return self._counted(query, Histograms(bins), count_bounds.cells(self._problem.relation, p))

    def cells(self, query: str, bins: int) -> Vector:
        """Return counts of rows in each cell of all columns + noise, (cells,); see `count_sums.Cells`.

        A record is in one cell. Replacing it moves the counts by sqrt(2), and removing it by 1. A person's row counts
        1/k.
        """
        if not 1 <= bins <= MOST_BINS or columns_of(self._data).cells(bins) > MOST_CELLS:
            raise Unsuitable(
                f"bins must lie in [1, {MOST_BINS}] and make at most {MOST_CELLS} cells. Use fewer bins or columns"
            )
        return self._counted(query, Cells(bins), count_bounds.cells(self._problem.relation))

    def group_counts(self, query: str, groups: Groups, bins: int) -> Vector:
        """Return counts of rows + noise; see `group_sums.GroupCounts`.

        With 0 bins, a record is in at most one group. Otherwise it is in at most one part of each described feature. A
        person's row counts 1/k.
        """
        columns = self._columns_for(groups, bins)
        described = len(groups.parts(columns, bins)) if bins else 1
        moved = count_bounds.cells(self._problem.relation, described)
        return self._counted(query, GroupCounts(groups, bins), moved)

    def group_moments(self, query: str, groups: Groups) -> Vector:
        """Return sums of u and u o u in each group + noise, flat; see `group_sums.GroupMoments`.

        A person's row counts 1/k.
        """
        p = groups.layout(self._columns_for(groups, 1)).widths.count(1)
        planned = self._meter.take(query, Gaussian)
        moved = count_bounds.group_moments(p, self._problem.relation)
        bound = moment_bounds.of_means(self._problem, moved, math.sqrt(2 * p))
        mean = self._data.total(GroupMoments(groups)).ravel() / self._problem.slots
        return self._meter.answer(planned, mean, bound) * self._problem.n

    def _columns_for(self, groups: Groups, bins: int) -> Columns:
        """Return the declared layout. Raise `Unsuitable` if the groups do not fit it."""
        columns = columns_of(self._data)
        refusal = groups.refusal(columns)
        if refusal is not None:
            raise Unsuitable(refusal)
        parts = groups.count(columns) * sum(groups.parts(columns, bins))
        if not 0 <= bins <= MOST_BINS or parts > MOST_CELLS:
            raise Unsuitable(
                f"bins must lie in [0, {MOST_BINS}] and make at most {MOST_CELLS} parts. Use fewer groups or columns"
            )
        return columns

    def products(self, query: str, center: Vector) -> Vector:
        """Return the mean of y y' + noise, with y the numbers of x - m.

        The answer is the upper triangle, off the diagonal times sqrt(2), so its l2 norm is the Frobenius norm. The mean
        is over slots that hold a row, whose share `StandardisedOracle.means` has released.
        """
        check_center(center, self._problem)
        columns = columns_of(self._data)
        planned = self._meter.take(query, Gaussian)
        slip = 1 + (self._problem.d + 16) * UNIT  # rounding of a sum of squares
        moved = slip * count_bounds.products(columns, center, self._problem.relation)
        longest = slip * float(moment_bounds.farthest(columns, center).sum())
        bound = moment_bounds.of_means(self._problem, moved, longest)
        mean = self._data.total(Products(center)) / self._problem.slots
        return self._meter.answer(planned, mean, bound) / self.moments.share

    def scores(self, query: str, weights: Vector, bins: int, clip: float) -> Vector:
        """Return counts of records in each cell of target and prediction + noise; see `count_sums.PredictionCounts`.

        A record is in one cell. Replacing it moves the counts by sqrt(2), and removing it by 1. A person's row counts
        1/k.
        """
        if weights.shape != (self._problem.size,) or not np.isfinite(weights).all():
            raise Unsuitable("weights must be finite, one for each column and each output")
        if not 1 <= bins <= MOST_BINS or not 0 < clip <= 2 or count_bounds.scored(self._problem, bins) > MOST_CELLS:
            raise Unsuitable(
                f"bins must lie in [1, {MOST_BINS}] and make at most {MOST_CELLS} cells, and clip lie in (0, 2]"
            )
        work = PredictionCounts(weights.reshape(-1, self._problem.d).copy(), bins, clip)
        return self._counted(query, work, count_bounds.cells(self._problem.relation))

    def _counted(self, query: str, work: Work, moved: float) -> Vector:
        """Return counts with noise; the counts are whole numbers below 2^53, which floats add exactly."""
        planned, k = self._meter.take(query, Gaussian), self._problem.unit.slots
        return self._meter.answer(planned, self._data.total(work), k * moved * moment_bounds.SLIP) / k
