"""The records of a problem, in memory or memory-mapped, and sums over them; only oracles read them."""

import math
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cache, partial
from itertools import groupby, pairwise
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray

from solvers import kernels
from solvers.bounds import GROUP, Reads, piece_rows
from solvers.data_access.rows import Stored, copied, emptied, outside
from solvers.errors import Unsuitable
from solvers.problem import Problem, Vector

_Piece = TypeVar("_Piece")
_LARGEST_NORM = 1e100  # products with a w of norm up to 1e100 then stay far from overflow
LEAST_PIECES_FOR_THREADS = 8  # with fewer pieces, two threads cost more than they save

Slots = slice | NDArray[np.int64]
"""Some slots: a range, or the increasing indices of a batch."""


class Work(ABC):
    """A sum over slots, described by public numbers and by private answers of earlier requests.

    A work holds no data, so it can be sent to the machine that has the records.
    """

    __slots__ = ()
    reads: ClassVar[Reads] = "records"
    """The form in which the sum reads records, which decides how many of them are read at once."""

    def prepare(self, data: "Data") -> None:  # noqa: B027, most sums prepare nothing
        """Compute what several pieces of the data need, and store it in the data's cache, before the first piece."""

    @abstractmethod
    def sum(self, data: "Data", rows: Slots) -> NDArray[Any]:
        """Return the sum over a piece: some slots of the data that are read at once."""


@dataclass(frozen=True, slots=True, eq=False)
class Data:
    """The n k rows of a problem with ||scale_i x_i||_2 <= R, up to rounding, and their targets.

    Use `Data.coded` to make one. Record p has the k slots p k .. p k + k - 1. A slot without a row has scale 0 and adds
    exactly 0 to every sum. Each row is mapped by itself, so a replaced record of the input is one replaced record here:

    - A row that is not finite, or longer than 1e100, becomes zeros.
    - A row whose layout is not the declared one becomes an empty row.
    - A row longer than R is scaled to norm R.
    - A target becomes the nearest target of the loss.

    Parameters
    ----------
    records : the stored rows, never unfolded; in a frame, the rows of the frame
    y : targets, (n k,)
    scale : factor of each row, (n k,), applied when the row is read
    problem : the problem whose R and loss the maps used
    cache : intermediate results for the next sums, of frames, which are used for many sums
    """

    records: "kernels.Records"
    y: Vector
    scale: Vector
    problem: Problem
    cache: dict[str, tuple[Any, ...]] = field(default_factory=dict)

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
        present : whether each slot holds a row, (n k,), if the unit is a person; otherwise None
        in_place : whether the service coded the records itself, in files. Then records are broken only if a file is
            damaged, and are copied only in that case. All other records are always copied, so the time of a run does
            not reveal whether a record is broken.

        Raises
        ------
        Unsuitable
            if the records do not have the problem's shape, or a feature is not stored
        """
        records, slots = rows.records(problem), problem.slots
        if len(records.numbers) != slots or len(records.codes) != slots or y.shape != (slots,):
            raise Unsuitable(
                "records and targets must have one entry for each of the problem's n records (persons: slots)"
            )
        if (present is not None) != problem.unit.is_person or (present is not None and present.shape != (slots,)):
            raise Unsuitable("present must have an entry for each slot of persons, and be left out if records are rows")
        norms = kernels.norms(records, problem.columns is not None)
        broken = ~(norms <= _LARGEST_NORM)  # true for NaN, too
        if problem.columns is not None and problem.columns.ranges:
            broken |= outside(records, problem.columns)
        if not in_place or broken.any():
            records = emptied(records, broken)
            norms = np.where(broken, math.sqrt(len(records.categories) + records.constant), norms)
        targets = np.require(problem.loss.targets(np.asarray(y)), requirements=["C", "A", "E"])
        np.maximum(norms, problem.row_norm, out=norms)
        scale = np.divide(problem.row_norm, norms, out=norms)  # in place, because n may be large
        if present is not None:
            scale *= present
        return Data(records, targets, scale, problem)

    @property
    def is_sparse(self) -> bool:
        """Whether only the entries of sparse rows are stored."""
        return len(self.records.entry_index) > 0

    def present(self, slots: Slots = slice(None)) -> NDArray[np.bool_]:
        """Return whether each of the slots holds a row."""
        return self.scale[slots] > 0

    def drawn(self, indices: NDArray[np.int64]) -> "Data":
        """Return a copy of the records with these indices."""
        slots = slots_of(indices, self.problem)
        return Data(copied(self.records, slots), self.y[slots], self.scale[slots], self.problem)

    def total(self, work: Work, slots: Slots | None = None, pulse: Callable[[], object] = bool) -> NDArray[Any]:
        """Return the sum over some slots, or over all: first over each group in order, then of the groups in order.

        Parameters
        ----------
        pulse : called for each piece; it may raise
        """
        return added(self.group_sums(work, slice(0, self.problem.slots) if slots is None else slots, pulse))

    def group_sums(self, work: Work, slots: Slots, pulse: Callable[[], object] = bool) -> Iterator[NDArray[Any]]:
        """Yield the sum over each group's part of the slots, in order; there is one sum if there are no slots."""
        groups, parts = zip(*pieces(slots, piece_rows(self.problem, work.reads, self.is_sparse)), strict=True)
        work.prepare(self)
        sums = zip(groups, of_each(partial(work.sum, self), parts), strict=True)
        for _, own in groupby(sums, lambda pair: pair[0]):
            yield added((part for _, part in own), pulse)

    def seen_by(self, problem: Problem) -> "Data":
        """Return the same records for another loss, or for another bound on prepared rows."""
        return replace(self, problem=problem)


