"""The type of data of which sums can be computed."""

from collections.abc import Callable
from typing import Any, Protocol

from numpy.typing import NDArray

from solvers.data_access.data import Slots, Work
from solvers.problem import Problem


class Summed(Protocol):
    """Data of which sums can be computed: `Data`, or `partitioned.Partitioned`, whose records are on other machines."""

    @property
    def problem(self) -> Problem:
        """The problem whose R and loss the records were mapped with."""

    def total(self, work: Work, slots: Slots | None = None, pulse: Callable[[], object] = bool) -> NDArray[Any]:
        """Return the sum; see `Data.total`."""

    def seen_by(self, problem: Problem) -> "Summed":
        """Return the same records for another loss, or for another bound on prepared rows."""
