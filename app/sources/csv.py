"""CSV (RFC 4180 in a declared dialect, one header line), read in order, in blocks, every value as text.

A record is a line: fields may be quoted and then hold delimiters, doubled quotes and line ends. Blank lines are no
records, except in a file of one column, where a blank line is a record with a missing value. A file that breaks these
rules anywhere, in a column that is not declared too, is refused whole.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import pyarrow as pa
from pyarrow import csv

from app.sources.batch import MOST_TEXT_BYTES, Batch, Named, locate
from app.sources.errors import Unreadable
from app.sources.text import Text
from purse.wire.files import PLAIN, Dialect

# Bounds the memory, which is some seventy times this, and the longest record.
BLOCK_BYTES = MOST_TEXT_BYTES
MOST_FILE_COLUMNS = 2**16

_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class _Grammar:
    """What separates fields and records. Groups are atomic, not possessive: Python up to 3.11.4 forgets where a
    possessive group ended (gh-106052).

    Parameters
    ----------
    field : one field, quoted or bare, and what ends it
    records : whole records, as many as there are: bare text, quotes inside it, which stand for themselves, and quoted
        text, up to a line end. A doubled quote is the end of one quoted text and the beginning of another: behind a
        quote no quote stands for itself
    record : one of them, with its line end
    """

    delimiter: str
    quote: str
    field: re.Pattern[bytes]
    records: re.Pattern[bytes]
    record: re.Pattern[bytes]

    @staticmethod
    @lru_cache
    def of(delimiter: str, quote: str) -> "_Grammar":
        """That of a dialect."""
        d = re.escape(delimiter).encode()
        ends = rb"(%b|\r\n|\n|\r|\Z)" % d
        if not quote:
            body, field = rb"[^\r\n]*+", rb"()([^%b\r\n]*+)" % d
        else:
            q = quote.encode()
            body = rb"(?>[^Q\r\n]*+(?>(?:(?:(?<=[^DQ\r\n])Q++|Q[^Q]*+Q)[^Q\r\n]*+)*))".replace(b"Q", q).replace(b"D", d)
            field = rb"(?:Q((?>(?:[^Q]++|QQ)*))Q|([^QD\r\n]*+))".replace(b"Q", q).replace(b"D", d)
        return _Grammar(
            delimiter,
            quote,
            re.compile(field + ends),
            re.compile(rb"(?>(?:" + body + rb"[\r\n]++)*)"),
            re.compile(body + rb"(?:\r\n|\r|\n|\Z)"),
        )


def batches(path: Path, columns: Sequence[Named], dialect: Dialect = PLAIN, most_bytes: int = 2**62) -> Iterator[Batch]:
    """The declared columns of the file's records as arrays of strings, block by block, in the file's order.

    Parameters
    ----------
    most_bytes : the most that a packed file may unfold to

    Raises
    ------
    Unreadable
        if the file is no CSV of this dialect; the text names a line, and never holds a value.
    TooLarge
        if it unfolds to too much.
    Mismatch
        if a declared column is not in the header, or is there twice.
    """
    with Text(path, dialect.encoding, most_bytes) as text:
        yield from _Reader(text, dialect).batches(columns)


def names(path: Path, dialect: Dialect = PLAIN) -> list[str]:
    """The names in the header; nothing else of the file is read. Raises as `batches`."""
    with Text(path, dialect.encoding, 2**62) as text:
        return _Reader(text, dialect).header(text.read(BLOCK_BYTES))[0]


def is_short(path: Path, dialect: Dialect, lines: int) -> bool:
    """Whether the text has fewer line ends than this, "\r\n" taken for two: then it has at most so many records."""
    with Text(path, dialect.encoding, 2**62) as text:
        ends = 0
        while ends < lines and (piece := text.read(BLOCK_BYTES)):
            ends += piece.count(b"\n") + piece.count(b"\r")
    return ends < lines


class _Reader:
    """One pass over a text; `lines` are the line ends before the block at hand."""

    def __init__(self, text: Text, dialect: Dialect) -> None:
        self._text, self._encoding = text, dialect.encoding
        self._grammar = _Grammar.of(dialect.delimiter, dialect.quote)
        self._lines = 0

    def batches(self, columns: Sequence[Named]) -> Iterator[Batch]:
        start = self._text.read(BLOCK_BYTES)
        names, offset = self.header(start)
        wanted = [str(position) for position in locate(names, columns)]
        self._lines = _line_ends(start[:offset])
        for block in self._blocks(start[offset:]):
            if b"\0" in block:
                raise Unreadable(f"Line {self._line(block[: block.index(0)])} holds a NUL byte: this is no text.")
            if block if len(names) == 1 else block[:64].strip(b"\r\n") or block.strip(b"\r\n"):  # which copies it
                yield from self._parsed(block, len(names), wanted)
            self._lines += _line_ends(block)

    def header(self, start: bytes) -> tuple[list[str], int]:
        """The names of the first line, and where the second begins."""
        offset, quote = (len(_BOM) if start.startswith(_BOM) else 0), self._grammar.quote.encode()
        names: list[str] = []
        while len(names) < MOST_FILE_COLUMNS:
            field = self._grammar.field.match(start, offset)
            if field is None or (field.end() == len(start) and (len(start) >= BLOCK_BYTES or self._text.is_broken)):
                raise (
                    self._undecoded(start)
                    if self._text.is_broken
                    else Unreadable(
                        "The file is neither Parquet nor CSV of this dialect: line 1 is not a line of column names."
                    )
                )
            quoted, bare, end = field.groups()
            name: bytes = quoted.replace(2 * quote, quote) if quoted else bare or b""
            if b"\0" in name:
                raise Unreadable("Line 1 holds a NUL byte: the file is neither Parquet nor CSV of this encoding.")
            names.append(name.decode())
            offset = field.end()
            if end != self._grammar.delimiter.encode():
                return names, offset
        raise Unreadable(f"The file has more than {MOST_FILE_COLUMNS} columns.")

    def _blocks(self, rest: bytes) -> Iterator[bytes]:
        """The rest of the text, cut between records into blocks of about BLOCK_BYTES at most.

        Each is whole before Arrow sees it: a reader of Arrow's that pulls from the file by itself does so on a thread
        of its own, and that thread can wait for itself, and the process for it at its end, once the reader is given up
        midway.
        """
        while True:
            end = self._end(rest)
            if end == 0 and len(rest) >= BLOCK_BYTES:
                raise Unreadable(
                    f"The record of line {self._lines + 1} is longer than {BLOCK_BYTES} bytes, or a quote in it is "
                    "never closed."
                )
            yield rest[:end]
            rest = rest[end:]
            piece = self._text.read(max(1, BLOCK_BYTES - len(rest)))
            if not piece:
                break
            rest += piece
        if self._text.is_broken:
            raise self._undecoded(rest)
        if self._end(rest + b"\n") <= len(rest):
            raise Unreadable(f"A quote is opened in the record of line {self._lines + 1} and never closed.")
        yield rest

    def _end(self, text: bytes) -> int:
        """Where the last whole record ends; a carriage return at the very end may be half of a line end."""
        stop = len(text) - text.endswith(b"\r")
        if not self._grammar.quote or self._grammar.quote.encode() not in text:
            return max(text.rfind(b"\n", 0, stop), text.rfind(b"\r", 0, stop)) + 1
        found = self._grammar.records.match(text, 0, stop)
        return found.end() if found else 0

    def _parsed(self, block: bytes, width: int, wanted: Sequence[str]) -> Iterator[Batch]:
        """The columns wanted of a block's records."""
        ragged: list[csv.InvalidRow] = []

        def note(row: csv.InvalidRow) -> str:
            if not ragged:
                ragged.append(row)
            return "skip"  # and not "error": Arrow comes to its end by itself

        try:
            table = csv.read_csv(
                pa.BufferReader(block),
                # Threads would hide the number of a ragged record, and gain little: the cost is in the values.
                read_options=csv.ReadOptions(
                    block_size=len(block) + 1, use_threads=False, column_names=[str(place) for place in range(width)]
                ),
                parse_options=csv.ParseOptions(
                    delimiter=self._grammar.delimiter,
                    quote_char=self._grammar.quote or False,
                    newlines_in_values=bool(self._grammar.quote),
                    ignore_empty_lines=width > 1,
                    invalid_row_handler=note,
                ),
                convert_options=csv.ConvertOptions(
                    column_types=dict.fromkeys(wanted, pa.string()),
                    include_columns=list(dict.fromkeys(wanted)),
                    strings_can_be_null=False,
                ),
            )
        except pa.ArrowException:
            raise Unreadable(f"What begins at line {self._lines + 1} is not CSV.") from None
        lines = _Lines(block, self._lines, self._grammar.record, width > 1)
        for row in ragged:
            line, found, expected = lines.of(row.number - 1), row.actual_columns, row.expected_columns
            raise Unreadable(f"Line {line} has {found} fields; the header has {expected}.")
        done = 0
        for batch in table.to_batches():
            yield Batch([batch.column(name) for name in wanted], lines.of, done)
            done += len(batch)

    def _line(self, before: bytes) -> int:
        return self._lines + _line_ends(before) + 1

    def _undecoded(self, before: bytes) -> Unreadable:
        return Unreadable(
            f"Line {self._line(before)} is not {self._encoding.upper()}: declare the file's `encoding`, if it is text."
        )


@dataclass(frozen=True, slots=True)
class _Lines:
    """On which line of the file each record of a block begins."""

    block: bytes
    before: int
    record: re.Pattern[bytes]
    skips_blank: bool

    def of(self, index: int) -> int:
        """The line of a record; from 1, the header's being the first."""
        at = 0
        while found := self.record.match(self.block, at):
            if not self.skips_blank or found.group().strip(b"\r\n"):
                index -= 1
            if index < 0 or found.end() == len(self.block):
                break
            at = found.end()
        return self.before + _line_ends(self.block[:at]) + 1


def _line_ends(text: bytes) -> int:
    return text.count(b"\n") + (text.count(b"\r") - text.count(b"\r\n") if b"\r" in text else 0)
