"""Files whose rows are persons': stored in places of which only the number of persons and the cap can be told.

Read as any file, in the file's order, then laid out anew: person p's first k rows, in this order, and for those that
are not there empty places, from place k pi(p) on, pi one secret uniform permutation. What is stored, and how long it
takes to read, follows from n and k and not from how many rows there are. Proof: docs/proofs/persons.md.
"""

import hashlib
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from accounting.noise import Noise
from app.sources.encoding import pieces, texts
from app.sources.errors import TooLarge, Unreadable
from app.sources.holdout import MOST_PLACES, lay_out
from app.sources.ingest import Reading, batches, stage
from purse.wire.datasets import PersonUnit
from solvers.data_access.persons import rows_by_slot

_NAME_BYTES = 16  # of a digest, by which a person is known again: two names share one with a chance below 2^-60


class People:
    """Whose each row is: persons are numbered as they appear. Keeps eight bytes of a row, and of a name its digest.

    Parameters
    ----------
    unit : names the column; names are compared as text without outer white space
    """

    def __init__(self, unit: PersonUnit) -> None:
        self.unit = unit
        self._known: dict[bytes, int] = {}
        self._owners: list[NDArray[np.int64]] = []

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self._known)

    @property
    def owners(self) -> NDArray[np.int64]:
        """For each row, in the file's order, its person's number."""
        return np.concatenate(self._owners)

    def add(self, values: pa.Array, line: Callable[[int], int]) -> None:
        """Add the names of more rows; `Unreadable` if a row has no name, or one that is not UTF-8.

        Parameters
        ----------
        line : returns the line of the file that a row is on
        """
        if pa.types.is_floating(values.type):
            values = pc.add(values.cast(pa.float64()), 0.0)  # of the two zeros one
        found = values if pa.types.is_dictionary(values.type) else pc.dictionary_encode(values)
        digests = [*self._digests(found.dictionary), None]  # the last one is that of null
        at = found.indices.cast(pa.int64()).fill_null(len(digests) - 1).to_numpy(zero_copy_only=False)
        nameless = np.flatnonzero(np.array([digest is None for digest in digests])[at])
        if len(nameless):
            where = f"Line {line(int(nameless[0]))} says nothing in {self.unit.column!r}"
            raise Unreadable(f"{where}, which must say whose it is.")
        numbers = [-1 if digest is None else self._known.setdefault(digest, len(self._known)) for digest in digests]
        self._owners.append(np.array(numbers, dtype=np.int64)[at])

    def _digests(self, names: pa.Array) -> Iterator[bytes | None]:
        """Yield the digest of each name, None of a blank one; a piece of the names at a time is decoded."""
        try:
            for piece in pieces(names):
                for name in pc.ascii_trim_whitespace(texts(piece)).to_pylist():
                    yield hashlib.blake2b(name.encode(), digest_size=_NAME_BYTES).digest() if name else None
        except UnicodeDecodeError:  # a Parquet file claims that its text is UTF-8, and Arrow does not check
            raise Unreadable(f"A row's name in {self.unit.column!r} is not UTF-8.") from None


def ingest_persons(
    file: Path, reading: Reading, unit: PersonUnit, folder: Path, share: float | None = None
) -> tuple[int, str]:
    """Reads, encodes and stores the declared columns; returns n, the number of persons, and the rows' fingerprint.

    Parameters as `ingest`, whose memory it takes, some 30 bytes for each row and place, and some 150 for each person;
    and the share of persons that is kept out, see `app.sources.holdout`.

    Raises
    ------
    SourceError
        as `ingest`; Unreadable, too, if a row names no person, or there are more persons than declared.
    """
    people, rows, most = People(unit), folder.with_name("rows"), min(reading.most_rows, MOST_PLACES)
    _, known = stage(file, replace(reading, most_rows=most), rows, people)
    n = people.count if unit.persons is None else unit.persons
    if people.count > n:
        raise Unreadable("The file has rows of more persons than the unit declares.")
    if n * unit.max_rows > most:
        raise TooLarge(f"With these columns persons times max_rows may be at most {most}.")
    found = rows_by_slot(people.owners, n, unit.max_rows, Noise()).reshape(n, unit.max_rows)
    lay_out(rows, folder, found, reading.columns, share, unit.max_rows)
    shutil.rmtree(rows)
    return n, known


def count_persons(file: Path, reading: Reading, unit: PersonUnit) -> int:
    """n, as `ingest_persons` would count it."""
    people = People(unit)
    for batch in batches(file, [unit], reading):
        people.add(batch.columns[0], batch.line)
    return unit.persons or people.count
