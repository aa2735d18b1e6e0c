"""Rows of which only entries are stored, as the loops over records read them; never unfolded.

How many entries a row has is not hidden: the time of a pass follows it. That it is they that are stored is a choice of
form, by the type of what is handed in and never by its values, so that one record changes the numbers of no other.
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
    """n rows of which only entries are stored: those of row i are ends[i] <= q < ends[i + 1].

    Parameters
    ----------
    ends : (n + 1,) int64, from 0 up to the number of entries, never falling
    coordinates : int64, in [0, d), rising within a row: no two entries of a row have one
    values : float64
    """

    ends: NDArray[np.int64]
    coordinates: NDArray[np.int64]
    values: NDArray[np.float64]

    def records(self, problem: Problem) -> "kernels.Records":
        """See `Coded.records`.

        Raises
        ------
        Unsuitable
            if they are not rows of the problem's shape.
        """
        n, d = problem.n, problem.d
        self.check(n, d)
        if problem.columns is not None:
            raise Unsuitable("sparse rows are for columns that are not declared")
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
        """`Unsuitable` unless these are n rows of d columns."""
        ends, at = self.ends, self.coordinates
        whole = len(ends) == n + 1 and ends[0] == 0 and ends[-1] == len(at) == len(self.values)
        if not whole or (np.diff(ends) < 0).any() or (len(at) and not 0 <= at.min() <= at.max() < d):
            raise Unsuitable("sparse rows must be n rows of d columns, with the problem's n and d")
        rises = np.diff(at, prepend=-1) > 0
        rises[ends[:-1][ends[:-1] < len(at)]] = True  # a row's first
        if not rises.all():
            raise Unsuitable("sparse rows must have coordinates that rise, each once")


@dataclass(frozen=True, slots=True, eq=False)
class SparseCoded:
    """n records of declared columns: numbers other than 0 as entries, categories as `Coded` has them.

    Parameters
    ----------
    numbers : coordinates count the numbers, in the order declared
    codes, offsets : as `Coded`, all that is stored
    """

    numbers: Sparse
    codes: NDArray[np.uint8]
    offsets: tuple[int, ...]

    def records(self, problem: Problem) -> "kernels.Records":
        """See `Coded.records`.

        Raises
        ------
        Unsuitable
            if they are not rows of the problem's shape, or its columns are not declared.
        """
        if problem.columns is None:
            raise Unsuitable("coded sparse rows are for columns that are declared")
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
