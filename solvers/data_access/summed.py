"""Slots of which sums are to be had, and what is summed: types."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from solvers.bounds import Reads
from solvers.frame import Frame
from solvers.problem import Problem

if TYPE_CHECKING:
    from solvers.data_access.data import Data

Slots = slice | NDArray[np.int64]
"""Some slots: a range of them, or a batch in increasing order."""


class Work(ABC):
    """What is added up over slots: a function of the records in a piece of them, and of public or private answers.

    It holds no data: where the records are elsewhere, it goes there.
    """

    __slots__ = ()
    reads: ClassVar[Reads] = "records"

    @abstractmethod
    def on(self, data: "Data") -> Callable[[Slots], NDArray[Any]]:
        """Its sum over a piece of the data's slots."""


class Summed(Protocol):
    """n k slots of which sums are to be had: `Data`, or `partitioned.Partitioned`, whose records are elsewhere."""

    @property
    def problem(self) -> Problem:
        """Whose R and loss the records were mapped by."""
        ...

    def total(self, work: Work, slots: Slots | None = None, pulse: Callable[[], object] = bool) -> NDArray[Any]:
        """See `Data.total`."""
        ...

    def seen_by(self, problem: Problem) -> "Summed":
        """The same records as another loss, or a bound on what is prepared, sees them."""
        ...


class Elsewhere(Summed, Protocol):
    """Those whose records are not in this memory."""

    def within(self, frame: Frame, row_norm: float) -> "Elsewhere":
        """See `frames.framed`."""
        ...

    def seen_by(self, problem: Problem) -> "Elsewhere":
        """See `Summed.seen_by`."""
        ...
