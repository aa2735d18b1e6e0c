"""CSV (RFC 4180, UTF-8, comma, one header line), read in order, in blocks, every value as text.

A record is a line: fields may be quoted and then hold commas, doubled quotes and line ends. Blank lines are no records,
except in a file of one column, where a blank line is a record with a missing value. A file that breaks these rules
anywhere, in a column that is not declared too, is refused whole.
"""

import codecs
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, NoReturn

import pyarrow as pa
from pyarrow import csv

from app.sources.encoding import locate
from app.sources.errors import Unreadable
from app.wire.datasets import Column

# Bounds the memory, which is some fifty times this, and the longest line.
BLOCK_BYTES = 4 * 2**20
MOST_FILE_COLUMNS = 2**16

_BOM = b"\xef\xbb\xbf"
_FIELD = re.compile(rb'(?:"((?:[^"]++|"")*+)"|([^",\r\n]*+))(,|\r\n|\n|\r|\Z)')


def batches(path: Path, columns: Sequence[Column]) -> Iterator[list[pa.Array]]:
    """The declared columns of the file's records as arrays of strings, block by block, in the file's order.

    Raises
    ------
    Unreadable
        if the file is no CSV; the text may name the number of a record, and never holds a value.
    Mismatch
        if a declared column is not in the header, or is there twice.
    """
    with path.open("rb", buffering=0) as file:
        names, offset = _header(file.read(BLOCK_BYTES))
        wanted = [str(position) for position in locate(names, columns)]
        file.seek(offset)
        yield from _records(_Text(file), len(names), wanted)


def _header(start: bytes) -> tuple[list[str], int]:
    """The names of the first line, and where the second begins."""
    offset = len(_BOM) if start.startswith(_BOM) else 0
    names: list[str] = []
    while len(names) < MOST_FILE_COLUMNS:
        field = _FIELD.match(start, offset)
        if field is None or (field.end() == len(start) == BLOCK_BYTES):
            raise Unreadable("The file is neither Parquet nor CSV: its first line is not a line of column names.")
        quoted, bare, end = field.groups()
        names.append(_name(bare if quoted is None else quoted.replace(b'""', b'"')))
        offset = field.end()
        if end != b",":
            return names, offset
    raise Unreadable(f"The file has more than {MOST_FILE_COLUMNS} columns.")


def _name(raw: bytes) -> str:
    try:
        name = raw.decode()
    except UnicodeDecodeError:
        _not_text()
    if "\0" in name:
        _not_text()
    return name


def _records(text: "_Text", width: int, wanted: Sequence[str]) -> Iterator[list[pa.Array]]:
    names = [str(position) for position in range(width)]
    ragged: list[str] = []

    def refuse(row: csv.InvalidRow) -> str:
        found = f"Record {row.number} has {row.actual_columns} fields; the header has {row.expected_columns}."
        ragged.append(found)
        return "error"

    try:
        reader = csv.open_csv(
            pa.PythonFile(text, "r"),
            # Threads would hide the number of a ragged record, and gain little: the cost is in the values.
            read_options=csv.ReadOptions(block_size=BLOCK_BYTES, use_threads=False, column_names=names),
            parse_options=csv.ParseOptions(
                newlines_in_values=True, ignore_empty_lines=width > 1, invalid_row_handler=refuse
            ),
            convert_options=csv.ConvertOptions(
                column_types=dict.fromkeys(wanted, pa.string()), include_columns=wanted, strings_can_be_null=False
            ),
        )
        for batch in reader:
            yield [batch.column(name) for name in wanted]
        text.check_quotes()
    except pa.ArrowException:
        if text.is_empty:
            return
        reason = ragged[0] if ragged else f"A line is not CSV, or is longer than {BLOCK_BYTES} bytes."
        raise Unreadable(reason) from None


class _Text:
    """What Arrow reads from: a file whose bytes are checked on their way to be UTF-8 without NUL."""

    closed = False

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        self._quotes = 0
        self.is_empty = True

    def check_quotes(self) -> None:
        """Arrow takes all that follows an open quote as one field, up to the file's end if it is never closed."""
        if self._quotes % 2:
            raise Unreadable("A quote in the file is opened and never closed.")

    def read(self, size: int = -1) -> bytes:
        chunk = self._file.read(size)
        try:
            self._decoder.decode(chunk, final=not chunk)
        except UnicodeDecodeError:
            _not_text()
        if b"\0" in chunk:
            _not_text()
        self._quotes += chunk.count(b'"')
        self.is_empty &= not chunk.strip(b"\r\n")
        return chunk

    def close(self) -> None:
        """Arrow's to call; the file is its opener's."""

    def readable(self) -> bool:
        return True

    def writable(self) -> bool:
        return False

    def seekable(self) -> bool:
        return False


def _not_text() -> NoReturn:
    raise Unreadable("The file is neither Parquet nor CSV: it is not UTF-8 text without NUL bytes.") from None
