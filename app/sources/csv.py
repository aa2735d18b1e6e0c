"""CSV files (RFC 4180 in a declared dialect, one header line), read in order and in blocks, every value as text.

A record is a line. A quoted field may contain delimiters, doubled quotes and line ends. Blank lines are skipped, except
in a file of one column, where a blank line is a record with a missing value. A file that violates these rules anywhere,
also in an undeclared column, is refused.
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

# Bounds the memory, which is about seventy times this size, and the longest record.
BLOCK_BYTES = MOST_TEXT_BYTES
MOST_FILE_COLUMNS = 2**16

_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class _Grammar:
    """The regular expressions of fields and records.

    Groups are atomic, not possessive, because Python up to 3.11.4 loses the end of a possessive group (gh-106052).

    Parameters
    ----------
    field : one field, quoted or bare, and its end
    records : as many whole records as possible: bare text with literal quotes inside, and quoted text, up to a line
        end. A doubled quote ends one quoted text and begins another, so no quote after a quote is literal
    record : one record with its line end
    """

    delimiter: str
    quote: str
    field: re.Pattern[bytes]
    records: re.Pattern[bytes]
    record: re.Pattern[bytes]

    @staticmethod
    @lru_cache
    def of(delimiter: str, quote: str) -> "_Grammar":
        """Return the grammar of a dialect."""
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
    """Yield the declared columns of the file's records as arrays of strings, block by block, in the file's order.

    Parameters
    ----------
    most_bytes : largest unpacked size of a packed file

    Raises
    ------
    Unreadable
        if the file is not CSV of this dialect; the text names a line, and never holds a value.
    TooLarge
        if the unpacked file is too large.
    Mismatch
        if a declared column is missing from the header, or occurs twice.
    """
    with Text(path, dialect.encoding, most_bytes) as text:
        yield from _Reader(text, dialect).batches(columns)


def names(path: Path, dialect: Dialect = PLAIN) -> list[str]:
    """Return the names in the header; nothing else of the file is read. Raises as `batches`."""
    with Text(path, dialect.encoding, 2**62) as text:
        return _Reader(text, dialect).header(text.read(BLOCK_BYTES))[0]


class _Reader:
    """One pass over a text, which counts the line ends before the present block."""

    def __init__(self, text: Text, dialect: Dialect) -> None:
        self._text, self._encoding = text, dialect.encoding
        self._grammar = _Grammar.of(dialect.delimiter, dialect.quote)
        self._lines = 0

    def batches(self, columns: Sequence[Named]) -> Iterator[Batch]:
        start = self._text.read(BLOCK_BYTES)
        names, offset = self.header(start)
        positions = [str(position) for position in locate(names, columns)]
        self._lines = _line_ends(start[:offset])
        for block in self._blocks(start[offset:]):
            if b"\0" in block:
                raise Unreadable(
                    f"Line {self._line(block[: block.index(0)]):,} contains a NUL byte, so the file is not text. Save "
                    "it as CSV."
                )
            # A blank line is a record only in a file of one column. The start is tried first: `strip` copies the block.
            if block and (len(names) == 1 or block[:64].strip(b"\r\n") or block.strip(b"\r\n")):
                yield from self._parsed(block, len(names), positions)
            self._lines += _line_ends(block)

    def header(self, start: bytes) -> tuple[list[str], int]:
        """Return the names in the first line, and the position of the second line."""
        offset = len(_BOM) if start.startswith(_BOM) else 0
        quote = self._grammar.quote.encode()
        names: list[str] = []
        while len(names) < MOST_FILE_COLUMNS:
            field = self._grammar.field.match(start, offset)
            if field is None or (field.end() == len(start) and (len(start) >= BLOCK_BYTES or self._text.is_broken)):
                raise (
                    self._undecoded(start)
                    if self._text.is_broken
                    else Unreadable(
                        "The file is neither Parquet nor CSV of this dialect: line 1 does not contain column names. "
                        "Declare its dialect, or add a header line."
                    )
                )
            quoted, bare, end = field.groups()
            name: bytes = quoted.replace(2 * quote, quote) if quoted else bare or b""
            if b"\0" in name:
                raise Unreadable(
                    "Line 1 contains a NUL byte, so the file is neither Parquet nor CSV of this encoding. Declare its "
                    "encoding, or save it as CSV."
                )
            names.append(name.decode())
            offset = field.end()
            if end != self._grammar.delimiter.encode():
                return names, offset
        raise Unreadable(f"The file has more than {MOST_FILE_COLUMNS:,} columns. Remove those that are not declared.")

    def _blocks(self, text: bytes) -> Iterator[bytes]:
        """Yield the text from here on, cut between records into blocks of at most about BLOCK_BYTES.

        Arrow gets whole blocks, because its own reader of a file uses a thread that can deadlock with itself, and then
        blocks the end of the process, if the reader is abandoned midway.
        """
        while True:
            end = self._end(text)
            if end == 0 and len(text) >= BLOCK_BYTES:
                raise Unreadable(
                    f"The record of line {self._lines + 1:,} is longer than {BLOCK_BYTES:,} bytes, or a quote in it is "
                    "not closed. Close the quote, or declare another `quote`."
                )
            yield text[:end]
            text = text[end:]
            piece = self._text.read(max(1, BLOCK_BYTES - len(text)))
            if not piece:
                break
            text += piece
        if self._text.is_broken:
            raise self._undecoded(text)
        if self._end(text + b"\n") <= len(text):
            raise Unreadable(
                f"The record of line {self._lines + 1:,} opens a quote and does not close it. Close the quote, or "
                "declare another `quote`."
            )
        yield text

    def _end(self, text: bytes) -> int:
        """Return the end of the last whole record. A final carriage return may be half of a line end."""
        stop = len(text) - text.endswith(b"\r")
        if not self._grammar.quote or self._grammar.quote.encode() not in text:
            return max(text.rfind(b"\n", 0, stop), text.rfind(b"\r", 0, stop)) + 1
        records = self._grammar.records.match(text, 0, stop)
        return records.end() if records else 0

    def _parsed(self, block: bytes, width: int, positions: Sequence[str]) -> Iterator[Batch]:
        """Yield the columns at these positions of a block's records."""
        ragged: list[csv.InvalidRow] = []

        def note(row: csv.InvalidRow) -> str:
            if not ragged:
                ragged.append(row)
            return "skip"  # not "error", so that Arrow finishes by itself

        try:
            table = csv.read_csv(
                pa.BufferReader(block),
                # Threads would hide the number of a ragged record, and gain little.
                read_options=csv.ReadOptions(
                    block_size=len(block) + 1, use_threads=False, column_names=[str(index) for index in range(width)]
                ),
                parse_options=csv.ParseOptions(
                    delimiter=self._grammar.delimiter,
                    quote_char=self._grammar.quote or False,
                    newlines_in_values=bool(self._grammar.quote),
                    ignore_empty_lines=width > 1,
                    invalid_row_handler=note,
                ),
                convert_options=csv.ConvertOptions(
                    column_types=dict.fromkeys(positions, pa.string()),
                    include_columns=list(dict.fromkeys(positions)),
                    strings_can_be_null=False,
                ),
            )
        except pa.ArrowException:
            raise Unreadable(
                f"The text from line {self._lines + 1:,} on is not CSV. Correct it, or declare the dialect of the file."
            ) from None
        lines = _Lines(block, self._lines, self._grammar.record, width > 1)
        for row in ragged:
            line, actual, expected = lines.of(row.number - 1), row.actual_columns, row.expected_columns
            raise Unreadable(
                f"Line {line:,} has {actual:,} fields, and the header has {expected:,}. Correct the line, or declare "
                "the `delimiter` and `quote` of the file."
            )
        records = 0
        for batch in table.to_batches():
            yield Batch([batch.column(name) for name in positions], lines.of, records)
            records += len(batch)

    def _line(self, preceding: bytes) -> int:
        return self._lines + _line_ends(preceding) + 1

    def _undecoded(self, preceding: bytes) -> Unreadable:
        return Unreadable(
            f"Line {self._line(preceding)} is not {self._encoding.upper()}. Declare the `encoding` if it is text."
        )


@dataclass(frozen=True, slots=True)
class _Lines:
    """The line of the file on which each record of a block begins."""

    block: bytes
    preceding_lines: int
    record: re.Pattern[bytes]
    skips_blank: bool

    def of(self, index: int) -> int:
        """Return the line of a record. The header is line 1."""
        at = 0
        while record := self.record.match(self.block, at):
            if not self.skips_blank or record.group().strip(b"\r\n"):
                index -= 1
            if index < 0 or record.end() == len(self.block):
                break
            at = record.end()
        return self.preceding_lines + _line_ends(self.block[:at]) + 1


def _line_ends(text: bytes) -> int:
    return text.count(b"\n") + (text.count(b"\r") - text.count(b"\r\n") if b"\r" in text else 0)
