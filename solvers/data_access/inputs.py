"""Records from the arguments of `solve`: arrays, SciPy's sparse rows, and tables.

No row is unfolded. Sparse rows are stored as entries, declared ones as entries of numbers and a code for each category,
so memory is proportional to entries and codes. Each record is mapped by itself. An input is refused for its type or its
shape, never for a value. `containers` reads each value; a value that is not a number becomes NaN and breaks only its
own row.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from solvers.columns import Columns
from solvers.data_access import containers
from solvers.data_access.data import Data
from solvers.data_access.rows import Coded, Stored, code_bytes, slices
from solvers.data_access.sparse import Sparse
from solvers.errors import Unsuitable
from solvers.problem import Problem, Vector

_ACCEPTED = "X must be an array of numbers, a SciPy sparse matrix, or a pandas, Polars or Arrow table"


def records(X: Any, problem: Problem) -> Stored:
    """Return the rows of X in stored form.

    Parameters
    ----------
    X : one of these:
        - (n, d) numbers, coded in the layout of declared columns if there are any
        - sparse rows of that shape, of which only entries are stored
        - a table or a mapping from names to arrays with a column for each feature: numbers in [-1, 1], and categories
          as integers 0, 1, ..., their positions in a public list. Codes that were learned from the data are not public,
          because one record could change the codes of all others

    Raises
    ------
    Unsuitable
        if X has another type or shape
    """
    if hasattr(X, "tocsr"):
        sparse = _sparse(X, problem)
        return sparse if problem.columns is None else _folded(sparse, problem.n, problem.columns)
    names = containers.column_names(X)
    if names is not None:
        return _table(X, names, problem)
    try:
        matrix = containers.array(X)
    except ValueError:  # rows of different lengths
        raise Unsuitable(_ACCEPTED) from None
    if not matrix.ndim:
        raise Unsuitable(_ACCEPTED)
    if matrix.shape != (problem.n, problem.d):
        raise Unsuitable("X must be of shape (n, d), with the problem's n and d")
    rows = _numbers(matrix, _ACCEPTED)
    return plain(rows) if problem.columns is None else folded(rows, problem.columns)


def targets(y: Any, problem: Problem) -> Vector:
    """Return y as (n,) numbers; raise `Unsuitable` if y is not a column of n numbers."""
    length = "y must be of shape (n,), with the problem's n"
    return _column(y, problem.n, "y must be an array or a column of numbers", length)


def entered(X: Any) -> Any:
    """Return a sparse matrix with all its entries: matrices of coordinates as sparse rows, others unchanged.

    In this conversion SciPy would add entries with equal coordinates, in an order that other rows can change.

    Raises
    ------
    Unsuitable
        if rows are in blocks, because an entry of one row puts zeros into the other rows of its block
    """
    if X.format == "bsr":
        raise Unsuitable("X is sparse in blocks of several rows, so one row could change others. Pass X.tocsr()")
    if X.format != "coo":
        return X
    X = type(X)((X.data, X.coords), shape=X.shape)
    X.has_canonical_format = True  # so nothing is added up
    return X.tocsr()


def of_arrays(X: NDArray[np.float64], y: Vector, problem: Problem, present: NDArray[np.bool_] | None = None) -> Data:
    """Return the data of a problem from unfolded rows.

    Parameters
    ----------
    X : (n k, d) float64; it is copied, or coded if columns are declared
    y : (n k,) float64
    present : whether each slot holds a row, (n k,), if the unit is a person; otherwise None

    Raises
    ------
    Unsuitable
        if a shape or a type is wrong
    """
    if X.shape != (problem.slots, problem.d) or y.shape != (problem.slots,):
        raise Unsuitable("X must be of shape (n, d) and y of shape (n,), with the problem's n and d")
    if X.dtype != np.float64 or y.dtype != np.float64:
        raise Unsuitable("X and y must be float64")
    return Data.coded(plain(X) if problem.columns is None else folded(X, problem.columns), y, problem, present)


def plain(X: NDArray[np.float64]) -> Coded:
    """Return stored rows of numbers."""
    return Coded(X, np.empty((len(X), 0), dtype=np.uint8), tuple(range(X.shape[1])))


def folded(X: NDArray[np.float64], columns: Columns) -> Coded:
    """Return unfolded rows in coded form; a row with another layout becomes the empty row."""
    numbers = np.flatnonzero(columns.is_number)
    blocks = [(start, w) for start, w in zip(columns.starts.tolist(), columns.widths, strict=True) if w > 1]
    stored = np.zeros((len(X), len(numbers)))
    codes = np.zeros((len(X), len(blocks)), dtype=np.int64)
    is_valid = X[:, -1] == 1
    for rows in slices(len(X), columns.d):
        x = X[rows]
        is_valid[rows] &= (np.abs(x[:, numbers]) <= 1).all(axis=1)
        stored[rows] = x[:, numbers]
        for j, (start, width) in enumerate(blocks):
            block = x[:, start : start + width]
            is_valid[rows] &= ((block == 0) | (block == 1)).all(axis=1) & (block.sum(axis=1) == 1)
            codes[rows, j] = block.argmax(axis=1)
    return _packed(stored, codes, is_valid, columns)


def _column(values: Any, n: int, wrong_type: str, wrong_length: str) -> Vector:
    """Return one column as (n,) doubles; raise `Unsuitable` with one of the messages for a wrong type or length."""
    if containers.column_names(values) is not None:
        raise Unsuitable(wrong_length)
    column = containers.column(values)
    if (column.shape if isinstance(column, np.ndarray) else (len(column),)) != (n,):
        raise Unsuitable(wrong_length)
    return _numbers(column, wrong_type)


def _numbers(values: Any, wrong_type: str) -> Vector:
    """Return the values as doubles; raise `Unsuitable` with the message if their type cannot hold numbers."""
    if not containers.may_hold_numbers(values):
        raise Unsuitable(f"{wrong_type}; its type is {getattr(values, 'dtype', None) or values.type}")
    return containers.numbers(values)


def _sparse(X: Any, problem: Problem) -> Sparse:
    """Return SciPy's sparse rows in stored form; entries with equal coordinates are added."""
    rows = entered(X).tocsr()
    if rows.shape != (problem.n, problem.d):
        raise Unsuitable("X must be of shape (n, d), with the problem's n and d")
    # A new matrix with the same arrays, because the flags of X about its form may be outdated.
    rows = type(rows)((rows.data, rows.indices, rows.indptr), shape=rows.shape)
    values = _numbers(rows.data, _ACCEPTED)
    if (rows.indptr[1:] < rows.indptr[:-1]).any():  # SciPy would write outside its arrays
        raise Unsuitable("X.indptr must not decrease")
    if not rows.has_canonical_format:  # a norm must count each coordinate once
        rows = rows.copy()
        # SciPy sorts all rows if one is out of order, which would reorder equal coordinates of others: always sort.
        rows.has_sorted_indices = False
        rows.sum_duplicates()
        values = _numbers(rows.data, _ACCEPTED)
    ends = rows.indptr.astype(np.int64)
    coordinates = rows.indices.astype(np.int64)
    no_codes = np.empty((problem.n, 0), np.uint8)
    sparse = Sparse(ends, coordinates, values, no_codes, tuple(range(problem.d)))
    sparse.check(problem.n, problem.d)
    return sparse


