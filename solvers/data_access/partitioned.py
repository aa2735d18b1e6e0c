"""Sums over partitions of records that no machine holds together.

A partition is a group of slots, and a machine that has it computes its sums:

    total = ((s_0 + s_1) + s_2) + ..., with s_g the sum over group g by `Data.group_sums`

Guarantee: the result has the bits of `Data.total` on the same records, on whichever machines and however often the sums
are computed. Only works, slots and sums are sent. The oracle adds noise once. Proof: docs/proofs/partitions.md.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from solvers.bounds import GROUP
from solvers.data_access import frames
from solvers.data_access.data import Data, Slots, Work, added, pieces
from solvers.errors import Unsuitable
from solvers.frame import Frame
from solvers.problem import Problem

_frame_numbers = count()  # in this process

Part = tuple[int, Slots]
"""The number of a partition, and some of its slots, counted from its first."""


@dataclass(frozen=True, slots=True, eq=False)
class RecordsView:
    """The problem and, for prepared records, the frame of the records that a work reads.

    Parameters
    ----------
    problem : the problem of all n records
    frame : the frame, the norm of its rows, and a number that identifies the frame
    """

    problem: Problem
    frame: tuple[Frame, float, int] | None = None

    def of(self, data: Data) -> Data:
        """Return the partition's records in this view; records in a frame are cached for the next sum."""
        if self.frame is not None:
            frame, row_norm, number = self.frame
            cached_number, framed = data.cache.get("frame", (None, data))
            if cached_number != number:
                framed = frames.framed(data, frame, row_norm)
                data.cache["frame"] = number, framed
            data = framed
        return data.seen_by(replace(self.problem, n=data.problem.n))


class Partitions(Protocol):
    """The holder of all partitions, in this process or elsewhere."""

    def sums(
        self, view: RecordsView, work: Work, parts: Sequence[Part], pulse: Callable[[], object]
    ) -> Iterator[NDArray[Any]]:
        """Yield `sum_of` for each of the parts in order; the pulse is called now and then, and may raise."""


def sum_of(data: Data, view: RecordsView, work: Work, slots: Slots) -> NDArray[Any]:
    """Return the sum over some slots of a partition."""
    (total,) = view.of(data).group_sums(work, slots)
    return total


@dataclass(frozen=True, slots=True, eq=False)
class Partitioned:
    """The n records of a problem in partitions of `GROUP` records, of which the last may be shorter; see `Data`.

    Parameters
    ----------
    problem, frame : see `RecordsView`
    partitions : the holder of the partitions, which computes sums
    """

    problem: Problem
    partitions: Partitions
    frame: tuple[Frame, float, int] | None = None

    def __post_init__(self) -> None:
        if self.problem.unit.is_person:
            raise Unsuitable("partitions need rows as records: the slots of a person could lie in two partitions")

    def total(self, work: Work, slots: Slots | None = None, pulse: Callable[[], object] = bool) -> NDArray[Any]:
        """Return the sum over some slots, or over all; see `Data.total`."""
        chosen = slice(0, self.problem.slots) if slots is None else slots
        parts = [(group, _within(group, own)) for group, own in pieces(chosen, GROUP)]
        return added(self.partitions.sums(RecordsView(self.problem, self.frame), work, parts, pulse))

    def within(self, frame: Frame, row_norm: float) -> "Partitioned":
        """Return the records in a frame; see `frames.framed`."""
        own = frames.checked(frame, self.problem)
        problem = frames.problem_in_frame(self.problem, own, row_norm)
        return Partitioned(problem, self.partitions, (own, row_norm, next(_frame_numbers)))

    def seen_by(self, problem: Problem) -> "Partitioned":
        """Return the same records for another problem; see `Data.seen_by`."""
        return replace(self, problem=problem)


def _within(group: int, slots: Slots) -> Slots:
    """Return the slots, counted from the first of the group."""
    first = group * GROUP
    if isinstance(slots, slice):
        return slice(slots.start - first, slots.stop - first)
    return np.asarray(slots - first)


@dataclass(frozen=True, slots=True, eq=False)
class LocalPartitions:
    """Partitions that are all in this process.

    Parameters
    ----------
    partitions : by their numbers
    """

    partitions: Sequence[Data]

    def sums(
        self, view: RecordsView, work: Work, parts: Sequence[Part], pulse: Callable[[], object]
    ) -> Iterator[NDArray[Any]]:
        """Yield the sum of each part; see `Partitions`."""
        for number, slots in parts:
            pulse()
            yield sum_of(self.partitions[number], view, work, slots)
