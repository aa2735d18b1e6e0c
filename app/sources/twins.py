"""Public twins: rows drawn from a dataset's declaration, from a released profile, or from a public sample.

    twin = f(public facts, seed);   the value in row i of a field is F^-1(u), u = splitmix64(seed, field, i) / 2^64

Columns are drawn independently of each other; from a sample, whole rows are drawn. No dataset is opened, and no private
fact is used. Numbers of a profile are uniform within its bins. From the declaration alone, numbers are uniform between
their bounds, and categories are equally likely.
"""

import base64
import codecs
import csv
import hashlib
import io
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from app.sources.splitmix import mixed
from purse.prediction import encode, number_target
from purse.wire.columns import CategoryColumn, Column, NumberColumn
from purse.wire.datasets import PersonUnit
from purse.wire.files import PLAIN, Dialect
from purse.wire.profiles import ColumnProfile
from purse.wire.twins import FEWEST_SAMPLED

Floats = NDArray[np.float64]
_BLOCK_ROWS = 1000  # of a file, written at a time
_DIGITS, _EXACT_DIGITS = 3, 12  # decimal places after the first digit of a drawn number's range; of a coded number


@dataclass(frozen=True, slots=True)
class ColumnLaw:
    """The distribution of one column's values.

    Parameters
    ----------
    weights : of a number's bins, or of each declared category and then of "other"; they add up to 1
    edges : of a number's bins
    """

    __pydantic_config__: ClassVar[Any] = {"extra": "forbid", "strict": True, "allow_inf_nan": False}

    column: Column
    weights: tuple[float, ...]
    edges: tuple[float, ...] = ()

    def drawn(self, u: Floats) -> Floats:
        """Return F^-1(u): rounded numbers, or codes of categories."""
        ends = np.concatenate(([0.0], np.cumsum(self.weights)))
        which = np.minimum(np.searchsorted(ends[1:], u, side="right"), len(self.weights) - 1)
        if isinstance(self.column, CategoryColumn):
            is_other = which == len(self.column.categories)
            codes: Floats = np.where(is_other, self.column.default_code, which).astype(float)
            return codes
        lower, upper, edges = self.column.lower, self.column.upper, np.array(self.edges)
        if self.column.settled().is_settled:  # a column of zeros and ones
            binary: Floats = np.where(edges[which] + edges[which + 1] > lower + upper, upper, lower)
            return binary
        inside = (u - ends[which]) / np.maximum(np.array(self.weights)[which], 1e-300)
        return _rounded(
            self.column, edges[which] + np.clip(inside, 0.0, 1.0) * (edges[which + 1] - edges[which]), _DIGITS
        )


def declared(columns: Sequence[Column]) -> tuple[ColumnLaw, ...]:
    """Return the laws of a declaration: uniform between bounds and over categories."""
    return tuple(_declared(column) for column in columns)


def profiled(columns: Sequence[ColumnProfile]) -> tuple[ColumnLaw, ...]:
    """Return the laws of released counts, where negative counts become 0; those of the declaration if all are 0."""
    laws = []
    for profile in columns:
        counts = np.maximum(profile.counts, 0.0)
        total = float(counts.sum())
        if total > 0:
            laws.append(ColumnLaw(profile.column, tuple((counts / total).tolist()), tuple(profile.edges or ())))
        else:
            laws.append(_declared(profile.column))
    return tuple(laws)


def _declared(column: Column) -> ColumnLaw:
    if isinstance(column, CategoryColumn):
        count = len(column.categories)
        return ColumnLaw(column, (*[1 / count] * count, 0.0))
    return ColumnLaw(column, (0.5, 0.5), (column.lower, column.lower / 2 + column.upper / 2, column.upper))