def _folded(rows: Sparse, n: int, columns: Columns) -> Sparse:
    """Return sparse rows of declared columns in coded form; a row with another layout becomes the empty row."""
    row, is_nonzero = np.repeat(np.arange(n), np.diff(rows.ends)), rows.values != 0  # NaN counts as nonzero
    row, at, values = row[is_nonzero], rows.coordinates[is_nonzero], rows.values[is_nonzero]
    feature, starts = np.searchsorted(columns.starts, at, side="right") - 1, columns.starts
    widths = np.array(columns.widths, dtype=np.int64)
    is_constant = at == columns.d - 1
    is_number = ~is_constant & (np.append(widths, 0)[feature] == 1)
    is_block = ~is_constant & ~is_number
    constants = np.zeros(n)
    constants[row[is_constant]] = values[is_constant]
    is_valid = constants == 1
    is_valid[row[(is_number & ~(np.abs(values) <= 1)) | (is_block & (values != 1))]] = False
    block_of = np.cumsum(widths > 1) - 1  # index of each feature among the blocks
    count = int((widths > 1).sum())
    entries = np.bincount(row[is_block] * max(count, 1) + block_of[feature[is_block]], minlength=n * count)
    is_valid &= (entries.reshape(n, count) == 1).all(axis=1)
    codes = np.zeros((n, count), dtype=np.int64)
    codes[row[is_block], block_of[feature[is_block]]] = at[is_block] - starts[feature[is_block]]
    codes[~is_valid] = 0
    is_number &= is_valid[row]
    ends = np.concatenate(([0], np.cumsum(np.bincount(row[is_number], minlength=n))))
    coordinates = (np.cumsum(widths == 1) - 1)[feature[is_number]]
    return Sparse(ends, coordinates, values[is_number], _bytes(codes, columns), offsets(columns))


