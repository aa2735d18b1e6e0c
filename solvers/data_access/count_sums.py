"""Sums over records of declared columns, for `CountingOracle`."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from solvers import count_bounds, kernels
from solvers.bounds import Reads
from solvers.columns import Columns
from solvers.data_access.data import Data, Slots, Work, listed
from solvers.data_access.moment_sums import columns_of, numbers_of, range_of
from solvers.data_access.rows import entries_of
from solvers.packing import packing
from solvers.problem import Problem, Vector

SINGLE_ROUNDING = 2.0**-23  # largest relative error of a double that is stored as a single: one ulp
_LARGEST_MARGIN = 30.0  # beyond it a score is in the first or the last bin


@dataclass(frozen=True, slots=True)
class Histograms(Work):
    """The number of rows in each of `bins` equal parts of each number's range: (p bins,)."""

    reads: ClassVar[Reads] = "numbers"

    bins: int

    def sum(self, data: Data, rows: Slots) -> NDArray[Any]:
        """Return the counts in a piece."""
        first = self.bins * np.arange(columns_of(data).widths.count(1))
        if data.is_sparse:
            return self._of_entries(data, rows, first)
        parts = parts_of(data, rows, self.bins) + first
        weights = np.repeat(data.present(rows), len(first)).astype(np.float64)
        return np.bincount(parts.ravel(), weights, minlength=len(first) * self.bins)

    def _of_entries(self, data: Data, rows: Slots, first: NDArray[np.int64]) -> NDArray[Any]:
        """Return the counts in a piece of sparse rows; `first` is the first part of each number."""
        row, entry, values = entries_of(data.records, slice(*range_of(rows)))
        weights = data.present(rows).astype(np.float64)
        size = len(first) * self.bins
        zeros = _part(np.zeros(len(first)), columns_of(data), self.bins) + first
        parts = _part(values, columns_of(data), self.bins, entry) + first[entry]
        counts = np.zeros(size)  # doubles, because `bincount` returns integers if there are no entries
        counts[zeros] = weights.sum()  # whole numbers, so the order of addition does not matter
        at_entries = np.bincount(parts, weights[row], minlength=size)
        return counts + (at_entries - np.bincount(zeros[entry], weights[row], minlength=size))


@dataclass(frozen=True, slots=True)
class Cells(Work):
    """The number of rows in each cell: (cells,).

    A cell combines a part of each number's range and a category of each block. Neighboring entries differ in the last
    feature.
    """

    reads: ClassVar[Reads] = "matrix"

    bins: int

    def sum(self, data: Data, rows: Slots) -> NDArray[Any]:
        """Return the counts in a piece."""
        widths = columns_of(data).widths
        sizes = [self.bins if width == 1 else width for width in widths]
        steps = np.cumprod([1, *sizes[:0:-1]])[::-1]
        is_number = np.array(widths) == 1
        cells = parts_of(data, rows, self.bins) @ steps[is_number] + codes_of(data, rows) @ steps[~is_number]
        return np.bincount(cells, data.present(rows).astype(np.float64), minlength=int(np.prod(sizes)))


@dataclass(frozen=True, slots=True, eq=False)
class Products(Work):
    """The sum of y y', with y the numbers of x - m: the upper triangle by rows, off the diagonal times sqrt(2)."""

    reads: ClassVar[Reads] = "matrix"

    center: Vector

    def sum(self, data: Data, rows: Slots) -> Vector:
        """Return the sum over a piece."""
        y = numbers_of(data, rows, self.center)
        upper, factors = packing(y.shape[1])
        return np.asarray((y.T @ y)[upper] * factors)


