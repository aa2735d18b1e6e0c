"""The stored records of a dataset: a matrix of numbers and one of codes, row by row, in NumPy's own format.

They are written in a stream and read through memory maps. Numbers are singles (`app.sources.singles`); they are doubles
only until the whole file has been read. A category's code takes as few bytes as hold all codes of its column.
"""

import hashlib
import io
import json
import os
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Self

import numpy as np
from numpy.typing import NDArray

from app.sources.singles import Singles, single
from purse.wire.columns import Column
from solvers.columns import Columns
from solvers.data_access.inputs import in_bytes, offsets
from solvers.data_access.rows import Coded, code_bytes

Floats = NDArray[np.float64]

FORMAT = 3  # of the stored records
META, NUMBERS, CODES, PRESENT = "meta.json", "numbers.npy", "codes.npy", "present.npy"
PARTITIONS = "partitions.json"
"""The file of a dataset whose records are stored elsewhere, see `app.sources.partitions`."""

_BLOCK_VALUES = 2**20  # converted at a time


class MatrixWriter:
    """Appends blocks of rows to a new `.npy` file, which is durable after the `with` block.

    Parameters
    ----------
    path : the file, which must not exist
    columns : int, width of every block
    kind : type of the numbers
    """

    def __init__(self, path: Path, columns: int, kind: str) -> None:
        self._file = path.open("xb")
        self._columns, self._kind = columns, np.dtype(kind)
        self.rows = 0
        self._start = self._header()

    def append(self, block: NDArray[Any]) -> None:
        """Append rows, shape (rows, columns)."""
        if block.dtype != self._kind or block.ndim != 2 or block.shape[1] != self._columns:
            raise ValueError("a block is a matrix of the declared type and width")
        self._file.write(np.ascontiguousarray(block).data)
        self.rows += block.shape[0]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, _error: object, _trace: TracebackType | None) -> None:
        with self._file:
            if kind is None:
                self._file.seek(0)
                # NumPy pads the header so that the first axis may grow in place.
                if self._header() != self._start:
                    raise ValueError("the header did not keep its length")
                self._file.flush()
                os.fsync(self._file.fileno())

    def _header(self) -> int:
        _write_header(self._file, self._kind.str, self.rows, self._columns)
        return self._file.tell()


class CodedWriter:
    """Appends blocks of encoded records to a folder, which is durable after the `with` block.

    Parameters
    ----------
    folder : without these files
    widths : for each declared column 1 if it is a number, else the number of its codes
    within : ranges of numbers, which become singles; None to store doubles
    """

    def __init__(self, folder: Path, widths: Sequence[int], within: Singles | None = None) -> None:
        self._blocks = [(j, code_bytes(width)) for j, width in enumerate(widths) if width > 1]
        self._at = [j for j, width in enumerate(widths) if width == 1]
        self._within = within
        self._numbers = MatrixWriter(folder / NUMBERS, len(self._at), "<f8" if within is None else "<f4")
        self._codes = MatrixWriter(folder / CODES, sum(size for _, size in self._blocks), "|u1")

    @property
    def rows(self) -> int:
        """The number of appended records."""
        return self._numbers.rows

    def append(self, block: Floats) -> None:
        """Append records, shape (rows, declared columns): numbers, and positions of categories."""
        numbers = block[:, self._at]
        self._numbers.append(numbers if self._within is None else single(numbers, self._within))
        parts = [in_bytes(block[:, j].astype(np.int64), size) for j, size in self._blocks]
        self._codes.append(np.hstack([np.empty((len(block), 0), np.uint8), *parts]))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        self._numbers.__exit__(kind, error, trace)
        self._codes.__exit__(kind, error, trace)


def write_meta(folder: Path, columns: Sequence[Column], size: dict[str, int]) -> None:
    """Write the document that describes the records of a folder, durably."""
    document = {"format": FORMAT, **size, "columns": [column.model_dump() for column in columns]}
    write_durably(folder / META, json.dumps(document, allow_nan=False).encode())


