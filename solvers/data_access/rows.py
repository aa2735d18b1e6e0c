"""Records as they are stored, and the layout of the rows that they stand for."""

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
    """Rows in a form that the compiled loops read."""

    def records(self, problem: Problem) -> "kernels.Records":
        """Return the rows for the compiled loops; raise `Unsuitable` if they are not the problem's."""


@dataclass(frozen=True, slots=True, eq=False)
class Coded:
    """n records: numbers as numbers, categories as codes, each in as few bytes as hold all codes of its column.

    Parameters
    ----------
    numbers : (n, P), float64 or float32
    codes : (n, B) uint8, a code's bytes side by side, the lowest first
    offsets : for each feature of a row its column in `numbers` or, where it is a category, its first byte in `codes`
    """

    numbers: NDArray[np.floating[Any]]
    codes: NDArray[np.uint8]
    offsets: tuple[int, ...]

    def records(self, problem: Problem) -> "kernels.Records":
        """Return the rows for the compiled loops.

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
        if len(self.offsets) != len(widths):
            raise Unsuitable("there must be a place for each feature of the problem")
        stored = numbers.shape[1], codes.shape[1]
        positions: list[list[int] | range] = []
        categories: list[tuple[int, int, int, int]] = []
        used: set[tuple[bool, int]] = set()  # a column of either matrix
        for place, length in zip(self.offsets, widths, strict=True):
            size = code_bytes(length) if length > 1 else 1
            if not 0 <= place <= stored[length > 1] - size:
                raise Unsuitable("a feature is not among the columns that are stored")
            own = {(length > 1, column) for column in range(place, place + size)}
            if used & own:
                raise Unsuitable("two features are one stored column")
            used |= own
            positions.append([place] if length == 1 else range(start, start + length))
            if length > 1:
                categories.append((place, size, start, length))
                start += length
        if columns is not None:
            positions.append([start])
        constant = int(columns is not None)
        return kernels.Records(
            numbers=numbers.view(np.uint8),
            codes=codes,
            categories=np.array(categories, dtype=np.int64).reshape(len(categories), 4),
            positions=np.concatenate([np.array(part, dtype=np.int64) for part in positions]),
            size=start + constant,
            constant=constant,
            center=np.empty(0),
            shrink=np.empty(0),
            intercept=1.0,
            entry_index=np.empty(0, np.int64),
            entry_values=np.empty(0),
            is_single=numbers.dtype == np.float32,
        ).read_only()


def stored_numbers(records: "kernels.Records") -> NDArray[np.floating[Any]]:
    """Return the numbers as they are stored, (n, P)."""
    return records.numbers.view(np.float32 if records.is_single else np.float64)


def entry_offsets(records: "kernels.Records") -> NDArray[np.int64]:
    """Return where the entries of each sparse row begin and end, (n + 1,)."""
    return records.entry_index[: len(records.numbers) + 1]


def emptied(records: "kernels.Records", broken: NDArray[np.bool_]) -> "kernels.Records":
    """Return a copy in which broken records have zeros for numbers and the first level of every category.

    Every value is selected and copied, whichever records are broken: the work does not depend on the data.
    """
    numbers = np.where(broken[:, None], np.zeros((), stored_numbers(records).dtype), stored_numbers(records))
    codes, values = np.where(broken[:, None], np.uint8(0), records.codes), records.entry_values
    if len(records.entry_index):
        values = np.where(np.repeat(broken, np.diff(entry_offsets(records))), 0.0, values)
    return records._replace(numbers=numbers.view(np.uint8), codes=codes, entry_values=values).read_only()


def taken(records: "kernels.Records", rows: NDArray[np.int64]) -> "kernels.Records":
    """Return a copy of the given rows; row -1 stands for an empty one, without entries."""
    at, is_empty = np.maximum(rows, 0), rows < 0
    numbers, codes = records.numbers[at], records.codes[at]
    index, values = records.entry_index, records.entry_values
    numbers[is_empty], codes[is_empty] = 0, 0
    if len(index):
        offsets = entry_offsets(records)
        counts = np.where(is_empty, 0, np.diff(offsets)[at])
        ends = np.concatenate(([0], np.cumsum(counts)))
        entries = np.arange(ends[-1]) + np.repeat(offsets[:-1][at] - ends[:-1], counts)
        index, values = np.concatenate((ends, index[len(offsets) :][entries])), values[entries]
    copied = records._replace(numbers=numbers, codes=codes, entry_index=index, entry_values=values)
    return copied.read_only()


def entries_of(
    records: "kernels.Records", rows: slice
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """Return for each entry of some sparse rows its row, counted from the first of them, its position and its value."""
    offsets = entry_offsets(records)
    ends = offsets[rows.start : rows.stop + 1]
    entries = slice(ends[0], ends[-1])
    row_of = np.repeat(np.arange(len(ends) - 1), np.diff(ends))
    return row_of, records.entry_index[len(offsets) :][entries], records.entry_values[entries]


def code_bytes(codes: int) -> int:
    """The fewest bytes that tell so many codes apart."""
    return max(1, ((codes - 1).bit_length() + 7) // 8)


def cut(n: int, width: int) -> Iterator[slice]:
    """n rows in order, so many at a time as may be unfolded."""
    size = unfolded_rows(width)
    return (slice(start, min(n, start + size)) for start in range(0, n, size))
