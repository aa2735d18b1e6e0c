"""Batches of a file's records, and the positions of declared columns in a file."""

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
    """The declared columns of consecutive records.

    Parameters
    ----------
    columns : one array for each column
    line_of : returns the line of the file of a record, given its index in the block of the batch
    first : index of the batch's first record in that block
    """

    columns: list[pa.Array]
    line_of: Callable[[int], int]
    first: int = 0

    def line(self, index: int) -> int:
        """Return the line of the file of a record in the batch; for Parquet, the row."""
        return self.line_of(self.first + index)


class Named(Protocol):
    """A declaration that names a column of the file."""

    @property
    def name(self) -> str:
        """The name in messages."""

    @property
    def of(self) -> str:
        """The name in the file's header."""

    @property
    def date(self) -> DatePart | None:
        """The part that is stored if the column holds dates."""


def locate(names: Sequence[str], columns: Sequence[Named]) -> list[int]:
    """Return the position of each declared column in a file with these column names.

    A name is matched exactly, otherwise without surrounding white space.

    Raises
    ------
    Mismatch
        if a declared column is missing, occurs twice, or matches the same column as a declaration of another name.
    """
    exact = _positions(names)
    trimmed = _positions([name.strip(" \t") for name in names])
    owners: dict[int, str] = {}
    positions = []
    for index, column in enumerate(columns):
        at = exact.get(column.of) or trimmed.get(column.of, [])
        if len(at) != 1:
            twice = "is in the file more than once. Rename all but one of them"
            raise Mismatch(index, column.of, twice if at else "is not in the file. Write its name as in the header")
        if owners.setdefault(at[0], column.of) != column.of:
            raise Mismatch(
                index, column.of, "is the same column of the file as another declared one. Write both names alike"
            )
        positions.append(at[0])
    return positions


def _positions(names: Sequence[str]) -> dict[str, list[int]]:
    positions: dict[str, list[int]] = {}
    for position, name in enumerate(names):
        positions.setdefault(name, []).append(position)
    return positions
