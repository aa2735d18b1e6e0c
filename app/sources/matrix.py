"""A matrix of doubles on disk, row by row, in NumPy's own format; written in a stream, read through a memory map."""

import hashlib
import os
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

VALUES = "values.npy"
"""The matrix's name in a dataset's folder."""


class MatrixWriter:
    """Appends blocks of rows to a new `.npy` file; on leaving the `with` block they are on the disk.

    Parameters
    ----------
    path : the file, which must not exist
    columns : int, width of every block
    """

    def __init__(self, path: Path, columns: int) -> None:
        self._file = path.open("xb")
        self._columns = columns
        self.rows = 0
        self._start = self._header()

    def append(self, block: Floats) -> None:
        """Adds rows, shape (rows, columns)."""
        if block.dtype != np.float64 or block.ndim != 2 or block.shape[1] != self._columns:
            raise ValueError("a block is a matrix of doubles of the declared width")
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
        shape = {"descr": "<f8", "fortran_order": False, "shape": (self.rows, self._columns)}
        np.lib.format.write_array_header_1_0(self._file, shape)
        return self._file.tell()


def open_matrix(path: Path) -> Floats:
    """The rows of a file that `MatrixWriter` wrote, through a read-only memory map.

    Raises
    ------
    ValueError
        if it is no matrix of doubles.
    """
    matrix = np.load(path, mmap_mode="r", allow_pickle=False)
    if matrix.dtype != np.float64 or matrix.ndim != 2:
        raise ValueError("not a matrix of doubles")
    return matrix  # type: ignore[no-any-return]


def checksum(path: Path) -> str:
    """The SHA-256 of a file, its shape included."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sync_folder(folder: Path) -> None:
    """Makes the folder's list of names durable."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
