"""Sparse rows, of which only entries are stored, for the loops over records.

The number of entries of a row is not hidden, because the time of a pass depends on it. The type of the input decides
whether rows are stored as entries, and values never do. So one record does not change the numbers of another.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from solvers import kernels
from solvers.data_access.rows import Coded
from solvers.errors import Unsuitable
from solvers.problem import Problem


@dataclass(frozen=True, slots=True, eq=False)
class Sparse:
    """Rows whose numbers are stored as entries: row i has the entries ends[i] <= q < ends[i + 1]. Other numbers are 0.

    Parameters
    ----------
    ends : (n + 1,) int64, not decreasing, from 0 to the number of entries
    coordinates : int64 in [0, p), indices of numbers in the declared order, increasing within a row
    values : float64
    codes, offsets : as in `Coded`
    """

    ends: NDArray[np.int64]
    coordinates: NDArray[np.int64]
    values: NDArray[np.float64]
    codes: NDArray[np.uint8]
    offsets: tuple[int, ...]

    def records(self, problem: Problem) -> "kernels.Records":
        """Return the rows for the compiled loops; see `Coded.records`.

        Raises
        ------
        Unsuitable
            if the rows do not have the problem's shape, or a feature is not stored
        """
        p = problem.d if problem.columns is None else problem.columns.widths.count(1)
        self.check(problem.n, p)
        layout = Coded(np.empty((0, p)), self.codes[:0], self.offsets).records(problem)
        return layout._replace(
            numbers=np.empty((problem.n, 0), np.uint8),
            codes=np.require(self.codes, requirements=["C", "A", "E"]),
            entry_index=np.concatenate((self.ends, self.coordinates)),
            entry_values=self.values,
        ).read_only()

    def check(self, n: int, p: int) -> None:
        """Raise `Unsuitable` unless these are n rows of p numbers."""
        ends, at = self.ends, self.coordinates
        is_complete = len(ends) == n + 1 and ends[0] == 0 and ends[-1] == len(at) == len(self.values)
        if not is_complete or (np.diff(ends) < 0).any() or (len(at) and not 0 <= at.min() <= at.max() < p):
            raise Unsuitable("sparse rows must be n rows of d columns, with the problem's n and d")
        rises = np.diff(at, prepend=-1) > 0
        rises[ends[:-1][ends[:-1] < len(at)]] = True  # the first entry of a row
        if not rises.all():
            raise Unsuitable("coordinates of sparse rows must increase within a row")
