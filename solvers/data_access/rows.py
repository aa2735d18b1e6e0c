"""Records as they are stored, and where what they hold goes in a row."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from solvers import kernels
from solvers.bounds import unfolded_rows
from solvers.columns import Columns
from solvers.errors import Unsuitable
from solvers.problem import Problem


@dataclass(frozen=True, slots=True, eq=False)
class Coded:
    """n records: numbers as numbers, categories as codes, each in as few bytes as hold all codes of its column.

    Parameters
    ----------
    numbers : (n, P) float64
    codes : (n, B) uint8, a code's bytes side by side, the lowest first
    places : for each feature of a row its column in `numbers` or, where it is a category, its first byte in `codes`
    """

    numbers: NDArray[np.float64]
    codes: NDArray[np.uint8]
    places: tuple[int, ...]

    @staticmethod
    def plain(X: NDArray[np.float64]) -> "Coded":
        """Rows of numbers."""
        return Coded(X, np.empty((len(X), 0), dtype=np.uint8), tuple(range(X.shape[1])))

    @staticmethod
    def folded(X: NDArray[np.float64], columns: Columns) -> "Coded":
        """Unfolded rows, each as it is declared or, where it is not, the empty one."""
        numbers = np.flatnonzero(columns.is_number)
        blocks = [(start, w) for start, w in zip(columns.starts.tolist(), columns.widths, strict=True) if w > 1]
        sizes = [code_bytes(width) for _, width in blocks]
        coded = Coded(np.zeros((len(X), len(numbers))), np.zeros((len(X), sum(sizes)), dtype=np.uint8), ())
        for rows in cut(len(X), columns.d):
            x, first, held = X[rows], 0, X[rows, -1] == 1
            held &= (np.abs(x[:, numbers]) <= 1).all(axis=1)
            for start, width in blocks:
                block = x[:, start : start + width]
                held &= ((block == 0) | (block == 1)).all(axis=1) & (block.sum(axis=1) == 1)
            coded.numbers[rows] = np.where(held[:, None], x[:, numbers], 0.0)
            for (start, width), size in zip(blocks, sizes, strict=True):
                code = np.where(held, x[:, start : start + width].argmax(axis=1), 0)
                coded.codes[rows, first : first + size] = in_bytes(code, size)
                first += size
        return Coded(coded.numbers, coded.codes, places(columns))

    def records(self, problem: Problem) -> "kernels.Records":
        """What the loops over records take: see `kernels.records`.

        Raises
        ------
        Unsuitable
            if a feature is not among what is stored.
        """
        columns, start = problem.columns, self.numbers.shape[1]
        widths = (1,) * problem.d if columns is None else columns.widths
        if len(self.places) != len(widths):
            raise Unsuitable("there must be a place for each feature of the problem")
        stored = self.numbers.shape[1], self.codes.shape[1]
        order: list[list[int] | range] = []
        fields: list[tuple[int, int, int, int]] = []
        for place, length in zip(self.places, widths, strict=True):
            size = code_bytes(length) if length > 1 else 1
            if not 0 <= place <= stored[length > 1] - size:
                raise Unsuitable("a feature is not among the columns that are stored")
            order.append([place] if length == 1 else range(start, start + length))
            if length > 1:
                fields.append((place, size, start, length))
                start += length
        if columns is not None:
            order.append([start])
        to = np.concatenate([np.array(part, dtype=np.int64) for part in order])
        table, none = np.array(fields, dtype=np.int64).reshape(len(fields), 4), np.empty(0)
        constant = int(columns is not None)
        return self.numbers, self.codes, table, to, start + constant, constant, none, none, 1.0


def code_bytes(codes: int) -> int:
    """The fewest bytes that tell so many codes apart."""
    return max(1, ((codes - 1).bit_length() + 7) // 8)


def in_bytes(codes: NDArray[np.int64], size: int) -> NDArray[np.uint8]:
    """(n, size), the lowest byte first."""
    return codes.astype("<i8").view(np.uint8).reshape(len(codes), 8)[:, :size]


def cut(n: int, width: int) -> Iterator[slice]:
    """n rows in order, so many at a time as may be unfolded."""
    size = unfolded_rows(width)
    return (slice(start, min(n, start + size)) for start in range(0, n, size))


def places(columns: Columns) -> tuple[int, ...]:
    """Numbers and codes side by side, in the order declared."""
    number, byte, found = 0, 0, []
    for width in columns.widths:
        found.append(number if width == 1 else byte)
        number, byte = (number + 1, byte) if width == 1 else (number, byte + code_bytes(width))
    return tuple(found)
