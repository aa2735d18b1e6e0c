"""What `CountingOracle` adds up over records whose layout is declared, and pays noise for."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from solvers import kernels, moment_bounds
from solvers.bounds import Reads
from solvers.columns import Columns
from solvers.data_access.data import Data, listed
from solvers.data_access.moment_sums import columns_of, numbers_of, range_of
from solvers.data_access.rows import entries_of
from solvers.data_access.summed import Slots, Work
from solvers.problem import Problem, Vector

_OF_SINGLES = 2.0**-23  # what a double becomes another by, at most: an ulp, where its range ends between two singles
_FAR = 30.0  # a score from there on is in the last bin
Sum = Callable[[Slots], NDArray[Any]]


@dataclass(frozen=True, slots=True)
class Histograms(Work):
    """How many rows lie in each of so many equal parts of each number's range: (p bins,)."""

    reads: ClassVar[Reads] = "numbers"

    bins: int

    def on(self, data: Data) -> Sum:
        """In a piece."""
        first = self.bins * np.arange(columns_of(data).widths.count(1))

        def counted(rows: Slots) -> NDArray[Any]:
            parts = _parts(data, rows, self.bins) + first
            here = np.repeat(data.present(rows), len(first)).astype(np.float64)
            return np.bincount(parts.ravel(), here, minlength=len(first) * self.bins)

        def of_entries(rows: Slots) -> NDArray[Any]:
            row, entry, values = entries_of(data.records, slice(*range_of(rows)))
            here, size = data.present(rows).astype(np.float64), len(first) * self.bins
            zeros = _part(np.zeros(len(first)), columns_of(data), self.bins) + first
            parts = _part(values, columns_of(data), self.bins, entry) + first[entry]
            counts = np.zeros(size)  # doubles: of no entries `bincount` makes integers
            counts[zeros] = here.sum()  # all but those with an entry; whole numbers, in whatever order
            moved = np.bincount(parts, here[row], minlength=size) - np.bincount(zeros[entry], here[row], minlength=size)
            return counts + moved

        return of_entries if data.is_sparse else counted


@dataclass(frozen=True, slots=True)
class Cells(Work):
    """How many rows lie in each cell, of one part of each number's range and one category of each block: (cells,), the
    last feature's parts side by side.
    """

    reads: ClassVar[Reads] = "matrix"

    bins: int

    def on(self, data: Data) -> Sum:
        """In a piece."""
        widths = columns_of(data).widths
        sizes = [self.bins if width == 1 else width for width in widths]
        steps = np.cumprod([1, *sizes[:0:-1]])[::-1]
        is_number = np.array(widths) == 1

        def counted(rows: Slots) -> NDArray[Any]:
            numbers, codes = _parts(data, rows, self.bins), _codes(data, rows)
            places = numbers @ steps[is_number] + codes @ steps[~is_number]
            return np.bincount(places, data.present(rows).astype(np.float64), minlength=int(np.prod(sizes)))

        return counted


@dataclass(frozen=True, slots=True, eq=False)
class Products(Work):
    """Of y y', y the numbers of x - m: its upper triangle, row by row, what is off the diagonal times sqrt(2)."""

    reads: ClassVar[Reads] = "matrix"

    center: Vector

    def on(self, data: Data) -> Sum:
        """Over a piece."""
        p = columns_of(data).widths.count(1)
        upper = np.triu_indices(p)
        times = np.where(upper[0] == upper[1], 1.0, np.sqrt(2.0))

        def added(rows: Slots) -> Vector:
            y = numbers_of(data, rows, self.center)
            return np.asarray((y.T @ y)[upper] * times)

        return added


