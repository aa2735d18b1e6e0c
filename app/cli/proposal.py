"""A draft of a declaration, guessed from a file for whoever holds it: never its bounds. Servers guess nothing."""

import codecs
import csv
import io
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from app.cli.common import Refusal
from app.sources import csv as records
from app.sources import dates, parquet
from app.sources.cures import NULLS
from app.sources.encoding import Fate, NumberEncoder, is_text, texts
from app.sources.errors import SourceError, Unreadable
from app.sources.text import Text
from purse.dates import part
from purse.wire.columns import NumberColumn
from purse.wire.files import PLAIN, DatePart, Dialect, Encoding

MOST_CATEGORIES: Final = 20
_LONGEST_CATEGORY = 200  # characters, of `purse.wire.base.Name`
_ENOUGH = 0.95  # of a column's values that are there
_SAMPLE_BYTES = 2**20
_DELIMITERS = (",", ";", "\t", "|")
_WRITTEN: tuple[dict[str, Any], ...] = (
    {},
    {"decimal": ","},
    {"decimal": ",", "thousands": "."},
    {"thousands": ","},
    {"decimal": ",", "thousands": " "},
)
_DATES = ("%Y-%m-%d", "%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%S", "%d.%m.%Y %H:%M")
_ANY = NumberColumn(name="any", type="number", lower=-1e150, upper=1e150)


@dataclass(frozen=True, slots=True)
class Draft:
    """A spec whose bounds and budget are to be filled in, and the columns that it leaves out."""

    spec: dict[str, Any]
    left_out: list[str]


@dataclass(slots=True)
class _Seen:
    """What a column's values could be."""

    name: str
    there: int = 0
    numbers: list[int] = field(default_factory=lambda: [0] * len(_WRITTEN))
    moments: list[int] = field(default_factory=lambda: [0] * len(_DATES))
    typed_dates: int = 0
    nulls: set[str] = field(default_factory=set)
    words: set[str] = field(default_factory=set)

    def add(self, values: pa.Array) -> None:
        """Count more values; each distinct one is looked at once."""
        if dates.is_date(values.type):
            self.typed_dates += len(values) - values.null_count
            return
        is_dictionary = pa.types.is_dictionary(values.type)
        counted = pc.value_counts((values.indices if is_dictionary else values).drop_null())
        known, counts = counted.field("values"), counted.field("counts")
        if is_dictionary:  # whose repeated values are not written out: they may be long
            known = values.dictionary.take(known)
        words = pc.ascii_trim_whitespace(texts(known)) if is_text(known.type) else texts(known)
        is_null = pc.is_in(pc.utf8_lower(words), pa.array(sorted(NULLS)))
        self.nulls |= set(words.filter(is_null).to_pylist()) if is_text(known.type) else set()
        is_there = pc.and_(pc.invert(is_null), pc.greater(pc.binary_length(words), 0)).fill_null(False)
        words, counts = words.filter(is_there), counts.filter(is_there)
        self.there += pc.sum(counts).as_py() or 0
        if len(self.words) <= MOST_CATEGORIES:
            some = words.slice(0, MOST_CATEGORIES + 1)
            self.words |= set(pc.utf8_slice_codeunits(some, 0, _LONGEST_CATEGORY + 1).to_pylist())
        weights = counts.to_numpy(zero_copy_only=False)
        for position, how in enumerate(_WRITTEN):
            _, fates = NumberEncoder(_ANY, Dialect(**how)).read(words)
            self.numbers[position] += int(weights[fates <= Fate.CLAMPED].sum())
        for position, form in enumerate(_DATES):
            found = part(dates.parsed(words, form), "days")
            self.moments[position] += int(weights[found == found].sum())

    def is_mostly(self, count: int) -> bool:
        """Whether so many values are enough to say what the column is."""
        return 0 < _ENOUGH * self.there <= count

    def is_number(self, how: int) -> bool:
        """Whether it is of numbers, if they are written so; of one or two of them, it is of categories."""
        return self.is_mostly(self.numbers[how]) and len(self.words) > 2


def drafted(file: Path) -> Draft:
    """Names, types and categories of a file's columns, with bounds that are null.

    Raises
    ------
    Refusal
        if the file is neither Parquet nor CSV in any dialect that is tried.
    """
    dialect, seen = _read(file)
    how = max(range(len(_WRITTEN)), key=lambda at: (sum(column.is_number(at) for column in seen), -at))
    form = max(range(len(_DATES)), key=lambda at: (sum(column.is_mostly(column.moments[at]) for column in seen), -at))
    columns = {column.name: _column(column, how, form) for column in seen}
    fields: dict[str, Any] = dialect.model_dump(exclude_defaults=True) | _WRITTEN[how]
    if any(column.is_mostly(column.moments[form]) for column in seen) and form:
        fields["date_format"] = _DATES[form]
    if nulls := sorted(set().union(*(column.nulls for column in seen))):
        fields["nulls"] = nulls
    spec = {
        "name": file.name.split(".")[0],
        "columns": [column for column in columns.values() if column is not None],
        "budget": {"epsilon": None, "delta": None},
        **({"dialect": fields} if fields else {}),
    }
    return Draft(spec, [name for name, column in columns.items() if column is None])


