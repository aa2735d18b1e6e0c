"""Some records of a file, and which of its columns are which."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from app.sources.errors import Mismatch
from purse.wire.files import DatePart

MOST_TEXT_BYTES = 4 * 2**20
"""The longest text in a Parquet file, and the longest record in a CSV file, in bytes of UTF-8."""


@dataclass(frozen=True, slots=True)
class Batch:
    """The declared columns of some records that follow each other.

    Parameters
    ----------
    columns : one array for each
    line_of : on which line of the file a record is, by its number in the block that the batch is of
    first : the number of the batch's first record there
    """

    columns: list[pa.Array]
    line_of: Callable[[int], int]
    first: int = 0

    def line(self, index: int) -> int:
        """On which line a record of the batch is; of Parquet, on which row."""
        return self.line_of(self.first + index)


class Named(Protocol):
    """A declaration that is of a column of the file."""

    @property
    def name(self) -> str:
        """As messages have it."""

    @property
    def of(self) -> str:
        """As the file's header has it."""

    @property
    def date(self) -> DatePart | None:
        """What is asked of it where it holds dates."""


def locate(names: Sequence[str], columns: Sequence[Named]) -> list[int]:
    """Where each declared column stands in a file with these column names: an exact match, else one of trimmed names.

    Raises
    ------
    Mismatch
        if a declared column is not there, is there twice, or is one that a declaration of another name has taken.
    """
    exact, trimmed = _positions(names), _positions([name.strip(" \t") for name in names])
    found: dict[int, str] = {}
    places = []
    for index, column in enumerate(columns):
        at = exact.get(column.of) or trimmed.get(column.of, [])
        if len(at) != 1:
            raise Mismatch(index, column.of, "is in the file more than once" if at else "is not in the file")
        if found.setdefault(at[0], column.of) != column.of:
            raise Mismatch(index, column.of, "is the same column of the file as another one")
        places.append(at[0])
    return places


def _positions(names: Sequence[str]) -> dict[str, list[int]]:
    positions: dict[str, list[int]] = {}
    for position, name in enumerate(names):
        positions.setdefault(name, []).append(position)
    return positions