@dataclass(frozen=True, slots=True, eq=False)
class Scores(Work):
    """How many records lie in each cell of target and what a public model says of them: (cells,), see
    `moment_bounds.scored`.

    A cell is a function of one record and public numbers, made of operations that know no other record; each record is
    worked on alike, whatever its values: a margin that is not finite counts as 0.

    Parameters
    ----------
    W : (K, d), a row of weights for each output, the constant's last
    bins : of the score, or of the residual
    clip : residuals are cut to [-clip, clip]
    """

    reads: ClassVar[Reads] = "numbers"

    W: Vector
    bins: int
    clip: float

    def on(self, data: Data) -> Sum:
        """In a piece."""
        size, scored = moment_bounds.scored(data.problem, self.bins), _score(data.problem, self.bins, self.clip)

        def counted(rows: Slots) -> NDArray[Any]:
            with np.errstate(all="ignore"):
                margins = np.nan_to_num(_margins(data, rows, self.W), nan=0.0)
                return np.bincount(scored(margins, data.y[rows]), data.present(rows).astype(np.float64), minlength=size)

        return counted


def _score(problem: Problem, bins: int, clip: float) -> Callable[[Vector, Vector], NDArray[np.int64]]:
    """From margins and targets to cells."""
    if problem.outputs > 1:
        return lambda margins, y: y.astype(np.int64) * problem.outputs + margins.argmax(axis=1)
    if problem.loss.takes == "number":
        return lambda margins, y: _bin((np.clip(margins[:, 0] - np.clip(y, -1, 1), -clip, clip) / clip + 1) / 2, bins)
    return lambda margins, y: (y > 0) * bins + _bin(1 / (1 + np.exp(-np.clip(margins[:, 0], -_FAR, _FAR))), bins)


def _bin(share: Vector, bins: int) -> NDArray[np.int64]:
    return np.clip(np.floor(share * bins), 0, bins - 1).astype(np.int64)


def _margins(data: Data, rows: Slots, W: Vector) -> Vector:
    """(rows, K), feature by feature, or as loops have them: no record's has to do with another's."""
    if data.is_sparse:
        return np.column_stack([kernels.margins_of(data.records, w, listed(rows)) for w in W])
    numbers, codes = numbers_of(data, rows, np.zeros(data.problem.d - 1)), _codes(data, rows)
    number, block, columns = iter(numbers.T), iter(codes.T), columns_of(data)
    found = np.tile(W[:, -1], (len(numbers), 1))
    for start, width in zip(columns.starts.tolist(), columns.widths, strict=True):
        found += next(number)[:, None] * W[:, start] if width == 1 else W[:, start + next(block)].T
    return found


def _parts(data: Data, rows: Slots, bins: int) -> NDArray[np.int64]:
    """Which of the equal parts of its range each number lies in: (rows, p)."""
    numbers = numbers_of(data, rows, np.zeros(data.problem.d - 1))
    return _part(numbers, columns_of(data), bins, rounding=_OF_SINGLES if data.records.is_single else 0.0)


def _part(
    numbers: Vector, columns: Columns, bins: int, of: Any = slice(None), rounding: float = 0.0
) -> NDArray[np.int64]:
    """The part of its range, clamped to the first and the last, of each number, or of those that are named.

    Parameters
    ----------
    rounding : relative, of numbers that were rounded: one so little below a part's end was perhaps on it, and counts so
    """
    low, high = columns.low[of], columns.high[of]
    width = np.where(high > low, high - low, 1.0)
    least = rounding * np.maximum(np.abs(low), np.abs(high))
    parts = np.floor((numbers - low + least) / width * bins)
    return np.asarray(np.clip(parts, 0, bins - 1).astype(np.int64))


def _codes(data: Data, rows: Slots) -> NDArray[np.int64]:
    """Each block's category, within it as `Data` has it: (rows, q)."""
    stored, categories = data.records.codes[rows], data.records.categories
    codes = np.zeros((len(stored), len(categories)), dtype=np.int64)
    for j, (first, size, _, _) in enumerate(categories.tolist()):
        codes[:, j] = stored[:, first : first + size].astype(np.int64) @ (256 ** np.arange(size))
    return codes