@dataclass(frozen=True, slots=True)
class Sample:
    """Rows of a public sample, which are drawn as whole rows with repetition. Create one with `Sample.of`.

    Parameters
    ----------
    packed : the coded rows: little-endian doubles in base64, row by row
    width : number of declared columns
    """

    __pydantic_config__: ClassVar[Any] = {"extra": "forbid", "strict": True}

    packed: str
    width: int

    @staticmethod
    def of(rows: Floats) -> "Sample":
        """Return a sample of coded rows, (m, declared columns)."""
        return Sample(base64.b64encode(rows.astype("<f8").tobytes()).decode(), rows.shape[1])

    @property
    def rows(self) -> Floats:
        """The coded rows, (m, declared columns)."""
        unpacked: Floats = np.frombuffer(base64.b64decode(self.packed), "<f8").reshape(-1, self.width)
        return unpacked

    @property
    def parted(self) -> "tuple[Sample, Sample]":
        """The rows to train on, and every fifth row to score on; `ValueError` if there are fewer than five."""
        rows = self.rows
        is_fifth = np.arange(1, len(rows) + 1) % FEWEST_SAMPLED == 0
        if not is_fifth.any():
            raise ValueError(f"a sample needs at least {FEWEST_SAMPLED} rows")
        return Sample.of(rows[~is_fifth]), Sample.of(rows[is_fifth])

    def codes(self, seed: int, rows: range) -> Floats:
        """Return drawn rows."""
        unpacked = self.rows
        drawn: Floats = unpacked[(uniform(seed, "rows", rows) * len(unpacked)).astype(np.int64)]
        return drawn


@dataclass(frozen=True, slots=True)
class Twin:
    """Rows whose columns are drawn by their own laws. Columns with the same source in the file agree.

    Parameters
    ----------
    laws : of the declared columns, in their order
    dialect : of the file
    sample : drawn instead of the laws
    """

    __pydantic_config__: ClassVar[Any] = {"extra": "forbid", "strict": True, "allow_inf_nan": False}

    laws: tuple[ColumnLaw, ...]
    dialect: Dialect = field(default=PLAIN)
    sample: Sample | None = None

    @property
    def parted(self) -> "tuple[Twin, Twin]":
        """The twins to train and to score on; raises as `Sample.parted`."""
        if self.sample is None:
            return self, self
        train, test = self.sample.parted
        return replace(self, sample=train), replace(self, sample=test)

    @property
    def names(self) -> list[str]:
        """The names of the file's columns."""
        return [own[0][1].column.of for own in self._fields]

    def codes(self, seed: int, rows: range) -> Floats:
        """Return these rows as they would be stored."""
        if self.sample is not None:
            return self.sample.codes(seed, rows)
        block = np.empty((len(rows), len(self.laws)))
        for own in self._fields:
            values = self._values(own, seed, rows, None)
            for j, law in own:
                block[:, j] = self._code(law.column, values, own[0][1].column)
        return block

    def texts(self, seed: int, rows: range) -> list[list[str]]:
        """Return these rows as the file would have them: a list of texts for each of its columns."""
        columns, drawn = [], None if self.sample is None else self.sample.codes(seed, rows)
        for own in self._fields:
            texts = _texts(own[0][1].column, self._values(own, seed, rows, drawn))
            is_number = isinstance(own[0][1].column, NumberColumn) and not _is_dated(own)
            columns.append([t.replace(".", self.dialect.decimal) for t in texts] if is_number else texts)
        return columns

    @property
    def _fields(self) -> list[list[tuple[int, ColumnLaw]]]:
        """The laws of each column of the file, with their positions among the declared columns."""
        order = {law.column.of: j for j, law in reversed(list(enumerate(self.laws)))}
        placed = sorted(enumerate(self.laws), key=lambda pair: order[pair[1].column.of])
        return [list(own) for _, own in groupby(placed, key=lambda pair: pair[1].column.of)]

    def _values(
        self, own: list[tuple[int, ColumnLaw]], seed: int, rows: range, drawn: Floats | None
    ) -> "Floats | list[str]":
        """Return numbers or codes drawn by the first law or from the sample's rows; dates as text."""

        def values(j: int, law: ColumnLaw, stream: str) -> Floats:
            return law.drawn(uniform(seed, stream, rows)) if drawn is None else _rounded_values(law.column, drawn[:, j])

        if not _is_dated(own):
            return values(*own[0], own[0][1].column.of)
        from app.sources.dates import written  # late: Arrow

        parts = {
            law.column.date: _number(law, values(j, law, f"{law.column.of}/{law.column.date}"))
            for j, law in own
            if law.column.date is not None
        }
        return written(parts, self.dialect.date_format, len(rows))

    def _code(self, column: Column, values: "Floats | list[str]", first: Column) -> Floats:
        """Return the codes that would be read from these values in the file."""
        if column.date is not None:
            from app.sources.dates import read  # late: Arrow

            assert isinstance(values, list)
            return encode(column, read(values, self.dialect.date_format, column.date))
        if column is first and not isinstance(values, list):
            return encode(column, values) if isinstance(column, NumberColumn) else values
        return encode(column, _texts(first, values))


