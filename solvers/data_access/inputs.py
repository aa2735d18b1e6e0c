"""Records made of what a caller of `solve` hands in: arrays, SciPy's sparse rows, frames of columns.

No row is unfolded: of sparse rows entries are kept, of declared ones the numbers' entries and a code for each category,
in memory proportional to entries and codes. Every record passes one map, alone. An input is refused for its type or its
shape, never for a value. `containers` reads each value; one that is not a number is NaN, and breaks its own row alone.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from solvers.columns import Columns
from solvers.data_access import containers
from solvers.data_access.data import Data
from solvers.data_access.rows import Coded, Stored, code_bytes, cut
from solvers.data_access.sparse import Sparse, SparseCoded
from solvers.errors import Unsuitable
from solvers.problem import Problem, Vector

_TAKEN = "X must be an array of numbers, a SciPy sparse matrix, or a pandas, Polars or Arrow table"


def records(X: Any, problem: Problem) -> Stored:
    """The rows of X.

    Parameters
    ----------
    X : (n, d) numbers, of declared columns as their layout has them, coded; sparse rows of that shape, of which only
        entries are kept; or, where columns are declared, a table, or a mapping from names to arrays, with a column for
        each feature: numbers in [-1, 1], categories as integers 0, 1, .., their positions in a list that is public (not
        codes that were learned from the data, which one record could change for all)

    Raises
    ------
    Unsuitable
        if it is none of these, or not of the problem's shape.
    """
    if hasattr(X, "tocsr"):
        sparse = _sparse(X, problem)
        return sparse if problem.columns is None else _folded(sparse, problem.n, problem.columns)
    names = containers.column_names(X)
    if names is not None:
        return _table(X, names, problem)
    try:
        found = containers.array(X)
    except ValueError:  # rows of different lengths
        raise Unsuitable(_TAKEN) from None
    if not found.ndim:
        raise Unsuitable(_TAKEN)
    if found.shape != (problem.n, problem.d):
        raise Unsuitable("X must be of shape (n, d), with the problem's n and d")
    rows = _numbers(found, _TAKEN)
    return plain(rows) if problem.columns is None else folded(rows, problem.columns)


def targets(y: Any, problem: Problem) -> Vector:
    """Return (n,) numbers; `Unsuitable` if y is not a column of n numbers."""
    length = "y must be of shape (n,), with the problem's n"
    return _column(y, problem.n, "y must be an array or a column of numbers", length)


def entered(X: Any) -> Any:
    """SciPy's sparse matrix, with all the entries that were handed in: one of coordinates as rows, any other as it is.

    SciPy itself adds up on that way what has one coordinate, in an order that the entries of other rows can change.

    Raises
    ------
    Unsuitable
        if rows are in blocks: an entry of one puts zeros into the others of its block.
    """
    if X.format == "bsr":
        raise Unsuitable("blocks hold several rows together: hand in sparse rows, X.tocsr()")
    if X.format != "coo":
        return X
    X = type(X)((X.data, X.coords), shape=X.shape)
    X.has_canonical_format = True  # so nothing is added up
    return X.tocsr()


def of_arrays(X: NDArray[np.float64], y: Vector, problem: Problem, present: NDArray[np.bool_] | None = None) -> Data:
    """The data of a problem, from unfolded rows.

    Parameters
    ----------
    X : (n k, d) float64; it is copied, or codes are kept where columns are declared
    y : (n k,) float64
    present : (n k,), which places of persons hold a row; for them alone

    Raises
    ------
    Unsuitable
        if shapes or types are not the problem's.
    """
    if X.shape != (problem.slots, problem.d) or y.shape != (problem.slots,):
        raise Unsuitable("X must be of shape (n, d) and y of shape (n,), with the problem's n and d")
    if X.dtype != np.float64 or y.dtype != np.float64:
        raise Unsuitable("X and y must be float64")
    return Data.coded(plain(X) if problem.columns is None else folded(X, problem.columns), y, problem, present)


def plain(X: NDArray[np.float64]) -> Coded:
    """Rows of numbers."""
    return Coded(X, np.empty((len(X), 0), dtype=np.uint8), tuple(range(X.shape[1])))


def folded(X: NDArray[np.float64], columns: Columns) -> Coded:
    """Unfolded rows, each as it is declared or, where it is not, the empty one."""
    numbers = np.flatnonzero(columns.is_number)
    blocks = [(start, w) for start, w in zip(columns.starts.tolist(), columns.widths, strict=True) if w > 1]
    kept, codes = np.zeros((len(X), len(numbers))), np.zeros((len(X), len(blocks)), dtype=np.int64)
    held = X[:, -1] == 1
    for rows in cut(len(X), columns.d):
        x = X[rows]
        held[rows] &= (np.abs(x[:, numbers]) <= 1).all(axis=1)
        kept[rows] = x[:, numbers]
        for j, (start, width) in enumerate(blocks):
            block = x[:, start : start + width]
            held[rows] &= ((block == 0) | (block == 1)).all(axis=1) & (block.sum(axis=1) == 1)
            codes[rows, j] = block.argmax(axis=1)
    return _packed(kept, codes, held, columns)


def _column(values: Any, n: int, otherwise: str, length: str) -> Vector:
    """Return one column as (n,) doubles; `Unsuitable`, with these words, if its type or its length is another."""
    if containers.column_names(values) is not None:
        raise Unsuitable(length)
    found = containers.column(values)
    if (found.shape if isinstance(found, np.ndarray) else (len(found),)) != (n,):
        raise Unsuitable(length)
    return _numbers(found, otherwise)


def _numbers(values: Any, otherwise: str) -> Vector:
    """Return doubles; `Unsuitable`, with these words, if the type of the values is not one of numbers."""
    if not containers.may_hold_numbers(values):
        raise Unsuitable(f"{otherwise}; its type is {getattr(values, 'dtype', None) or values.type}")
    return containers.numbers(values)


def _sparse(X: Any, problem: Problem) -> Sparse:
    rows = entered(X).tocsr()
    if rows.shape != (problem.n, problem.d):
        raise Unsuitable("X must be of shape (n, d), with the problem's n and d")
    # Made anew, arrays shared: what X remembers of its own form may be no longer so, and a norm counts an entry once.
    rows = type(rows)((rows.data, rows.indices, rows.indptr), shape=rows.shape)
    values = _numbers(rows.data, _TAKEN)
    if (rows.indptr[1:] < rows.indptr[:-1]).any():  # SciPy would write outside
        raise Unsuitable("sparse rows must begin one after the other")
    if not rows.has_canonical_format:  # entries of one coordinate are one
        rows = rows.copy()
        # SciPy sorts all rows or none, by whether one is out of order, and equal coordinates change places: sort each.
        rows.has_sorted_indices = False
        rows.sum_duplicates()
        values = _numbers(rows.data, _TAKEN)
    found = Sparse(rows.indptr.astype(np.int64), rows.indices.astype(np.int64), values)
    found.check(problem.n, problem.d)
    return found


def _folded(rows: Sparse, n: int, columns: Columns) -> SparseCoded:
    """Entries of the declared layout as entries of numbers and codes; a record of another one is empty."""
    row, there = np.repeat(np.arange(n), np.diff(rows.ends)), rows.values != 0  # a NaN is there
    row, at, values = row[there], rows.coordinates[there], rows.values[there]
    feature, starts = np.searchsorted(columns.starts, at, side="right") - 1, columns.starts
    widths = np.array(columns.widths, dtype=np.int64)
    constant = at == columns.d - 1
    number = ~constant & (np.append(widths, 0)[feature] == 1)
    block = ~constant & ~number
    last = np.zeros(n)
    last[row[constant]] = values[constant]
    held = last == 1
    held[row[(number & ~(np.abs(values) <= 1)) | (block & (values != 1))]] = False
    wide = np.cumsum(widths > 1) - 1  # of each feature the number among blocks
    count = int((widths > 1).sum())
    ones = np.bincount(row[block] * max(count, 1) + wide[feature[block]], minlength=n * count)
    held &= (ones.reshape(n, count) == 1).all(axis=1)
    codes = np.zeros((n, count), dtype=np.int64)
    codes[row[block], wide[feature[block]]] = at[block] - starts[feature[block]]
    codes[~held] = 0
    number &= held[row]
    ends = np.concatenate(([0], np.cumsum(np.bincount(row[number], minlength=n))))
    numbers = Sparse(ends, (np.cumsum(widths == 1) - 1)[feature[number]], values[number])
    return SparseCoded(numbers, _bytes(codes, columns), offsets(columns))


def _table(X: Any, names: list[Any], problem: Problem) -> Coded:
    columns = problem.columns
    widths = (1,) * problem.d if columns is None else columns.widths
    if len(names) != len(widths) or len(set(names)) < len(names):
        raise Unsuitable("a table must have a column, of a name of its own, for each feature of the problem")
    parts = []
    for place, (name, width) in enumerate(zip(names, widths, strict=True)):
        what = "numbers" if width == 1 else "integers, the categories' positions in a public list"
        otherwise = f"column {place} of the table must hold {what}"
        parts.append(_column(X[name], problem.n, otherwise, "a table must have a row for each of the problem's n"))
    if columns is None:
        return plain(np.column_stack(parts))
    held, codes = np.ones(problem.n, dtype=np.bool_), []
    for part, width in zip(parts, widths, strict=True):
        if width > 1:
            known = (part >= 0) & (part < width) & (part == np.floor(part))
            held &= known
            codes.append(np.where(known, part, 0).astype(np.int64))
    numbers = [
        np.empty((problem.n, 0)),
        *(part[:, None] for part, width in zip(parts, widths, strict=True) if width == 1),
    ]
    return _packed(np.hstack(numbers), np.column_stack(codes) if codes else np.empty((problem.n, 0)), held, columns)


def _packed(numbers: Vector, codes: NDArray[Any], held: NDArray[np.bool_], columns: Columns) -> Coded:
    """Return records with codes in bytes, empty ones where `held` is false; the work does not depend on `held`."""
    numbers, codes = np.where(held[:, None], numbers, 0.0), np.where(held[:, None], codes, 0)
    return Coded(numbers, _bytes(codes, columns), offsets(columns))


def _bytes(codes: NDArray[Any], columns: Columns) -> NDArray[np.uint8]:
    """Side by side, in the order declared."""
    sizes = [code_bytes(width) for width in columns.widths if width > 1]
    parts = [in_bytes(codes[:, j].astype(np.int64), size) for j, size in enumerate(sizes)]
    return np.hstack([np.empty((len(codes), 0), np.uint8), *parts])


def in_bytes(codes: NDArray[np.int64], size: int) -> NDArray[np.uint8]:
    """(n, size), the lowest byte first."""
    return codes.astype("<i8").view(np.uint8).reshape(len(codes), 8)[:, :size]


def offsets(columns: Columns) -> tuple[int, ...]:
    """Numbers and codes side by side, in the order declared."""
    number, byte, found = 0, 0, []
    for width in columns.widths:
        found.append(number if width == 1 else byte)
        number, byte = (number + 1, byte) if width == 1 else (number, byte + code_bytes(width))
    return tuple(found)