def hint(file: Path, dialect: Dialect) -> str:
    """In a sentence, what a file's dialect seems to be, if another one; else nothing."""
    found = guessed(file)
    if found is None or (found.delimiter, found.encoding) == (dialect.delimiter, dialect.encoding):
        return ""
    return f"It looks as if its delimiter were {found.delimiter!r} and its encoding {found.encoding}."


def guessed(file: Path) -> Dialect | None:
    """The encoding and the delimiter that a file's beginning seems to have; None of Parquet, and of what is no text."""
    try:
        with Text(file, "latin-1", 2**62) as text:
            start = text.read(_SAMPLE_BYTES).decode().encode("latin-1")
    except SourceError:
        return None
    if start.startswith(parquet.MAGIC):
        return None
    encoding = _encoding(start)
    lines = start.decode(encoding, errors="ignore").splitlines()[:50]
    widths = {mark: _width("\n".join(lines[:-1] or lines), mark) for mark in _DELIMITERS}
    return Dialect(encoding=encoding, delimiter=max(_DELIMITERS, key=lambda mark: widths[mark]))


def header(file: Path, dialect: Dialect = PLAIN) -> list[str]:
    """The file's column names; nothing else of it is read. Raises `SourceError` of what is neither CSV nor Parquet."""
    with file.open("rb") as source:
        if source.read(len(parquet.MAGIC)) == parquet.MAGIC:
            return [str(name) for name in pq.read_schema(file).names]
    return records.names(file, dialect)


def _read(file: Path) -> tuple[Dialect, list[_Seen]]:
    """The file's dialect, and what its columns could be: all of it is read."""
    found = guessed(file) or PLAIN
    for dialect in (found, found.model_copy(update={"encoding": "windows-1252"})):
        try:
            seen = [_Seen(name) for name in header(file, dialect)]
            for columns in _values(file, dialect, seen):
                for column, values in zip(seen, columns, strict=True):
                    column.add(values)
            return dialect, seen
        except Unreadable as error:
            refused = error
        except (SourceError, ValueError) as error:
            raise Refusal(str(error)) from None
    raise Refusal(refused.detail)


def _values(file: Path, dialect: Dialect, seen: Sequence[_Seen]) -> Iterator[list[pa.Array]]:
    """Yield all columns, some records at a time, in the file's order; a column that no server reads is all null."""
    with file.open("rb") as source:
        is_parquet = source.read(len(parquet.MAGIC)) == parquet.MAGIC
    if not is_parquet:
        for found in records.batches(file, [_Named(column.name) for column in seen], dialect):
            yield found.columns
        return
    schema = pq.read_schema(file)
    counted = Counter(schema.names)
    read = {
        place: _Named(kind.name, "days" if dates.is_date(kind.type) else None)
        for place, kind in enumerate(schema)
        if parquet.is_read(kind.type) and counted[kind.name] == 1
    }
    for found in parquet.batches(file, [*read.values()], 2**62) if read else ():
        columns = dict(zip(read, found.columns, strict=True))
        nothing = pa.nulls(len(found.columns[0]))
        yield [columns.get(place, nothing) for place in range(len(seen))]


@dataclass(frozen=True, slots=True)
class _Named:
    """A column as the header has it."""

    name: str
    date: DatePart | None = None

    @property
    def of(self) -> str:
        """The same."""
        return self.name


def _column(seen: _Seen, how: int, form: int) -> dict[str, Any] | None:
    """The draft of a column; None of what nothing can be said."""
    number = {"name": seen.name, "type": "number", "lower": None, "upper": None}
    if seen.typed_dates or seen.is_mostly(seen.moments[form]):
        return number | {"date": "days"}
    if seen.is_number(how):
        return number
    if 0 < len(seen.words) <= MOST_CATEGORIES and max(map(len, seen.words)) <= _LONGEST_CATEGORY:
        return {"name": seen.name, "type": "category", "categories": sorted(seen.words)}
    return None


def _encoding(start: bytes) -> Encoding:
    """Of the byte order mark, else the first that fits."""
    if start.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "utf-16"
    tried: tuple[Encoding, ...] = ("utf-8", "windows-1252")
    for encoding in tried:
        with suppress(UnicodeDecodeError):
            codecs.getincrementaldecoder(encoding)().decode(start)  # a letter may be cut at the end
            return encoding
    return "latin-1"


def _width(lines: str, delimiter: str) -> int:
    """How many fields all lines have; 0 where they differ."""
    try:
        widths = {len(row) for row in csv.reader(io.StringIO(lines), delimiter=delimiter) if row}
    except csv.Error:
        return 0
    return widths.pop() if len(widths) == 1 else 0
