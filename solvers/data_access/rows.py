"""Stored records, and the layout of the rows that they represent."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from solvers import kernels
from solvers.bounds import unfolded_rows
from solvers.columns import Columns
from solvers.errors import Unsuitable
from solvers.problem import Problem


class Stored(Protocol):
    """Rows in a form that the compiled loops read."""

    def records(self, problem: Problem) -> "kernels.Records":
        """Return the rows for the compiled loops. Raise `Unsuitable` if they do not fit the problem."""


@dataclass(frozen=True, slots=True, eq=False)
class Coded:
    """Stored records: numbers, and categories as codes of as few bytes as hold all codes of the column.

    Parameters
    ----------
    numbers : (n, P), float64 or float32
    codes : (n, B) uint8, the bytes of a code side by side, the lowest first
    offsets : for each feature of a row its column in `numbers`, or the first byte of a category in `codes`
    """

    numbers: NDArray[np.floating[Any]]
    codes: NDArray[np.uint8]
    offsets: tuple[int, ...]

    def records(self, problem: Problem) -> "kernels.Records":
        """Return the rows for the compiled loops.

        Raises
        ------
        Unsuitable
            if a feature is not stored, two features share a column, or numbers have another type
        """
        # The class of memory maps would slow every slice.
        numbers, codes = (np.require(a, requirements=["C", "A", "E"]) for a in (self.numbers, self.codes))
        if numbers.dtype not in (np.float32, np.float64):
            raise Unsuitable("stored numbers must be float64 or float32")
        is_declared = problem.columns is not None
        widths = np.array(problem.columns.widths if problem.columns else (1,) * problem.d, dtype=np.int64)
        offsets = np.array(self.offsets) if self.offsets else np.empty(0, np.int64)  # `np.array(())` has floats
        if len(offsets) != len(widths):
            raise Unsuitable("offsets must have an entry for each feature of the problem")
        if offsets.dtype != np.int64:
            raise Unsuitable("offsets must be integers below 2^63")
        is_block, count = widths > 1, numbers.shape[1]
        sizes = np.array([code_bytes(width) for width in widths.tolist()], dtype=np.int64)  # 1 for a number
        if ((offsets < 0) | (offsets > np.where(is_block, codes.shape[1], count) - sizes)).any():
            raise Unsuitable("offsets: a feature is not stored")
        first = offsets + np.where(is_block, count, 0)  # column of a feature if the codes follow the numbers
        used = np.concatenate([first[sizes > byte] + byte for byte in range(sizes.max(initial=1))])
        if len(np.unique(used)) < len(used):
            raise Unsuitable("offsets: two features share a stored column")
        ends = count + np.cumsum(np.where(is_block, widths, 0))
        starts = np.where(is_block, ends - widths, offsets)  # position of the first coordinate of a feature
        positions = np.arange(widths.sum()) + np.repeat(starts - np.cumsum(widths) + widths, widths)
        size = count + int(widths[is_block].sum()) + is_declared
        return kernels.Records(
            numbers=numbers.view(np.uint8),
            codes=codes,
            categories=np.column_stack((offsets, sizes, starts, widths))[is_block],
            positions=np.append(positions, size - 1) if is_declared else positions,
            size=size,
            constant=int(is_declared),
            center=np.empty(0),
            shrink=np.empty(0),
            intercept=1.0,
            entry_index=np.empty(0, np.int64),
            entry_values=np.empty(0),
            is_single=numbers.dtype == np.float32,
        ).read_only()


def stored_numbers(records: "kernels.Records") -> NDArray[np.floating[Any]]:
    """Return the stored numbers, (n, P)."""
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


def copied(records: "kernels.Records", rows: NDArray[np.int64]) -> "kernels.Records":
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


def outside(records: "kernels.Records", columns: Columns) -> NDArray[np.bool_]:
    """Return whether a number of each row lies outside its range, (n k,)."""
    numbers, at = stored_numbers(records), records.positions[:-1][columns.is_number]
    is_outside = np.zeros(len(numbers), dtype=np.bool_)
    if len(records.entry_index):  # 0 is in every range
        row, entry, values = entries_of(records, slice(0, len(numbers)))
        is_beyond = (values < columns.low[entry]) | (values > columns.high[entry])
        return np.bincount(row, is_beyond, minlength=len(numbers)) > 0
    for rows in slices(len(numbers), len(at)):
        x = numbers[rows][:, at]
        is_outside[rows] = ((x < columns.low) | (x > columns.high)).any(axis=1)
    return is_outside


def code_bytes(codes: int) -> int:
    """Return the smallest number of bytes that can hold this many codes."""
    return max(1, ((codes - 1).bit_length() + 7) // 8)


def slices(n: int, width: int) -> Iterator[slice]:
    """Yield slices of n rows in order, each as long as may be unfolded at a time."""
    size = unfolded_rows(width)
    return (slice(start, min(n, start + size)) for start in range(0, n, size))
