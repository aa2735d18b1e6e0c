"""From a file of records to a folder of columns: numbers and codes, what is computed on; `meta.json`, what it means."""

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from app.sources import csv, parquet
from app.sources.batch import Batch, Named
from app.sources.encoding import Fates, encoder
from app.sources.errors import TooLarge, Unreadable
from app.sources.matrix import META, CodedWriter, Floats, code_count, fingerprint, narrow, sync_folder
from app.sources.singles import ends
from app.sources.tally import Tally
from purse.wire.columns import Column
from purse.wire.datasets import DatasetSpec
from purse.wire.files import PLAIN, Dialect

if TYPE_CHECKING:
    from app.sources.persons import People

FORMAT = 3
_ZIP = b"PK\x03\x04"


@dataclass(frozen=True, slots=True)
class Reading:
    """How a file is read: by what declaration, how far, and who is told what became of its values.

    Parameters
    ----------
    columns : the public declaration
    dialect : how the file is written
    most_rows : the most records that are taken
    most_bytes : the most that a packed file may unfold to
    tally : counts what became of each value, for the file's sender alone
    """

    columns: Sequence[Column]
    dialect: Dialect = PLAIN
    most_rows: int = 2**62
    most_bytes: int = 2**62
    tally: Tally | None = None

    @staticmethod
    def of(spec: DatasetSpec, most_bytes: int = 2**62) -> "tuple[Reading, Tally]":
        """As declared, of a file of at most so many bytes, unpacked; and what counts.

        What is stored takes at most what a CSV file of that size could unfold to: four bytes for each of its own, and
        eight more while it is made.
        """
        tally = Tally(spec)
        return Reading(spec.columns, spec.dialect, most_bytes // len(spec.columns), most_bytes, tally), tally


def ingest(file: Path, reading: Reading, folder: Path) -> tuple[int, str]:
    """Reads, encodes and stores the declared columns of every record; returns n, the number of records, and by what
    they are known again.

    Memory is bounded whatever the file's size. Record i of the file is row i of the matrix. On return the folder is
    durable; on an error it may hold a part, and its maker removes it.

    Parameters
    ----------
    file : CSV, perhaps packed, or Parquet, told apart by content; its name says nothing
    folder : a new folder

    Raises
    ------
    SourceError
        Unreadable, Mismatch or TooLarge, whose text holds no value of the file; Unparsed.
    """
    n, known = stage(file, reading, folder)
    narrow(folder, ends(reading.columns))
    sync_folder(folder)
    return n, known


def stage(file: Path, reading: Reading, folder: Path, people: "People | None" = None) -> tuple[int, str]:
    """As `ingest`, but numbers are still doubles.

    Parameters
    ----------
    people : is told whose each row is; then the folder is no dataset's yet (`app.sources.persons`)
    """
    folder.mkdir()
    with CodedWriter(folder, [code_count(column) for column in reading.columns]) as matrix:
        for block in encoded(file, reading, people):
            matrix.append(block)
    write_meta(folder, reading.columns, {"rows": matrix.rows})
    return matrix.rows, fingerprint(folder)


def encoded(file: Path, reading: Reading, people: "People | None" = None) -> Iterator[Floats]:
    """The records, in the file's order, block by block: (rows, declared columns); one at least. Raises as `ingest`."""
    encoders, rows = [encoder(column, reading.dialect) for column in reading.columns], 0
    named: list[Named] = [*reading.columns] if people is None else [*reading.columns, people.unit]
    for batch in batches(file, named, reading):
        if people is not None:
            people.add(batch.columns[-1], batch.line)
        block: Floats = np.empty((len(batch.columns[0]), len(encoders)))
        fates: list[Fates] = []
        for position, made in enumerate(encoders):
            block[:, position], fate = made.read(batch.columns[position])
            fates.append(fate)
        if reading.tally is not None:
            reading.tally.count(batch, fates)
        yield block
        rows += len(block)
        if rows > reading.most_rows:
            raise TooLarge(f"With these columns at most {reading.most_rows} rows are taken.")
    pa.default_memory_pool().release_unused()
    if rows == 0:
        raise Unreadable("The file has no records.")
    if reading.tally is not None:
        reading.tally.check(header(file, reading.dialect))


def header(file: Path, dialect: Dialect) -> list[str]:
    """Return the names of all columns of a file that was read before: CSV, perhaps packed, or Parquet."""
    with file.open("rb") as opened:
        is_parquet = opened.read(len(parquet.MAGIC)) == parquet.MAGIC
    return parquet.names(file) if is_parquet else csv.names(file, dialect)


def batches(file: Path, columns: Sequence[Named], reading: Reading) -> Iterator[Batch]:
    """The values of these columns of all records, in order, block by block; raises as `ingest`."""
    with file.open("rb") as opened:
        magic = opened.read(len(parquet.MAGIC))
    if not magic:
        raise Unreadable("The file is empty.")
    if magic == _ZIP:
        raise Unreadable(
            "The file is a zip archive, as Excel workbooks are: save the sheet as CSV, or send it by `purse upload`."
        )
    if magic == parquet.MAGIC:
        return parquet.batches(file, columns, reading.most_rows)
    return csv.batches(file, columns, reading.dialect, reading.most_bytes)


def write_meta(folder: Path, columns: Sequence[Column], size: dict[str, int]) -> None:
    """What the folder holds, for whoever finds it."""
    document = {"format": FORMAT, **size, "columns": [column.model_dump() for column in columns]}
    with (folder / META).open("x", encoding="utf-8") as file:
        json.dump(document, file, allow_nan=False)
        file.flush()
        os.fsync(file.fileno())