@dataclass(frozen=True, slots=True, eq=False)
class PredictionCounts(Work):
    """The number of records in each cell of target and prediction of a public model: (cells,).

    The cells are those of `count_bounds.scored`. A cell depends on one record and on public numbers only. All records
    take the same operations, whatever their values are; a margin that is not finite counts as 0.

    Parameters
    ----------
    W : weights, (K, d), a row for each output, the constant last
    bins : number of bins of the score or of the residual
    clip : residuals are clipped to [-clip, clip]
    """

    reads: ClassVar[Reads] = "numbers"

    W: Vector
    bins: int
    clip: float

    def sum(self, data: Data, rows: Slots) -> NDArray[Any]:
        """Return the counts in a piece."""
        size = count_bounds.scored(data.problem, self.bins)
        with np.errstate(all="ignore"):
            margins = np.nan_to_num(_margins(data, rows, self.W), nan=0.0)
            cells = self._cells(data.problem, margins, data.y[rows])
            return np.bincount(cells, data.present(rows).astype(np.float64), minlength=size)

    def _cells(self, problem: Problem, margins: Vector, y: Vector) -> NDArray[np.int64]:
        """Return the cell of each record."""
        if problem.outputs > 1:
            return np.asarray(y.astype(np.int64) * problem.outputs + margins.argmax(axis=1))
        if problem.loss.takes == "number":
            residuals = np.clip(margins[:, 0] - np.clip(y, -1, 1), -self.clip, self.clip)
            return _bin((residuals / self.clip + 1) / 2, self.bins)
        scores = 1 / (1 + np.exp(-np.clip(margins[:, 0], -_LARGEST_MARGIN, _LARGEST_MARGIN)))
        return np.asarray((y > 0) * self.bins + _bin(scores, self.bins))


def _bin(share: Vector, bins: int) -> NDArray[np.int64]:
    return np.clip(np.floor(share * bins), 0, bins - 1).astype(np.int64)


def _margins(data: Data, rows: Slots, W: Vector) -> Vector:
    """Return the margins, (rows, K), each computed from its own record."""
    if data.is_sparse:
        return np.column_stack([kernels.margins_of(data.records, w, listed(rows)) for w in W])
    numbers = numbers_of(data, rows, np.zeros(data.problem.d - 1))
    codes = codes_of(data, rows)
    number = iter(numbers.T)
    block = iter(codes.T)
    columns = columns_of(data)
    margins = np.tile(W[:, -1], (len(numbers), 1))
    for start, width in zip(columns.starts.tolist(), columns.widths, strict=True):
        margins += next(number)[:, None] * W[:, start] if width == 1 else W[:, start + next(block)].T
    return margins


def parts_of(data: Data, rows: Slots, bins: int) -> NDArray[np.int64]:
    """Return the part of its range that each number is in: (rows, p)."""
    numbers = numbers_of(data, rows, np.zeros(data.problem.d - 1))
    return _part(numbers, columns_of(data), bins, rounding=SINGLE_ROUNDING if data.records.is_single else 0.0)


def _part(
    numbers: Vector, columns: Columns, bins: int, which: Any = slice(None), rounding: float = 0.0
) -> NDArray[np.int64]:
    """Return the part of its range that each number is in, clamped to the first and the last part.

    Parameters
    ----------
    which : the column of each number; all columns in order by default
    rounding : relative rounding of the numbers. A number this little below the next part counts as in the next part
    """
    low, high = columns.low[which], columns.high[which]
    width = np.where(high > low, high - low, 1.0)
    slack = rounding * np.maximum(np.abs(low), np.abs(high))
    parts = np.floor((numbers - low + slack) / width * bins)
    return np.asarray(np.clip(parts, 0, bins - 1).astype(np.int64))


def codes_of(data: Data, rows: Slots) -> NDArray[np.int64]:
    """Return the category of each block: (rows, q)."""
    stored, categories = data.records.codes[rows], data.records.categories
    codes = np.zeros((len(stored), len(categories)), dtype=np.int64)
    for j, (first, size, _, _) in enumerate(categories.tolist()):
        codes[:, j] = stored[:, first : first + size].astype(np.int64) @ (256 ** np.arange(size))
    return codes
