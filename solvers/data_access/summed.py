"""Types of data of which sums can be computed: in this memory, or in partitions elsewhere."""

from collections.abc import Callable
from typing import Any, Protocol

from numpy.typing import NDArray

from solvers.data_access.data import Slots, Work
from solvers.frame import Frame
from solvers.problem import Problem


class Summed(Protocol):
    """n k slots of which sums can be computed: `Data`, or `partitioned.Partitioned`, whose records are elsewhere."""

    @property
    def problem(self) -> Problem:
        """The problem whose R and loss the records were mapped with."""

    def total(self, work: Work, slots: Slots | None = None, pulse: Callable[[], object] = bool) -> NDArray[Any]:
        """Return the sum; see `Data.total`."""

    def seen_by(self, problem: Problem) -> "Summed":
        """Return the same records for another loss, or for another bound on prepared rows."""


class RemoteData(Summed, Protocol):
    """Data whose records are not in this memory."""

    def within(self, frame: Frame, row_norm: float) -> "RemoteData":
        """Return the records in a frame; see `frames.framed`."""

    def seen_by(self, problem: Problem) -> "RemoteData":
        """Return the same records for another problem; see `Summed.seen_by`."""
