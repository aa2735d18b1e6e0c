"""From a file of records to a folder of columns: numbers and codes, what is computed on; `meta.json`, what it means."""

import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from app.sources import csv, parquet
from app.sources.encoding import encoder
from app.sources.errors import TooLarge, Unreadable
from app.sources.matrix import META, CodedWriter, Floats, code_count, sync_folder
from app.wire.datasets import Column

FORMAT = 2


def ingest(file: Path, columns: Sequence[Column], folder: Path, most_bytes: int) -> int:
    """Reads, encodes and stores the declared columns of every record; returns n, the number of records.

    Memory is bounded whatever the file's size. Record i of the file is row i of the matrix. On return the folder is
    durable; on an error it may hold a part, and its maker removes it.

    Parameters
    ----------
    file : CSV or Parquet, told apart by content; its name says nothing
    columns : the public declaration
    folder : a new folder
    most_bytes : the most that the matrix may take

    Raises
    ------
    SourceError
        Unreadable, Mismatch or TooLarge; the text holds no value of the file.
    """
    encoders = [encoder(column) for column in columns]
    most_rows = most_bytes // (8 * len(columns))
    folder.mkdir()
    with CodedWriter(folder, [code_count(column) for column in columns]) as matrix:
        for batch in _batches(file, columns, most_rows):
            block: Floats = np.empty((len(batch[0]), len(columns)))
            for position, values in enumerate(batch):
                block[:, position] = encoders[position].encode(values)
            matrix.append(block)
            if matrix.rows > most_rows:
                raise TooLarge(f"With these columns at most {most_rows} rows are taken.")
    pa.default_memory_pool().release_unused()
    if matrix.rows == 0:
        raise Unreadable("The file has no records.")
    _write_meta(folder / META, columns, matrix.rows)
    sync_folder(folder)
    return matrix.rows


def _batches(file: Path, columns: Sequence[Column], most_rows: int) -> Iterator[list[pa.Array]]:
    with file.open("rb") as opened:
        magic = opened.read(len(parquet.MAGIC))
    if not magic:
        raise Unreadable("The file is empty.")
    return parquet.batches(file, columns, most_rows) if magic == parquet.MAGIC else csv.batches(file, columns)


def _write_meta(path: Path, columns: Sequence[Column], rows: int) -> None:
    document = {"format": FORMAT, "rows": rows, "columns": [column.model_dump() for column in columns]}
    with path.open("x", encoding="utf-8") as file:
        json.dump(document, file, allow_nan=False)
        file.flush()
        os.fsync(file.fileno())
