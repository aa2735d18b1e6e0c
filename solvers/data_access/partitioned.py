"""n slots whose records no machine holds together: of each partition, a group of them, whoever has it makes the sums.

    total = ((s_0 + s_1) + s_2) + ..., s_g the sum over group g, made by the code and in the order of `Data.group_sums`

Promise: the bits of `Data.total` on the same records, whoever made which sum, and however often. What travels is the
work, which partition's slots it is of, and the sum; noise is the door's, once. Proof: docs/proofs/partitions.md.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from solvers.bounds import GROUP
from solvers.data_access import frames
from solvers.data_access.data import Data, added, pieces
from solvers.data_access.summed import Slots, Work
from solvers.errors import Unsuitable
from solvers.frame import Frame
from solvers.problem import Problem

_names = count()  # of frames, in this process

Part = tuple[int, Slots]
"""A partition's number, and some of its own slots, counted from its first."""


@dataclass(frozen=True, slots=True, eq=False)
class View:
    """How records are seen: by which problem and, where they are prepared, in which frame.

    Parameters
    ----------
    problem : of all n records, as they are seen
    frame : with the rows' norm in it, and a number by which the same frame is known again
    """

    problem: Problem
    frame: tuple[Frame, float, int] | None = None

    def of(self, data: Data) -> Data:
        """A partition's records so; those of a frame are kept for the next time."""
        if self.frame is not None:
            frame, row_norm, name = self.frame
            last = data.kept.get("frame")
            if last is None or last[0] != name:
                last = name, frames.framed(data, frame, row_norm)
                data.kept["frame"] = last
            data = last[1]
        return data.seen_by(replace(self.problem, n=data.problem.n))


class Partitions(Protocol):
    """Whoever has the partitions, or knows who has."""

    def sums(
        self, view: View, work: Work, parts: Sequence[Part], pulse: Callable[[], object]
    ) -> Iterator[NDArray[Any]]:
        """`sum_of` each of the parts, in their order; the pulse is felt now and then, and may raise."""
        ...


def sum_of(data: Data, view: View, work: Work, slots: Slots) -> NDArray[Any]:
    """The work's sum over some slots of a partition."""
    (found,) = view.of(data).group_sums(work, slots)
    return found


@dataclass(frozen=True, slots=True, eq=False)
class Partitioned:
    """n records in partitions of `GROUP`, the last one shorter; see `Data`.

    Parameters
    ----------
    problem : as the records are seen
    partitions : who makes the sums
    frame : see `View`
    """

    problem: Problem
    partitions: Partitions
    frame: tuple[Frame, float, int] | None = None

    def __post_init__(self) -> None:
        if self.problem.unit.is_person:
            raise Unsuitable("partitions hold rows: a person's slots may lie in two of them")

    def total(self, work: Work, slots: Slots | None = None, pulse: Callable[[], object] = bool) -> NDArray[Any]:
        """See `Data.total`."""
        some = slice(0, self.problem.slots) if slots is None else slots
        parts = [(group, _within(group, own)) for group, own in pieces(some, GROUP)]
        return added(self.partitions.sums(View(self.problem, self.frame), work, parts, pulse))

    def within(self, frame: Frame, row_norm: float) -> "Partitioned":
        """See `frames.framed`."""
        own = frames.checked(frame, self.problem)
        met = frames.met(self.problem, own, row_norm)
        return Partitioned(met, self.partitions, (own, row_norm, next(_names)))

    def seen_by(self, problem: Problem) -> "Partitioned":
        """See `Data.seen_by`."""
        return replace(self, problem=problem)


def _within(group: int, slots: Slots) -> Slots:
    """Counted from the group's first."""
    first = group * GROUP
    if isinstance(slots, slice):
        return slice(slots.start - first, slots.stop - first)
    return np.asarray(slots - first)


@dataclass(frozen=True, slots=True, eq=False)
class Here:
    """Partitions that this process has, every one.

    Parameters
    ----------
    held : by their numbers
    """

    held: Sequence[Data]

    def sums(
        self, view: View, work: Work, parts: Sequence[Part], pulse: Callable[[], object]
    ) -> Iterator[NDArray[Any]]:
        """See `Partitions`."""
        for number, slots in parts:
            pulse()
            yield sum_of(self.held[number], view, work, slots)
