"""The persons of a file's rows.

Such a file is read in its own order and then laid out anew (`app.sources.ingest.store`): person p gets k slots from
slot k pi(p) on, which hold the first k rows of p and are otherwise empty. pi is a secret uniform permutation. The
stored size, and the time to read it, depend on n and k but not on the number of rows. Proof: docs/proofs/persons.md.
"""

import hashlib
from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from app.sources.encoding import pieces, texts
from app.sources.errors import Unreadable
from purse.wire.datasets import PersonUnit

_NAME_BYTES = 16  # of a digest that stands for a name: two names share one with a chance below 2^-60


class People:
    """The person of each row, numbered in order of appearance.

    Memory holds eight bytes for each row, and a digest for each name.

    Parameters
    ----------
    unit : states the column; names are compared as text without surrounding white space
    """

    def __init__(self, unit: PersonUnit) -> None:
        self.unit = unit
        self._numbers: dict[bytes, int] = {}
        self._owners: list[NDArray[np.int64]] = []

    @property
    def count(self) -> int:
        """Number of persons."""
        return len(self._numbers)

    @property
    def owners(self) -> NDArray[np.int64]:
        """The number of each row's person, in the file's order."""
        return np.concatenate(self._owners)

    def add(self, values: pa.Array, line: Callable[[int], int]) -> None:
        """Add the names of more rows. Raise `Unreadable` if a row has no name, or one that is not UTF-8.

        Parameters
        ----------
        line : returns the line of the file that a row is on
        """
        if pa.types.is_floating(values.type):
            values = pc.add(values.cast(pa.float64()), 0.0)  # -0.0 becomes 0.0
        names = values if pa.types.is_dictionary(values.type) else pc.dictionary_encode(values)
        digests = [*self._digests(names.dictionary), None]  # the last entry is that of null
        at = names.indices.cast(pa.int64()).fill_null(len(digests) - 1).to_numpy(zero_copy_only=False)
        nameless = np.flatnonzero(np.array([digest is None for digest in digests])[at])
        if len(nameless):
            where = f"Line {line(int(nameless[0]))} is empty in {self.unit.name!r}"
            raise Unreadable(f"{where}, which must name the person of each row.")
        numbers = [-1 if digest is None else self._numbers.setdefault(digest, len(self._numbers)) for digest in digests]
        self._owners.append(np.array(numbers, dtype=np.int64)[at])

    def _digests(self, names: pa.Array) -> Iterator[bytes | None]:
        """Yield the digest of each name, None of a blank one; a piece of the names at a time is decoded."""
        try:
            for piece in pieces(names):
                for name in pc.ascii_trim_whitespace(texts(piece)).to_pylist():
                    yield hashlib.blake2b(name.encode(), digest_size=_NAME_BYTES).digest() if name else None
        except UnicodeDecodeError:  # a Parquet file claims that its text is UTF-8, and Arrow does not check
            raise Unreadable(
                f"A row's name in {self.unit.name!r} is not UTF-8. Write this column as UTF-8 text."
            ) from None