def uniform(seed: int, stream: str, rows: range) -> Floats:
    """Return a number in (0, 1) for each row, the same on every machine: SplitMix64 of the row's index and a key."""
    key = int.from_bytes(hashlib.blake2b(f"{seed} {stream}".encode(), digest_size=8).digest(), "little")
    numbers: Floats = ((mixed(rows, key) >> np.uint64(12)).astype(float) + 0.5) / 2.0**52
    return numbers


def csv_file(twin: Twin, seed: int, rows: int, unit: PersonUnit | None = None) -> Iterator[bytes]:
    """Yield the twin as a CSV file in its dialect, block by block. With a unit, each person has 1 to max_rows rows.

    Values that the dialect cannot write (with a delimiter, but without quotes) are left empty.
    """
    encoder, quote = codecs.getincrementalencoder(twin.dialect.encoding)("replace"), twin.dialect.quote
    quoting: Any = {"quotechar": quote} if quote else {"quoting": csv.QUOTE_NONE, "quotechar": None}
    text = io.StringIO(newline="")
    writer = csv.writer(text, delimiter=twin.dialect.delimiter, lineterminator="\r\n", **quoting)
    banned = frozenset() if quote else frozenset(twin.dialect.delimiter + "\r\n")
    people = [] if unit is None else [f"person {p + 1}" for p in owners(seed, rows, unit.max_rows, rows).tolist()]
    writer.writerow([*([unit.name] if unit else []), *twin.names])
    for start in range(0, rows, _BLOCK_ROWS):
        some = range(start, min(rows, start + _BLOCK_ROWS))
        columns = [*([people[start : some.stop]] if unit else []), *twin.texts(seed, some)]
        for row in zip(*columns, strict=True):
            writer.writerow([value if banned.isdisjoint(value) else "" for value in row])
        yield encoder.encode(text.getvalue())
        text.seek(0)
        text.truncate()


def owners(seed: int, persons: int, max_rows: int, rows: int | None = None) -> NDArray[np.int64]:
    """Return the person of each row, or of the first `rows`. Persons have 1 to `max_rows` rows, equally likely."""
    sizes = 1 + (uniform(seed, "persons", range(persons)) * max_rows).astype(np.int64)
    if rows is not None:
        sizes = sizes[: np.searchsorted(np.cumsum(sizes), rows) + 1]
    return np.repeat(np.arange(len(sizes)), sizes)[:rows]


def _rounded_values(column: Column, codes: Floats) -> Floats:
    """Return the rounded numbers of these codes; codes of categories unchanged."""
    if isinstance(column, CategoryColumn):
        return codes
    middle, half = number_target(column).middle_and_half
    return _rounded(column, middle + half * codes, _EXACT_DIGITS)


def _rounded(column: NumberColumn, x: Floats, digits: int) -> Floats:
    """Return numbers within the bounds, rounded to so many decimal places after the first digit of their range."""
    decimals = digits - math.floor(math.log10(column.upper - column.lower))
    rounded: Floats = np.clip(np.round(x, decimals) if abs(decimals) < 16 else x, column.lower, column.upper)
    return rounded


def _is_dated(own: list[tuple[int, ColumnLaw]]) -> bool:
    return any(law.column.date is not None for _, law in own)


def _number(law: ColumnLaw, drawn: Floats) -> Floats:
    """Return the part of a date that a law draws; 1 for a category that is not a whole number."""
    if isinstance(law.column, NumberColumn):
        return np.round(drawn)
    parts = [int(text) if text.isdecimal() and text.isascii() else 1 for text in law.column.categories]
    return np.array([*parts, 1], dtype=float)[drawn.astype(np.int64)]


def _texts(column: Column, values: "Floats | list[str]") -> list[str]:
    """Return values as a plain file has them; an empty text for undeclared categories."""
    if isinstance(values, list):
        return values
    if isinstance(column, CategoryColumn):
        words = [*column.categories, ""]
        return [words[int(code)] for code in values.tolist()]
    return [repr(x).removesuffix(".0") for x in values.tolist()]
