"""Records as they are stored, and where what they hold goes in a row."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from solvers import kernels
from solvers.bounds import unfolded_rows
from solvers.errors import Unsuitable
from solvers.problem import Problem


class Stored(Protocol):
    """Rows in a form that the loops over records read."""

    def records(self, problem: Problem) -> "kernels.Records":
        """What they take, see `kernels.records`; `Unsuitable` if the rows are not the problem's."""


@dataclass(frozen=True, slots=True, eq=False)
class Coded:
    """n records: numbers as numbers, categories as codes, each in as few bytes as hold all codes of its column.

    Parameters
    ----------
    numbers : (n, P), float64 or float32
    codes : (n, B) uint8, a code's bytes side by side, the lowest first
    places : for each feature of a row its column in `numbers` or, where it is a category, its first byte in `codes`
    """

    numbers: NDArray[np.floating[Any]]
    codes: NDArray[np.uint8]
    places: tuple[int, ...]

    def records(self, problem: Problem) -> "kernels.Records":
        """What the loops over records take: see `kernels.records`.

        Raises
        ------
        Unsuitable
            if a feature is not among what is stored, two features are one column, or numbers are neither.
        """
        # Plain arrays: a memory map's own class would slow every slice.
        numbers, codes = (np.require(a, requirements=["C", "A", "E"]) for a in (self.numbers, self.codes))
        if numbers.dtype not in (np.float32, np.float64):
            raise Unsuitable("numbers are float64 or float32")
        columns, start = problem.columns, numbers.shape[1]
        widths = (1,) * problem.d if columns is None else columns.widths
        if len(self.places) != len(widths):
            raise Unsuitable("there must be a place for each feature of the problem")
        stored = numbers.shape[1], codes.shape[1]
        order: list[list[int] | range] = []
        fields: list[tuple[int, int, int, int]] = []
        used: set[tuple[bool, int]] = set()  # a column of either matrix
        for place, length in zip(self.places, widths, strict=True):
            size = code_bytes(length) if length > 1 else 1
            if not 0 <= place <= stored[length > 1] - size:
                raise Unsuitable("a feature is not among the columns that are stored")
            own = {(length > 1, column) for column in range(place, place + size)}
            if used & own:
                raise Unsuitable("two features are one stored column")
            used |= own
            order.append([place] if length == 1 else range(start, start + length))
            if length > 1:
                fields.append((place, size, start, length))
                start += length
        if columns is not None:
            order.append([start])
        to = np.concatenate([np.array(part, dtype=np.int64) for part in order])
        table, none = np.array(fields, dtype=np.int64).reshape(len(fields), 4), np.empty(0)
        constant = int(columns is not None)
        rest = table, to, start + constant, constant, none, none, 1.0, to[:0], none
        return numbers.view(np.uint8), codes, *rest, numbers.dtype == np.float32


def stored_numbers(records: "kernels.Records") -> NDArray[np.floating[Any]]:
    """(n, P), as they are stored."""
    return records[0].view(np.float32) if records[11] else records[0].view(np.float64)


def emptied(records: "kernels.Records", broken: NDArray[np.bool_]) -> "kernels.Records":
    """Return a copy in which broken records are zeros and the first of all categories.

    Every value is selected and copied, whichever records are broken: the work does not depend on the data.
    """
    numbers = np.where(broken[:, None], np.zeros((), stored_numbers(records).dtype), stored_numbers(records))
    codes, values = np.where(broken[:, None], np.uint8(0), records[1]), records[10]
    if len(records[9]):
        values = np.where(np.repeat(broken, np.diff(records[9][: len(broken) + 1])), 0.0, values)
    return numbers.view(np.uint8), codes, *records[2:10], values, records[11]


def taken(records: "kernels.Records", places: NDArray[np.int64]) -> "kernels.Records":
    """A copy of the given ones; of place -1 an empty one, which has no entries."""
    at, none = np.maximum(places, 0), places < 0
    numbers, codes, pairs, values = records[0][at], records[1][at], records[9], records[10]
    numbers[none], codes[none] = 0, 0
    if len(pairs):
        n = len(records[0])
        counts = np.where(none, 0, (pairs[1 : n + 1] - pairs[:n])[at])
        ends = np.concatenate(([0], np.cumsum(counts)))
        entries = np.arange(ends[-1]) + np.repeat(pairs[:n][at] - ends[:-1], counts)
        pairs, values = np.concatenate((ends, pairs[n + 1 :][entries])), values[entries]
    return numbers, codes, *records[2:9], pairs, values, records[11]


def entries_of(
    records: "kernels.Records", rows: slice
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """Of sparse rows each entry's row, counted from the first of these, its coordinate and its value."""
    ends = records[9][rows.start : rows.stop + 1]
    found = records[9][len(records[0]) + 1 :][ends[0] : ends[-1]], records[10][ends[0] : ends[-1]]
    return np.repeat(np.arange(len(ends) - 1), np.diff(ends)), *found


def code_bytes(codes: int) -> int:
    """The fewest bytes that tell so many codes apart."""
    return max(1, ((codes - 1).bit_length() + 7) // 8)


def cut(n: int, width: int) -> Iterator[slice]:
    """n rows in order, so many at a time as may be unfolded."""
    size = unfolded_rows(width)
    return (slice(start, min(n, start + size)) for start in range(0, n, size))
