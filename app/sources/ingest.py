"""From a file of records to a folder of columns: numbers and codes, what is computed on; `meta.json`, what it means."""

import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from app.sources import csv, parquet
from app.sources.encoding import Named, encoder
from app.sources.errors import TooLarge, Unreadable
from app.sources.matrix import META, CodedWriter, Floats, code_count, sync_folder
from purse.wire.datasets import Column

if TYPE_CHECKING:
    from app.sources.persons import People

FORMAT = 2


def ingest(file: Path, columns: Sequence[Column], folder: Path, most_bytes: int, people: "People | None" = None) -> int:
    """Reads, encodes and stores the declared columns of every record; returns n, the number of records.

    Memory is bounded whatever the file's size. Record i of the file is row i of the matrix. On return the folder is
    durable; on an error it may hold a part, and its maker removes it.

    Parameters
    ----------
    file : CSV or Parquet, told apart by content; its name says nothing
    columns : the public declaration
    folder : a new folder
    most_bytes : the most that the matrix may take
    people : is told whose each row is; then the folder is no dataset's yet (`app.sources.persons`)

    Raises
    ------
    SourceError
        Unreadable, Mismatch or TooLarge; the text holds no value of the file.
    """
    most_rows = most_bytes // (8 * len(columns))
    folder.mkdir()
    with CodedWriter(folder, [code_count(column) for column in columns]) as matrix:
        for block in encoded(file, columns, most_rows, people):
            matrix.append(block)
    write_meta(folder, columns, {"rows": matrix.rows})
    sync_folder(folder)
    return matrix.rows


def encoded(file: Path, columns: Sequence[Column], most_rows: int, people: "People | None" = None) -> Iterator[Floats]:
    """The records, in the file's order, block by block: (rows, declared columns); one at least. Raises as `ingest`."""
    encoders, rows = [encoder(column) for column in columns], 0
    named: list[Named] = [*columns] if people is None else [*columns, people.unit]
    for batch in batches(file, named, most_rows):
        if people is not None:
            people.add(batch.pop())
        block: Floats = np.empty((len(batch[0]), len(columns)))
        for position, values in enumerate(batch):
            block[:, position] = encoders[position].encode(values)
        yield block
        rows += len(block)
        if rows > most_rows:
            raise TooLarge(f"With these columns at most {most_rows} rows are taken.")
    pa.default_memory_pool().release_unused()
    if rows == 0:
        raise Unreadable("The file has no records.")


def batches(file: Path, columns: Sequence[Named], most_rows: int) -> Iterator[list[pa.Array]]:
    """The values of these columns of all records, in order, block by block; raises as `ingest`."""
    with file.open("rb") as opened:
        magic = opened.read(len(parquet.MAGIC))
    if not magic:
        raise Unreadable("The file is empty.")
    return parquet.batches(file, columns, most_rows) if magic == parquet.MAGIC else csv.batches(file, columns)


def write_meta(folder: Path, columns: Sequence[Column], size: dict[str, int]) -> None:
    """What the folder holds, for whoever finds it."""
    document = {"format": FORMAT, **size, "columns": [column.model_dump() for column in columns]}
    with (folder / META).open("x", encoding="utf-8") as file:
        json.dump(document, file, allow_nan=False)
        file.flush()
        os.fsync(file.fileno())
