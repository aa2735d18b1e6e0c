"""Draft a declaration from a file, for the person who has the file. Bounds are left out, and servers guess nothing."""

import codecs
import csv
import io
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from app.sources import dates, parquet
from app.sources.cures import NULLS
from app.sources.encoding import Fate, NumberEncoder, is_text, texts
from app.sources.errors import SourceError, Unreadable
from app.sources.ingest import Reading, batches, header, is_parquet
from app.sources.text import Text
from purse.dates import part
from purse.wire.columns import NumberColumn
from purse.wire.files import PLAIN, Dialect, Encoding

MOST_CATEGORIES: Final = 20
_MOST_CHARACTERS = 200  # of a category, as in `purse.wire.base.Name`
_REQUIRED_SHARE = 0.95  # of a column's values that are not missing
_SAMPLE_BYTES = 2**20
_DELIMITERS = (",", ";", "\t", "|")
_NUMBER_FORMATS: tuple[dict[str, Any], ...] = (
    {},
    {"decimal": ","},
    {"decimal": ",", "thousands": "."},
    {"thousands": ","},
    {"decimal": ",", "thousands": " "},
)
_DATE_FORMATS = (
    "%Y-%m-%d",
    "%d.%m.%Y",
    "%d/%m/%Y",
    "%m/%d/%Y",
    "%Y-%m-%d %H:%M:%S",
    "%Y-%m-%dT%H:%M:%S",
    "%d.%m.%Y %H:%M",
)
_ANY = NumberColumn(name="any", type="number", lower=-1e150, upper=1e150)


@dataclass(frozen=True, slots=True)
class Draft:
    """A spec without bounds and budget, and the columns that it leaves out."""

    spec: dict[str, Any]
    left_out: list[str]


@dataclass(slots=True)
class _Tally:
    """Counts of how a column's values can be read."""

    name: str
    present: int = 0
    numbers: list[int] = field(default_factory=lambda: [0] * len(_NUMBER_FORMATS))
    moments: list[int] = field(default_factory=lambda: [0] * len(_DATE_FORMATS))
    typed_dates: int = 0
    nulls: set[str] = field(default_factory=set)
    words: set[str] = field(default_factory=set)

    def add(self, values: pa.Array) -> None:
        """Count more values. Each distinct value is read once."""
        if dates.is_date(values.type):
            self.typed_dates += len(values) - values.null_count
            return
        is_dictionary = pa.types.is_dictionary(values.type)
        counted = pc.value_counts((values.indices if is_dictionary else values).drop_null())
        distinct = counted.field("values")
        counts = counted.field("counts")
        if is_dictionary:  # repeated values are not written out, because they may be long
            distinct = values.dictionary.take(distinct)
        words = pc.ascii_trim_whitespace(texts(distinct)) if is_text(distinct.type) else texts(distinct)
        is_null = pc.is_in(pc.utf8_lower(words), pa.array(sorted(NULLS)))
        self.nulls |= set(words.filter(is_null).to_pylist()) if is_text(distinct.type) else set()
        is_present = pc.and_(pc.invert(is_null), pc.greater(pc.binary_length(words), 0)).fill_null(False)
        words = words.filter(is_present)
        counts = counts.filter(is_present)
        self.present += pc.sum(counts).as_py() or 0
        if len(self.words) <= MOST_CATEGORIES:
            first_words = words.slice(0, MOST_CATEGORIES + 1)
            self.words |= set(pc.utf8_slice_codeunits(first_words, 0, _MOST_CHARACTERS + 1).to_pylist())
        weights = counts.to_numpy(zero_copy_only=False)
        for position, number_format in enumerate(_NUMBER_FORMATS):
            _, fates = NumberEncoder(_ANY, Dialect(**number_format)).read(words)
            self.numbers[position] += int(weights[fates <= Fate.CLAMPED].sum())
        for position, form in enumerate(_DATE_FORMATS):
            days = part(dates.parsed(words, form), "days")
            self.moments[position] += int(weights[days == days].sum())  # not NaN

    def is_mostly(self, count: int) -> bool:
        """Return whether this count is enough to decide what the column is."""
        return 0 < _REQUIRED_SHARE * self.present <= count

    def is_number(self, number_format: int) -> bool:
        """Return whether the column has numbers of this format. Two values or fewer are categories."""
        return self.is_mostly(self.numbers[number_format]) and len(self.words) > 2