def slots_of(records: NDArray[np.int64], problem: Problem) -> NDArray[np.int64]:
    """Return the k slots of each of the records, record by record."""
    k = problem.unit.slots
    return records if k == 1 else (k * records[:, None] + np.arange(k)).ravel()


def pieces(slots: Slots, size: int) -> list[tuple[int, Slots]]:
    """Return pieces of at most `size` slots in order, each within one group, with the number of the group."""
    if isinstance(slots, slice):
        edges = range(slots.start - slots.start % GROUP, slots.stop, GROUP)
        parts = [(max(edge, slots.start), min(edge + GROUP, slots.stop)) for edge in edges]
        return [(a // GROUP, slice(c, min(c + size, b))) for a, b in parts for c in range(a, b, size)]
    if not len(slots):
        return [(0, slots)]
    groups = slots // GROUP
    ends = [0, *(1 + np.flatnonzero(groups[1:] != groups[:-1])).tolist(), len(slots)]
    return [(int(groups[a]), slots[c : min(c + size, b)]) for a, b in pairwise(ends) for c in range(a, b, size)]


def listed(slots: Slots) -> NDArray[np.int64]:
    """Return the indices of the slots."""
    return np.arange(slots.start, slots.stop) if isinstance(slots, slice) else slots


def added(sums: Iterable[NDArray[Any]], pulse: Callable[[], object] = bool) -> NDArray[Any]:
    """Return the sum of at least one array, added in order."""
    total: NDArray[Any] | None = None
    for part in sums:
        pulse()
        total = np.array(part) if total is None else np.add(total, part, out=total)
    assert total is not None
    return total


def of_each(work: Callable[[_Piece], NDArray[Any]], pieces: Sequence[_Piece]) -> Iterator[NDArray[Any]]:
    """Yield work(piece) in order; two threads are used if there are many pieces and a second core."""
    if len(pieces) < LEAST_PIECES_FOR_THREADS or (os.cpu_count() or 1) < 2:
        return map(work, pieces)
    return thread_pool(os.getpid()).map(work, pieces)


@cache
def thread_pool(_process: int) -> ThreadPoolExecutor:
    """Return the thread pool of this process, because a forked child inherits no threads."""
    return ThreadPoolExecutor(2, thread_name_prefix="rows")
