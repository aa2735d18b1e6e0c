"""Reading a file of records, and storing the declared columns of every record.

`encoded` reads any file in order, block by block. `store` lays the records out as the declaration asks: as they come,
in the slots of persons, divided into a training and a holdout set, or in partitions.
"""

import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path

import numpy as np
import pyarrow as pa

from accounting.noise import Noise
from app.sources import csv, parquet, partitions
from app.sources.batch import Batch, Named
from app.sources.encoding import Fates, encoder
from app.sources.errors import TooLarge, Unreadable
from app.sources.holdout import MOST_SLOTS, lay_out
from app.sources.matrix import (
    CodedWriter,
    Fingerprint,
    Floats,
    fingerprint,
    write_meta,
)
from app.sources.partitions import Manifest, Partition
from app.sources.persons import People
from app.sources.singles import ends
from app.sources.tally import Tally
from purse.wire.columns import Column
from purse.wire.datasets import DatasetSpec, PersonUnit
from purse.wire.files import PLAIN, Dialect
from solvers.data_access.persons import rows_by_slot

_ZIP = b"PK\x03\x04"


@dataclass(frozen=True, slots=True)
class Reading:
    """The rules for reading a file: its declaration, limits, and the count of what became of its values.

    Parameters
    ----------
    columns : the public declaration
    dialect : how the file is written
    most_rows : largest number of records
    most_bytes : largest size of an unpacked file
    tally : counts the outcome of each value, for the sender of the file alone
    """

    columns: Sequence[Column]
    dialect: Dialect = PLAIN
    most_rows: int = 2**62
    most_bytes: int = 2**62
    tally: Tally | None = None

    @staticmethod
    def of(spec: DatasetSpec, most_bytes: int = 2**62) -> "tuple[Reading, Tally]":
        """Return the rules for a declared file of at most so many bytes when unpacked, and their tally.

        The stored records take at most as much as a CSV file of that size could hold: four bytes for each byte of the
        file, and eight more while they are being stored.
        """
        tally = Tally(spec)
        return Reading(spec.columns, spec.dialect, most_bytes // len(spec.columns), most_bytes, tally), tally


@dataclass(frozen=True, slots=True)
class Layout:
    """The arrangement of stored records.

    Parameters
    ----------
    unit : the column that names persons, whose rows get slots; None if records are rows
    holdout : share of records or persons that becomes the holdout set, stored in `holdout.holdout_folder`
    place : URL of the folder or prefix for partitions; None to store the records in the folder itself
    """

    unit: PersonUnit | None = None
    holdout: float | None = None
    place: str | None = None


ROWS = Layout()


def store(file: Path, reading: Reading, folder: Path, layout: Layout = ROWS) -> tuple[int, str]:
    """Read, encode and store the declared columns of every record.

    Memory is bounded for any size of file, except that slots of persons and holdout sets take up to 50 bytes for each
    row, and persons about 150 bytes each. The folder is durable when this returns. After an error the folder may hold
    a part of the records, and the caller removes it; no partition remains.

    Parameters
    ----------
    file : CSV, perhaps packed, or Parquet, recognised by its content; its name is ignored
    folder : a new folder; a folder `rows` beside it is used meanwhile

    Returns
    -------
    n : number of records, or of persons, with the holdout set
    fingerprint : of the rows in the file's order, see `matrix.Fingerprint`

    Raises
    ------
    SourceError
        Unreadable, Mismatch or TooLarge, whose text holds no value of the file; Unparsed; StorageUnreachable.
    """
    if layout.place is not None:
        return _store_partitions(file, reading, folder, layout.place)
    rows, unit = folder.with_name("rows"), layout.unit
    people = None if unit is None else People(unit)
    if unit is not None or layout.holdout is not None:
        reading = replace(reading, most_rows=min(reading.most_rows, MOST_SLOTS))
    n, digest = stage(file, reading, rows, people)
    slots = None if people is None else _person_slots(people, reading.most_rows)
    lay_out(rows, folder, slots, reading.columns, layout.holdout)
    shutil.rmtree(rows)
    if slots is not None:
        n = len(slots)
    return n, digest


def stage(file: Path, reading: Reading, folder: Path, people: People | None = None) -> tuple[int, str]:
    """Store the records in a new folder in the file's order, with numbers as doubles; return as `store`.

    Parameters
    ----------
    people : receives the person of each row; the folder is then not yet a dataset's
    """
    folder.mkdir()
    with CodedWriter(folder, [column.code_count for column in reading.columns]) as matrix:
        for block in encoded(file, reading, people):
            matrix.append(block)
    write_meta(folder, reading.columns, {"rows": matrix.rows})
    return matrix.rows, fingerprint(folder)


def encoded(file: Path, reading: Reading, people: People | None = None) -> Iterator[Floats]:
    """Yield the records in the file's order, block by block: (rows, declared columns), at least one record in all.

    Raises as `store`.
    """
    encoders, rows = [encoder(column, reading.dialect) for column in reading.columns], 0
    named: list[Named] = [*reading.columns] if people is None else [*reading.columns, people.unit]
    for batch in batches(file, named, reading):
        if people is not None:
            people.add(batch.columns[-1], batch.line)
        block: Floats = np.empty((len(batch.columns[0]), len(encoders)))
        fates: list[Fates] = []
        for position, column_encoder in enumerate(encoders):
            block[:, position], fate = column_encoder.read(batch.columns[position])
            fates.append(fate)
        if reading.tally is not None:
            reading.tally.count(batch, fates)
        yield block
        rows += len(block)
        if rows > reading.most_rows:
            raise TooLarge(
                f"With these columns a file may have at most {reading.most_rows:,} rows. Declare fewer columns, or "
                "send fewer rows."
            )
    pa.default_memory_pool().release_unused()
    if rows == 0:
        raise Unreadable("The file has no records. Add rows below the header.")
    if reading.tally is not None:
        reading.tally.check(header(file, reading.dialect))


def header(file: Path, dialect: Dialect = PLAIN) -> list[str]:
    """Return the names of all columns; no row is read. Raises `Unreadable` as `store` does."""
    return parquet.names(file) if is_parquet(file) else csv.names(file, dialect)


def batches(file: Path, columns: Sequence[Named], reading: Reading) -> Iterator[Batch]:
    """Return the values of these columns of all records, in order, block by block. Raise as `store`."""
    if is_parquet(file):
        return parquet.batches(file, columns, reading.most_rows)
    return csv.batches(file, columns, reading.dialect, reading.most_bytes)


def count(file: Path, reading: Reading, unit: PersonUnit | None = None) -> int:
    """Return n as `store` would count it; only one column is read."""
    if unit is None:
        return sum(len(batch.columns[0]) for batch in batches(file, reading.columns[:1], reading))
    people = People(unit)
    for batch in batches(file, [unit], reading):
        people.add(batch.columns[0], batch.line)
    return unit.persons or people.count


def is_parquet(file: Path) -> bool:
    """Return whether a file is Parquet. Raise `Unreadable` if it is empty or a zip archive."""
    with file.open("rb") as opened:
        magic = opened.read(len(parquet.MAGIC))
    if not magic:
        raise Unreadable("The file is empty. Send a file with a header and rows.")
    if magic == _ZIP:
        raise Unreadable(
            "The file is a zip archive, as Excel workbooks are. Save the sheet as CSV, or send it by `purse upload`."
        )
    return magic == parquet.MAGIC


def _person_slots(people: People, most_slots: int) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
    """Return for each slot of each person the row that it holds, -1 for an empty slot; shape (n, max_rows)."""
    unit = people.unit
    n = people.count if unit.persons is None else unit.persons
    if people.count > n:
        raise Unreadable("The file has rows of more persons than the unit declares. Raise `persons` of the unit.")
    if n * unit.max_rows > most_slots:
        raise TooLarge(
            f"With these columns, persons times max_rows may be at most {most_slots:,}. Lower `max_rows`, or declare "
            "fewer columns."
        )
    slots = rows_by_slot(people.owners, n, unit.max_rows, Noise())
    return slots.reshape(n, unit.max_rows)


def _store_partitions(file: Path, reading: Reading, folder: Path, place: str) -> tuple[int, str]:
    """Store the records as partitions in a place; the folder gets the manifest alone.

    The file is read twice, because its records are counted first. One block is in memory at a time, and one partition
    on the local disk.
    """
    columns, n = reading.columns, count(file, reading)
    digest = Fingerprint(n, len(columns))
    folder.mkdir()
    storage = partitions.Storage(place)
    stored = list[Partition]()
    try:
        for number, pieces in groupby(partitions.cut(encoded(file, reading)), lambda piece: piece[0]):
            with CodedWriter(folder, [column.code_count for column in columns], ends(columns)) as writer:
                for _, block in pieces:
                    writer.append(block)
                    digest.add(block)
            stored.append(partitions.move(storage, folder, number, writer.rows))
    except BaseException:
        storage.clear()
        raise
    partitions.write(folder, Manifest(place=place, columns=list(columns), partitions=stored))
    return n, digest.hexdigest()