def drafted(file: Path) -> Draft:
    """Return names, types and categories of a file's columns. Bounds are null.

    Raises
    ------
    SourceError
        if the file is neither Parquet nor CSV in a dialect that is tried.
    """
    dialect, tallies = _read(file)
    number_format = max(range(len(_NUMBER_FORMATS)), key=lambda at: (sum(each.is_number(at) for each in tallies), -at))
    form = max(
        range(len(_DATE_FORMATS)), key=lambda at: (sum(each.is_mostly(each.moments[at]) for each in tallies), -at)
    )
    columns = {each.name: _column(each, number_format, form) for each in tallies}
    fields: dict[str, Any] = dialect.model_dump(exclude_defaults=True) | _NUMBER_FORMATS[number_format]
    if any(each.is_mostly(each.moments[form]) for each in tallies) and form:
        fields["date_format"] = _DATE_FORMATS[form]
    if nulls := sorted(set().union(*(each.nulls for each in tallies))):
        fields["nulls"] = nulls
    spec = {
        "name": file.name.split(".")[0],
        "columns": [column for column in columns.values() if column is not None],
        "budget": {"epsilon": None, "delta": None},
        **({"dialect": fields} if fields else {}),
    }
    return Draft(spec, [name for name, column in columns.items() if column is None])


def hint(file: Path, dialect: Dialect) -> str:
    """Return a sentence about a file's probable dialect, or nothing if it is the given one."""
    guess = guessed(file)
    if guess is None or (guess.delimiter, guess.encoding) == (dialect.delimiter, dialect.encoding):
        return ""
    return f"The file's delimiter is probably {guess.delimiter!r}, and its encoding {guess.encoding}."


def guessed(file: Path) -> Dialect | None:
    """Return the probable encoding and delimiter of a file, or None if it is Parquet or not text."""
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


def _read(file: Path) -> tuple[Dialect, list[_Tally]]:
    """Return the file's dialect and a tally of each column, from all rows. A column that no server reads has none."""
    guess = guessed(file) or PLAIN
    for dialect in (guess, guess.model_copy(update={"encoding": "windows-1252"})):
        try:
            tallies = [_Tally(name) for name in header(file, dialect)]
            columns = _readable_columns(file, tallies)
            for batch in batches(file, [*columns.values()], Reading((), dialect)) if columns else ():
                for position, values in zip(columns, batch.columns, strict=True):
                    tallies[position].add(values)
            return dialect, tallies
        except Unreadable as error:
            refused = error
    raise refused


def _readable_columns(file: Path, tallies: Sequence[_Tally]) -> dict[int, NumberColumn]:
    """Return the columns that a server reads, by their positions. Only their names and dates matter."""
    if not is_parquet(file):
        return {position: _ANY.model_copy(update={"name": each.name}) for position, each in enumerate(tallies)}
    schema = pq.read_schema(file)
    counted = Counter(schema.names)
    return {
        position: _ANY.model_copy(update={"name": each.name, "date": "days" if dates.is_date(each.type) else None})
        for position, each in enumerate(schema)
        if parquet.is_read(each.type) and counted[each.name] == 1
    }


def _column(tally: _Tally, number_format: int, form: int) -> dict[str, Any] | None:
    """Return the draft of a column, or None if its type cannot be guessed."""
    number = {"name": tally.name, "type": "number", "lower": None, "upper": None}
    if tally.typed_dates or tally.is_mostly(tally.moments[form]):
        return number | {"date": "days"}
    if tally.is_number(number_format):
        return number
    if 0 < len(tally.words) <= MOST_CATEGORIES and max(map(len, tally.words)) <= _MOST_CHARACTERS:
        return {"name": tally.name, "type": "category", "categories": sorted(tally.words)}
    return None


def _encoding(start: bytes) -> Encoding:
    """Return the encoding that the byte order mark states, or the first that fits."""
    if start.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "utf-16"
    candidates: tuple[Encoding, ...] = ("utf-8", "windows-1252")
    for encoding in candidates:
        with suppress(UnicodeDecodeError):
            codecs.getincrementaldecoder(encoding)().decode(start)  # the last letter may be cut
            return encoding
    return "latin-1"


def _width(lines: str, delimiter: str) -> int:
    """Return the number of fields of every line, or 0 if lines differ."""
    try:
        widths = {len(row) for row in csv.reader(io.StringIO(lines), delimiter=delimiter) if row}
    except csv.Error:
        return 0
    return widths.pop() if len(widths) == 1 else 0
