"""The data, in memory or memory-mapped; only the oracle reads it."""

import math
import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cache
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from solvers import kernels
from solvers.bounds import block_rows
from solvers.columns import Columns
from solvers.data_access.rows import Stored, cut, kept, taken
from solvers.errors import Unsuitable
from solvers.problem import Problem, Vector

_Piece = TypeVar("_Piece")
_LARGEST_NORM = 1e100  # products with a w of norm up to 1e100 then stay far from overflow
_MANY = 8  # blocks, from which on two threads gain more than they cost


@dataclass(frozen=True, slots=True, eq=False)
class Data:
    """n k rows with ||scale_i x_i||_2 <= R (to rounding) and targets that the loss knows. Make one with `Data.coded`.

    Record p has the k places p k .. p k + k - 1; a place without a row has scale 0, and adds exactly 0 to every sum.
    Every row passes the same map, alone: a row that is not finite, or longer than 1e100, becomes zeros; one that is
    not laid out as the columns are declared becomes an empty one; a row longer
    than R is scaled to norm R; a target goes to the loss's nearest one. So replacing one record of the input replaces
    one record here.

    Parameters
    ----------
    records : the rows as they came, unfolded nowhere; in a frame those that it makes of them
    y : (n k,), the targets
    scale : (n k,), what each row is multiplied with when it is read
    problem : whose R and loss the maps used
    """

    records: "kernels.Records"
    y: Vector
    scale: Vector
    problem: Problem

    @staticmethod
    def coded(rows: Stored, y: Vector, problem: Problem, present: NDArray[np.bool_] | None = None) -> "Data":
        """The data of a problem, from records as they are stored, read in place.

        Parameters
        ----------
        present : (n k,), which places of persons hold a row; for them alone

        Raises
        ------
        Unsuitable
            if they are not of the problem's shape, or a feature is not among what is stored.
        """
        records, places = rows.records(problem), problem.places
        if len(records[0]) != places or len(records[1]) != places or y.shape != (places,):
            raise Unsuitable("there must be n records and n targets, with the problem's n; of persons one a place")
        if (present is not None) != problem.unit.is_person or (present is not None and present.shape != (places,)):
            raise Unsuitable("which places hold a row is said of persons, for each of them")
        norms = kernels.norms(records, problem.columns is not None)
        broken = ~(norms <= _LARGEST_NORM)  # true for NaN, too
        if problem.columns is not None and problem.columns.ranges:
            broken |= outside(records, problem.columns)
        if broken.any():
            records = kept(records, broken)
            norms[broken] = math.sqrt(len(records[2]) + records[5])
        targets = np.require(problem.loss.targets(np.asarray(y)), requirements=["C", "A", "E"])
        scale = problem.row_norm / np.maximum(norms, problem.row_norm)
        if present is not None:
            scale *= present
        return Data(records, targets, scale, problem)

    def present(self, places: slice = slice(None)) -> NDArray[np.bool_]:
        """Which of the places hold a row."""
        return self.scale[places] > 0

    def drawn(self, drawn: NDArray[np.int64]) -> "Data":
        """A copy of the given records."""
        places = places_of(drawn, self.problem)
        return replace(self, records=taken(self.records, places), y=self.y[places], scale=self.scale[places])


def places_of(records: NDArray[np.int64], problem: Problem) -> NDArray[np.int64]:
    """The places of the given records, all k of each, record by record."""
    k = problem.unit.places
    return records if k == 1 else (k * records[:, None] + np.arange(k)).ravel()


def blocks(places: int, problem: Problem) -> Iterator[slice]:
    """So many places in order, cut into blocks."""
    size = block_rows(problem)
    return (slice(start, min(places, start + size)) for start in range(0, places, size))


def outside(records: "kernels.Records", columns: Columns) -> NDArray[np.bool_]:
    """(n k,), whether a number of a record lies beyond its range."""
    numbers, at = records[0], records[3][:-1][columns.is_number]
    found = np.zeros(len(numbers), dtype=np.bool_)
    for rows in cut(len(numbers), len(at)):
        x = numbers[rows][:, at]
        found[rows] = ((x < columns.low) | (x > columns.high)).any(axis=1)
    return found


def of_each(work: Callable[[_Piece], Vector], pieces: Iterable[_Piece]) -> Iterator[Vector]:
    """work(piece), piece by piece, in order; two at a time where there are many and a second core is ours."""
    listed = list(pieces)
    if len(listed) < _MANY or (os.cpu_count() or 1) < 2:
        return map(work, listed)
    return _two(os.getpid()).map(work, listed)


@cache
def _two(_process: int) -> ThreadPoolExecutor:
    """This process's own: a child of a fork inherits no thread."""
    return ThreadPoolExecutor(2, thread_name_prefix="rows")
