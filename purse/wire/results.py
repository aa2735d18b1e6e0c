"""The base class of statistics' results."""

from abc import abstractmethod
from collections.abc import Iterator
from typing import ClassVar

from purse.tables import NO_DATES, Dates, Table
from purse.wire.base import Wire


class StatisticResult(Wire):
    """The numbers of a statistic."""

    heading: ClassVar[str]  # the words before the columns in the title of its job
    releases: ClassVar[str]  # the released numbers, for lists of statistics
    is_of_numbers: ClassVar[bool]  # whether it describes number columns only

    @abstractmethod
    def lay_out(self, dates: Dates = NO_DATES) -> Iterator[Table]:
        """Yield the tables in which the result is shown to people.

        Parameters
        ----------
        dates : unit (days or seconds) of the columns that hold dates, by name
        """
