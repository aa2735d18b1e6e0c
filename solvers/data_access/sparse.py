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
    """Rows of which only entries are stored: row i has the entries ends[i] <= q < ends[i + 1].

    Parameters
    ----------
    ends : (n + 1,) int64, not decreasing, from 0 to the number of entries
    coordinates : int64 in [0, d), increasing within a row
    values : float64
    """

    ends: NDArray[np.int64]
    coordinates: NDArray[np.int64]
    values: NDArray[np.float64]

    def records(self, problem: Problem) -> "kernels.Records":
        """Return the rows for the compiled loops; see `Coded.records`.

        Raises
        ------
        Unsuitable
            if the rows do not have the problem's shape
        """
        n, d = problem.n, problem.d
        self.check(n, d)
        if problem.columns is not None:
            raise Unsuitable("plain sparse rows cannot have declared columns. Use SparseCoded")
        return kernels.Records(
            numbers=np.empty((n, 0), np.uint8),
            codes=np.empty((n, 0), np.uint8),
            categories=np.empty((0, 4), np.int64),
            positions=np.arange(d),
            size=d,
            constant=0,
            center=np.empty(0),
            shrink=np.empty(0),
            intercept=1.0,
            entry_index=self.entry_index(),
            entry_values=self.values,
            is_single=False,
        ).read_only()

    def entry_index(self) -> NDArray[np.int64]:
        """Return the offsets of rows and the coordinates of entries in one array, as `kernels.Records` has them."""
        return np.concatenate((self.ends, self.coordinates))

    def check(self, n: int, d: int) -> None:
        """Raise `Unsuitable` unless these are n rows of d columns."""
        ends, at = self.ends, self.coordinates
        is_complete = len(ends) == n + 1 and ends[0] == 0 and ends[-1] == len(at) == len(self.values)
        if not is_complete or (np.diff(ends) < 0).any() or (len(at) and not 0 <= at.min() <= at.max() < d):
            raise Unsuitable("sparse rows must be n rows of d columns, with the problem's n and d")
        rises = np.diff(at, prepend=-1) > 0
        rises[ends[:-1][ends[:-1] < len(at)]] = True  # the first entry of a row
        if not rises.all():
            raise Unsuitable("coordinates of sparse rows must increase within a row")


@dataclass(frozen=True, slots=True, eq=False)
class SparseCoded:
    """Records of declared columns, with nonzero numbers as entries and categories as in `Coded`.

    Parameters
    ----------
    numbers : sparse rows of the numbers, in the declared order
    codes, offsets : as in `Coded`
    """

    numbers: Sparse
    codes: NDArray[np.uint8]
    offsets: tuple[int, ...]

    def records(self, problem: Problem) -> "kernels.Records":
        """Return the rows for the compiled loops; see `Coded.records`.

        Raises
        ------
        Unsuitable
            if the rows do not have the problem's shape, or its columns are not declared
        """
        if problem.columns is None:
            raise Unsuitable("coded sparse rows need declared columns")
        p = problem.columns.widths.count(1)
        self.numbers.check(problem.n, p)
        layout = Coded(np.empty((0, p)), self.codes[:0], self.offsets).records(problem)
        codes = np.require(self.codes, requirements=["C", "A", "E"])
        return layout._replace(
            numbers=np.empty((problem.n, 0), np.uint8),
            codes=codes,
            entry_index=self.numbers.entry_index(),
            entry_values=self.numbers.values,
            is_single=False,
        ).read_only()