def _table(X: Any, names: list[Any], problem: Problem) -> Coded:
    """Return the rows of a table in coded form; a row with an unknown category becomes the empty row."""
    columns = problem.columns
    widths = (1,) * problem.d if columns is None else columns.widths
    if len(names) != len(widths) or len(set(names)) < len(names):
        raise Unsuitable("a table must have one column for each feature of the problem, with different names")
    parts = []
    for index, (name, width) in enumerate(zip(names, widths, strict=True)):
        content = "numbers" if width == 1 else "integers, the categories' positions in a public list"
        wrong_type = f"column {index} of the table must hold {content}"
        parts.append(_column(X[name], problem.n, wrong_type, "a table must have a row for each of the problem's n"))
    if columns is None:
        return plain(np.column_stack(parts))
    is_valid, codes = np.ones(problem.n, dtype=np.bool_), []
    for part, width in zip(parts, widths, strict=True):
        if width > 1:
            is_code = (part >= 0) & (part < width) & (part == np.floor(part))
            is_valid &= is_code
            codes.append(np.where(is_code, part, 0).astype(np.int64))
    numbers = [
        np.empty((problem.n, 0)),
        *(part[:, None] for part, width in zip(parts, widths, strict=True) if width == 1),
    ]
    return _packed(np.hstack(numbers), np.column_stack(codes) if codes else np.empty((problem.n, 0)), is_valid, columns)


def _packed(numbers: Vector, codes: NDArray[Any], is_valid: NDArray[np.bool_], columns: Columns) -> Coded:
    """Return records with codes in bytes; invalid rows become empty, and the work does not depend on which ones."""
    numbers = np.where(is_valid[:, None], numbers, 0.0)
    codes = np.where(is_valid[:, None], codes, 0)
    return Coded(numbers, _bytes(codes, columns), offsets(columns))


def _bytes(codes: NDArray[Any], columns: Columns) -> NDArray[np.uint8]:
    """Return the bytes of all codes side by side, in the declared order."""
    sizes = [code_bytes(width) for width in columns.widths if width > 1]
    parts = [in_bytes(codes[:, j].astype(np.int64), size) for j, size in enumerate(sizes)]
    return np.hstack([np.empty((len(codes), 0), np.uint8), *parts])


def in_bytes(codes: NDArray[np.int64], size: int) -> NDArray[np.uint8]:
    """Return codes as (n, size) bytes, the lowest byte first."""
    return codes.astype("<i8").view(np.uint8).reshape(len(codes), 8)[:, :size]


def offsets(columns: Columns) -> tuple[int, ...]:
    """Return the offset of each feature, if numbers and codes are stored in the declared order."""
    number, byte, result = 0, 0, []
    for width in columns.widths:
        if width == 1:
            result.append(number)
            number += 1
        else:
            result.append(byte)
            byte += code_bytes(width)
    return tuple(result)
