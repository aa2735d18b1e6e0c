"""CSV (RFC 4180, UTF-8, comma, one header line), read in order, in blocks, every value as text.

A record is a line: fields may be quoted and then hold commas, doubled quotes and line ends. Blank lines are no records,
except in a file of one column, where a blank line is a record with a missing value. A file that breaks these rules
anywhere, in a column that is not declared too, is refused whole.
"""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa
from pyarrow import csv

from app.sources.encoding import Named, locate
from app.sources.errors import Unreadable

# Bounds the memory, which is some seventy times this, and the longest record.
BLOCK_BYTES = 4 * 2**20
MOST_FILE_COLUMNS = 2**16

_BOM = b"\xef\xbb\xbf"
# Groups are atomic, not possessive: Python up to 3.11.4 forgets where a possessive group ended (gh-106052).
_FIELD = re.compile(rb'(?:"((?>(?:[^"]++|"")*))"|([^",\r\n]*+))(,|\r\n|\n|\r|\Z)')
# Whole records: bare text, quotes inside it, which stand for themselves, and quoted text, up to a line end. A doubled
# quote is the end of one quoted text and the beginning of another.
_RECORDS = re.compile(rb'(?>(?:(?>[^"\r\n]*+(?>(?:(?:(?<=[^,\r\n"])"++|"[^"]*+")[^"\r\n]*+)*)[\r\n]++))*)')


def batches(path: Path, columns: Sequence[Named]) -> Iterator[list[pa.Array]]:
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
        yield from _records(file, len(names), wanted)


def _header(start: bytes) -> tuple[list[str], int]:
    """The names of the first line, and where the second begins."""
    offset = len(_BOM) if start.startswith(_BOM) else 0
    names: list[str] = []
    while len(names) < MOST_FILE_COLUMNS:
        field = _FIELD.match(start, offset)
        if field is None or (field.end() == len(start) == BLOCK_BYTES):
            raise Unreadable("The file is neither Parquet nor CSV: its first line is not a line of column names.")
        quoted, bare, end = field.groups()
        names.append(_checked(bare if quoted is None else quoted.replace(b'""', b'"')))
        offset = field.end()
        if end != b",":
            return names, offset
    raise Unreadable(f"The file has more than {MOST_FILE_COLUMNS} columns.")


def _records(file: BinaryIO, width: int, wanted: Sequence[str]) -> Iterator[list[pa.Array]]:
    done = 0
    for block in _blocks(file):
        _checked(block)
        if block if width == 1 else block.strip(b"\r\n"):
            table = _parsed(block, width, wanted, done)
            done += len(table)
            for batch in table.to_batches():
                yield [batch.column(name) for name in wanted]


def _blocks(file: BinaryIO) -> Iterator[bytes]:
    """The rest of the file, cut between records into blocks of at most BLOCK_BYTES.

    Each is whole before Arrow sees it: a reader of Arrow's that pulls from the file by itself does so on a thread of
    its own, and that thread can wait for itself, and the process for it at its end, once the reader is given up midway.
    """
    rest = b""
    while piece := file.read(BLOCK_BYTES - len(rest)):
        text = rest + piece
        end = _end(text)
        if end == 0 and len(text) == BLOCK_BYTES:
            raise Unreadable(f"A record is longer than {BLOCK_BYTES} bytes, or a quote in it is never closed.")
        yield text[:end]
        rest = text[end:]
    if _end(rest + b"\n") <= len(rest):
        raise Unreadable("A quote in the file is opened and never closed.")
    yield rest


def _end(text: bytes) -> int:
    """Where the last whole record ends; a carriage return at the very end may be half of a line end."""
    stop = len(text) - text.endswith(b"\r")
    if b'"' not in text:
        return max(text.rfind(b"\n", 0, stop), text.rfind(b"\r", 0, stop)) + 1
    found = _RECORDS.match(text, 0, stop)
    return found.end() if found else 0


def _parsed(block: bytes, width: int, wanted: Sequence[str], done: int) -> pa.Table:
    """The columns wanted of a block's records, of which `done` came before it."""
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
                block_size=len(block) + 1, use_threads=False, column_names=[str(position) for position in range(width)]
            ),
            parse_options=csv.ParseOptions(
                newlines_in_values=True, ignore_empty_lines=width > 1, invalid_row_handler=note
            ),
            convert_options=csv.ConvertOptions(
                column_types=dict.fromkeys(wanted, pa.string()), include_columns=wanted, strings_can_be_null=False
            ),
        )
    except pa.ArrowException:
        raise Unreadable("A line is not CSV.") from None
    for row in ragged:
        number, found, expected = done + row.number, row.actual_columns, row.expected_columns
        raise Unreadable(f"Record {number} has {found} fields; the header has {expected}.")
    return table


def _checked(raw: bytes) -> str:
    """UTF-8 without NUL, in declared columns and in the others."""
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        raise Unreadable("The file is neither Parquet nor CSV: it is not UTF-8 text without NUL bytes.")
    return text