def write_durably(path: Path, content: bytes) -> None:
    """Write a new file; its content is on the disk when this returns."""
    with path.open("xb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def widths(folder: Path) -> tuple[int, ...]:
    """Return for each stored column 1 if it is a number, else the number of its codes with "other"."""
    columns = json.loads((folder / META).read_text(encoding="utf-8"))["columns"]
    return tuple(1 if column["type"] == "number" else len(column["categories"]) + 1 for column in columns)


def open_coded(folder: Path) -> Coded:
    """Return the stored records through read-only memory maps; `offsets` names every declared column.

    Raises
    ------
    ValueError
        if they are not what the declaration says.
    """
    return mapped(folder, widths(folder))


def mapped(folder: Path, declared: Sequence[int]) -> Coded:
    """Return records that a `CodedWriter` of these widths wrote, through memory maps, which outlive the files' names.

    Raises
    ------
    ValueError
        if they do not have these widths.
    """
    numbers = sum(width == 1 for width in declared)
    size = sum(code_bytes(width) for width in declared if width > 1)
    coded = Coded(
        _opened(folder / NUMBERS, numbers, np.float64, np.float32),
        _opened(folder / CODES, size, np.uint8),
        offsets(Columns(tuple(declared))),
    )
    if len(coded.numbers) != len(coded.codes):
        raise ValueError("the two matrices have different numbers of rows")
    return coded


def filled_slots(folder: Path) -> NDArray[np.bool_] | None:
    """Return whether each slot of a person holds a row; None if records are rows."""
    path = folder / PRESENT
    return _opened(path, 1, np.uint8)[:, 0] > 0 if path.exists() else None


def checksum(folder: Path) -> str:
    """Return the SHA-256 of the files that hold the records and their layout, one after the other.

    For partitions it is the SHA-256 of the file that states where they are and the SHA-256 of each.
    """
    names = [PARTITIONS] if (folder / PARTITIONS).exists() else [META, NUMBERS, CODES]
    if (folder / PRESENT).exists():
        names.append(PRESENT)
    digest = hashlib.sha256()
    for name in names:
        with (folder / name).open("rb") as file:
            while piece := file.read(2**20):
                digest.update(piece)
    return digest.hexdigest()


def fingerprint(folder: Path) -> str:
    """Return the `Fingerprint` of records whose numbers are still doubles."""
    declared = widths(folder)
    stored = mapped(folder, declared).numbers
    digest = Fingerprint(len(stored), len(declared))
    for rows in cut(len(stored), len(declared)):
        digest.add(decoded(mapped(folder, declared), declared, rows))  # a new map each time frees the pages of the last
    return digest.hexdigest()


class Fingerprint:
    """The SHA-256 of the records as one matrix of doubles: the same records have the same one, whatever their file.

    Parameters
    ----------
    rows, columns : the shape of the whole matrix
    """

    def __init__(self, rows: int, columns: int) -> None:
        header = io.BytesIO()
        _write_header(header, "<f8", rows, columns)
        self._digest = hashlib.sha256(header.getvalue())

    def add(self, block: Floats) -> None:
        """Add more rows, with a column for each declared one."""
        self._digest.update(np.ascontiguousarray(block).data)

    def hexdigest(self) -> str:
        """Return the digest, after the last row."""
        return self._digest.hexdigest()


def decoded(coded: Coded, declared: Sequence[int], rows: slice = slice(None)) -> Floats:
    """Return some records as doubles, with a column for each declared one."""
    block = np.empty((len(coded.numbers[rows]), len(declared)))
    for j, (offset, width) in enumerate(zip(coded.offsets, declared, strict=True)):
        block[:, j] = stored_column(coded, offset, width, rows)
    return block


def stored_column(coded: Coded, position: int, width: int, rows: slice = slice(None)) -> Floats:
    """Return the numbers or codes of one column of some records as doubles.

    Parameters
    ----------
    position : index of the column, or of its first byte
    width : 1 if it is a number, else the number of its codes
    """
    if width == 1:
        return coded.numbers[rows, position].astype(np.float64)
    values = np.zeros(len(coded.codes[rows]), dtype=np.int64)
    for j in range(code_bytes(width)):
        values += coded.codes[rows, position + j].astype(np.int64) << (8 * j)
    return values.astype(np.float64)


def on_disk(blocks: Iterable[Floats], scratch: Path) -> Floats:
    """Return the numbers of all blocks in a mapped file that has no name."""
    count = 0
    with tempfile.TemporaryFile(dir=scratch) as file:
        for block in blocks:
            file.write(np.ascontiguousarray(block).data)  # `tofile` does not report that the disk is full
            count += len(block)
        file.flush()
        return np.require(np.memmap(file, np.float64, "r", shape=(count,)), requirements=["C", "A", "E"])


def sync(path: Path) -> None:
    """Make a file's content, or a folder's list of names, durable."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def cut(rows: int, columns: int) -> Iterator[slice]:
    """Return slices of so many rows, of about _BLOCK_VALUES values each."""
    step = max(1, _BLOCK_VALUES // max(1, columns))
    return (slice(start, start + step) for start in range(0, rows, step))


def _write_header(file: BinaryIO, kind: str, rows: int, columns: int) -> None:
    np.lib.format.write_array_header_1_0(file, {"descr": kind, "fortran_order": False, "shape": (rows, columns)})


def _opened(path: Path, columns: int, *kinds: type) -> NDArray[Any]:
    """Return a matrix that `MatrixWriter` wrote with one of these types, through a read-only memory map."""
    matrix: NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    if matrix.dtype not in kinds or matrix.ndim != 2 or matrix.shape[1] != columns:
        raise ValueError("the stored matrix is not of the declared width")
    return matrix
