"""Sums over records of declared columns, for `CountingOracle`."""

from collections.abc import Callable
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
from solvers.problem import Problem, Vector

SINGLE_ROUNDING = 2.0**-23  # largest relative error of a double that is stored as a single: one ulp
_LARGEST_MARGIN = 30.0  # beyond it a score is in the first or the last bin
Sum = Callable[[Slots], NDArray[Any]]


@dataclass(frozen=True, slots=True)
class Histograms(Work):
    """The number of rows in each of `bins` equal parts of each number's range: (p bins,)."""

    reads: ClassVar[Reads] = "numbers"

    bins: int

    def on(self, data: Data) -> Sum:
        """Return the counts in a piece."""
        first = self.bins * np.arange(columns_of(data).widths.count(1))

        def counted(rows: Slots) -> NDArray[Any]:
            parts = parts_of(data, rows, self.bins) + first
            weights = np.repeat(data.present(rows), len(first)).astype(np.float64)
            return np.bincount(parts.ravel(), weights, minlength=len(first) * self.bins)

        def of_entries(rows: Slots) -> NDArray[Any]:
            row, entry, values = entries_of(data.records, slice(*range_of(rows)))
            weights = data.present(rows).astype(np.float64)
            size = len(first) * self.bins
            zeros = _part(np.zeros(len(first)), columns_of(data), self.bins) + first
            parts = _part(values, columns_of(data), self.bins, entry) + first[entry]
            counts = np.zeros(size)  # doubles, because `bincount` returns integers if there are no entries
            counts[zeros] = weights.sum()  # whole numbers, so the order of addition does not matter
            at_entries = np.bincount(parts, weights[row], minlength=size)
            return counts + (at_entries - np.bincount(zeros[entry], weights[row], minlength=size))

        return of_entries if data.is_sparse else counted


@dataclass(frozen=True, slots=True)
class Cells(Work):
    """The number of rows in each cell: (cells,).

    A cell combines a part of each number's range and a category of each block. Neighboring entries differ in the last
    feature.
    """

    reads: ClassVar[Reads] = "matrix"

    bins: int

    def on(self, data: Data) -> Sum:
        """Return the counts in a piece."""
        widths = columns_of(data).widths
        sizes = [self.bins if width == 1 else width for width in widths]
        steps = np.cumprod([1, *sizes[:0:-1]])[::-1]
        is_number = np.array(widths) == 1

        def counted(rows: Slots) -> NDArray[Any]:
            numbers = parts_of(data, rows, self.bins)
            codes = codes_of(data, rows)
            cells = numbers @ steps[is_number] + codes @ steps[~is_number]
            return np.bincount(cells, data.present(rows).astype(np.float64), minlength=int(np.prod(sizes)))

        return counted


@dataclass(frozen=True, slots=True, eq=False)
class Products(Work):
    """The sum of y y', with y the numbers of x - m: the upper triangle by rows, off the diagonal times sqrt(2)."""

    reads: ClassVar[Reads] = "matrix"

    center: Vector

    def on(self, data: Data) -> Sum:
        """Return the sum over a piece."""
        p = columns_of(data).widths.count(1)
        upper = np.triu_indices(p)
        factors = np.where(np.equal(*upper), 1.0, np.sqrt(2.0))

        def added(rows: Slots) -> Vector:
            y = numbers_of(data, rows, self.center)
            return np.asarray((y.T @ y)[upper] * factors)

        return added


@dataclass(frozen=True, slots=True, eq=False)
class Scores(Work):
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

    def on(self, data: Data) -> Sum:
        """Return the counts in a piece."""
        size = count_bounds.scored(data.problem, self.bins)
        scored = _score(data.problem, self.bins, self.clip)

        def counted(rows: Slots) -> NDArray[Any]:
            with np.errstate(all="ignore"):
                margins = np.nan_to_num(_margins(data, rows, self.W), nan=0.0)
                return np.bincount(scored(margins, data.y[rows]), data.present(rows).astype(np.float64), minlength=size)

        return counted


def _score(problem: Problem, bins: int, clip: float) -> Callable[[Vector, Vector], NDArray[np.int64]]:
    """Return the function from margins and targets to cells."""
    if problem.outputs > 1:
        return lambda margins, y: y.astype(np.int64) * problem.outputs + margins.argmax(axis=1)
    if problem.loss.takes == "number":
        return lambda margins, y: _bin((np.clip(margins[:, 0] - np.clip(y, -1, 1), -clip, clip) / clip + 1) / 2, bins)
    return lambda margins, y: (
        (y > 0) * bins + _bin(1 / (1 + np.exp(-np.clip(margins[:, 0], -_LARGEST_MARGIN, _LARGEST_MARGIN))), bins)
    )


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
