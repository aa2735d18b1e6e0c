"""The data, in memory or memory-mapped; only the oracle reads it."""

import math
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import groupby, pairwise
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from solvers import kernels
from solvers.bounds import GROUP, piece_rows
from solvers.columns import Columns
from solvers.data_access.rows import Stored, cut, emptied, entries_of, stored_numbers, taken
from solvers.data_access.summed import Places, Work
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
    kept : what a work keeps for the next one: of frames, which are used for many sums
    """

    records: "kernels.Records"
    y: Vector
    scale: Vector
    problem: Problem
    kept: dict[str, tuple[Any, ...]] = field(default_factory=dict)

    @staticmethod
    def coded(
        rows: Stored,
        y: Vector,
        problem: Problem,
        present: NDArray[np.bool_] | None = None,
        *,
        in_place: bool = False,
    ) -> "Data":
        """Return the data of a problem, from records as they are stored.

        Parameters
        ----------
        present : (n k,), which places of persons hold a row; for them alone
        in_place : whether the service coded the records itself, in files: then none is broken unless a file is
            damaged, and they are copied only in that case. All others are always copied, so that the time of a run
            does not show whether a record is broken.

        Raises
        ------
        Unsuitable
            if they are not of the problem's shape, or a feature is not among what is stored.
        """
        records, places = rows.records(problem), problem.places
        if len(records.numbers) != places or len(records.codes) != places or y.shape != (places,):
            raise Unsuitable("there must be n records and n targets, with the problem's n; of persons one a place")
        if (present is not None) != problem.unit.is_person or (present is not None and present.shape != (places,)):
            raise Unsuitable("which places hold a row is said of persons, for each of them")
        norms = kernels.norms(records, problem.columns is not None)
        broken = ~(norms <= _LARGEST_NORM)  # true for NaN, too
        if problem.columns is not None and problem.columns.ranges:
            broken |= outside(records, problem.columns)
        if not in_place or broken.any():
            records = emptied(records, broken)
            norms = np.where(broken, math.sqrt(len(records.categories) + records.constant), norms)
        targets = np.require(problem.loss.targets(np.asarray(y)), requirements=["C", "A", "E"])
        scale = problem.row_norm / np.maximum(norms, problem.row_norm)
        if present is not None:
            scale *= present
        return Data(records, targets, scale, problem)

    @property
    def is_sparse(self) -> bool:
        """Whether only entries of numbers are stored."""
        return len(self.records.entry_index) > 0

    def present(self, places: Places = slice(None)) -> NDArray[np.bool_]:
        """Which of the places hold a row."""
        return self.scale[places] > 0

    def drawn(self, drawn: NDArray[np.int64]) -> "Data":
        """A copy of the given records."""
        places = places_of(drawn, self.problem)
        return Data(taken(self.records, places), self.y[places], self.scale[places], self.problem)

    def total(self, work: Work, places: Places | None = None, pulse: Callable[[], object] = bool) -> NDArray[Any]:
        """The work's sum over some places, or all: over each group's in order, then of the groups' sums in order.

        Parameters
        ----------
        pulse : called at each piece; may raise
        """
        return added(self.group_sums(work, slice(0, self.problem.places) if places is None else places, pulse))

    def group_sums(self, work: Work, places: Places, pulse: Callable[[], object] = bool) -> Iterator[NDArray[Any]]:
        """Its sum over each group's part of the places, in order; of no places one sum."""
        groups, parts = zip(*pieces(places, piece_rows(self.problem, work.reads, self.is_sparse)), strict=True)
        sums = zip(groups, of_each(work.on(self), parts), strict=True)
        for _, own in groupby(sums, lambda pair: pair[0]):
            yield added((part for _, part in own), pulse)

    def seen_by(self, problem: Problem) -> "Data":
        """The same records, for another loss or another bound on what is prepared."""
        return replace(self, problem=problem)


def places_of(records: NDArray[np.int64], problem: Problem) -> NDArray[np.int64]:
    """The places of the given records, all k of each, record by record."""
    k = problem.unit.slots
    return records if k == 1 else (k * records[:, None] + np.arange(k)).ravel()


def pieces(places: Places, size: int) -> list[tuple[int, Places]]:
    """Places in order, cut where a group ends and into so many at most, each piece with its group's number."""
    if isinstance(places, slice):
        edges = range(places.start - places.start % GROUP, places.stop, GROUP)
        parts = [(max(edge, places.start), min(edge + GROUP, places.stop)) for edge in edges]
        return [(a // GROUP, slice(c, min(c + size, b))) for a, b in parts for c in range(a, b, size)]
    if not len(places):
        return [(0, places)]
    groups = places // GROUP
    ends = [0, *(1 + np.flatnonzero(groups[1:] != groups[:-1])).tolist(), len(places)]
    return [(int(groups[a]), places[c : min(c + size, b)]) for a, b in pairwise(ends) for c in range(a, b, size)]


def listed(places: Places) -> NDArray[np.int64]:
    """One by one."""
    return np.arange(places.start, places.stop) if isinstance(places, slice) else places


def added(sums: Iterable[NDArray[Any]], pulse: Callable[[], object] = bool) -> NDArray[Any]:
    """Their sum, in order; there is one at least."""
    total: NDArray[Any] | None = None
    for part in sums:
        pulse()
        total = np.array(part) if total is None else np.add(total, part, out=total)
    assert total is not None
    return total


def outside(records: "kernels.Records", columns: Columns) -> NDArray[np.bool_]:
    """(n k,), whether a number of a record lies beyond its range."""
    numbers, at = stored_numbers(records), records.positions[:-1][columns.is_number]
    found = np.zeros(len(numbers), dtype=np.bool_)
    if len(records.entry_index):  # 0 is in every range
        row, entry, values = entries_of(records, slice(0, len(numbers)))
        is_beyond = (values < columns.low[entry]) | (values > columns.high[entry])
        return np.bincount(row, is_beyond, minlength=len(numbers)) > 0
    for rows in cut(len(numbers), len(at)):
        x = numbers[rows][:, at]
        found[rows] = ((x < columns.low) | (x > columns.high)).any(axis=1)
    return found


def of_each(work: Callable[[_Piece], NDArray[Any]], pieces: Sequence[_Piece]) -> Iterator[NDArray[Any]]:
    """work(piece), piece by piece, in order; two at a time where there are many and a second core is ours."""
    if len(pieces) < _MANY or (os.cpu_count() or 1) < 2:
        return map(work, pieces)
    return _two(os.getpid()).map(work, pieces)


@cache
def _two(_process: int) -> ThreadPoolExecutor:
    """This process's own: a child of a fork inherits no thread."""
    return ThreadPoolExecutor(2, thread_name_prefix="rows")
