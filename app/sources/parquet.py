"""Parquet files, read in order, row group by row group, in batches. The footer is checked before anything is decoded.

Booleans, integers, floats, decimals, text (also dictionary-encoded) and null columns are read, and dates and timestamps
if the column declares a `date`. Nested columns, raw bytes, times of a day and durations are refused.
"""

import mmap
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from app.sources.batch import MOST_TEXT_BYTES, Batch, Named, locate
from app.sources.dates import is_date
from app.sources.encoding import is_text, text_lengths
from app.sources.errors import Mismatch, TooLarge, Unreadable
from app.sources.footer import check_footer
from app.sources.pages import ParquetPage, Window, pages

MAGIC = b"PAR1"
MOST_FOOTER_BYTES = 64 * 2**20
# Of the declared columns, uncompressed, in one row group:
MOST_ROW_GROUP_BYTES = 2**30
MOST_PAGES_BYTES = 2**29  # of the largest page of each column, which are in memory together
MOST_TEXT_BYTES_AT_ONCE = 2**27  # of each dictionary, and of the text of one batch; Arrow uses about four times this
MOST_PAGES = 2**20  # of the declared columns; each is checked
_ENTRY_BYTES = 64  # beyond its characters, about what decoding and encoding one distinct text takes
_UNBOUNDED = {6: "DELTA_LENGTH_BYTE_ARRAY", 7: "DELTA_BYTE_ARRAY"}  # of parquet.thrift; Arrow reads neither as needed
_BATCH_ROWS = 2**16
_BATCH_VALUES = 2**21
_BUFFER_BYTES = 2**16

_DAMAGED = "The file begins like Parquet but is damaged, encrypted, or not Parquet. Write it again without encryption."
_NAMES = "The file has a column whose name is not UTF-8. Rename the column."


def batches(path: Path, columns: Sequence[Named], most_rows: int) -> Iterator[Batch]:
    """Yield the declared columns of the file's records, batch by batch, in the file's order.

    Text is dictionary-encoded: a long value that is repeated a million times takes the memory of one.

    Raises
    ------
    Unreadable
        if the file is not Parquet, or holds a text longer than MOST_TEXT_BYTES.
    Mismatch
        if a declared column is not in the file, is there twice, or has a type or an encoding that is not read.
    TooLarge
        if the footer announces more than `most_rows` rows, or a row group unfolds to too much.
    """
    with _damage(), pa.OSFile(str(path)) as file:
        _check_footer(path)
        size = max(1, min(_BATCH_ROWS, _BATCH_VALUES // len(columns)))
        names, texts = _judge(pq.ParquetFile(file), columns, most_rows)
        with path.open("rb") as raw, mmap.mmap(raw.fileno(), 0, access=mmap.ACCESS_READ) as data:
            runs = _check_row_groups(data, pq.ParquetFile(file).metadata, names, columns, texts, size)
        opened = pq.ParquetFile(file, read_dictionary=texts, pre_buffer=False, buffer_size=_BUFFER_BYTES)
        for index, name in enumerate(names):
            if name in texts and not pa.types.is_dictionary(opened.schema_arrow.field(name).type):
                raise Mismatch(index, columns[index].name, "has the name of a nested column as well")
        records, distinct = 0, list(dict.fromkeys(names))
        for run in runs:
            for batch in opened.iter_batches(batch_size=size, row_groups=run, columns=distinct, use_threads=False):
                read = Batch([batch.column(name) for name in names], lambda row: row + 1, records)
                for name in texts:
                    _check_texts(batch.column(name), columns[names.index(name)].name, read)
                yield read
                records += len(batch)


def names(path: Path) -> list[str]:
    """Return the names of all columns. Raise `Unreadable` if the file is damaged. Its footer may have any size."""
    with _damage():
        return [str(name) for name in pq.read_schema(path).names]


@contextmanager
def _damage() -> Iterator[None]:
    try:
        yield
    except UnicodeDecodeError:  # only names are decoded here, values remain Arrow's
        raise Unreadable(_NAMES) from None
    except (pa.ArrowException, OSError):  # Arrow raises an OSError for thrift that it cannot read
        raise Unreadable(_DAMAGED) from None


def _check_footer(path: Path) -> None:
    with path.open("rb") as file:
        size = file.seek(0, 2)
        if size < 12:
            raise Unreadable(_DAMAGED)
        file.seek(-8, 2)
        tail = file.read(8)
        if tail[4:] != MAGIC:
            raise Unreadable(_DAMAGED)
        length = int.from_bytes(tail[:4], "little")
        if length > min(size, MOST_FOOTER_BYTES):
            raise TooLarge(f"The file's footer is longer than {MOST_FOOTER_BYTES:,} bytes. Write fewer row groups.")
        if length > size - 12:
            raise Unreadable(_DAMAGED)
        file.seek(-8 - length, 2)
        footer = file.read(length)
    check_footer(footer)


def _judge(file: pq.ParquetFile, columns: Sequence[Named], most_rows: int) -> tuple[list[str], list[str]]:
    """Return the names in the file of the declared columns, and the names of those that are text."""
    schema = file.schema_arrow
    names = [schema.names[position] for position in locate(schema.names, columns)]
    texts = []
    for index, name in enumerate(names):
        kind = schema.field(name).type
        if _is_words(kind):
            texts.append(name)
        elif is_date(kind) and not columns[index].date:
            raise Mismatch(index, columns[index].name, "contains dates. Declare with `date` which part is stored")
        elif not is_read(kind):
            raise Mismatch(
                index, columns[index].name, "has a type that is not read. Write it as numbers, dates, booleans or text"
            )
    if not 0 <= file.metadata.num_rows <= most_rows:
        raise TooLarge(
            f"With these columns a file may have at most {most_rows:,} rows. Declare fewer columns, or send fewer rows."
        )
    return names, texts


@dataclass(slots=True)
class _RowGroup:
    """The unpacked size of the declared columns of one row group.

    Parameters
    ----------
    rows : of a batch
    total : bytes of all pages
    pages : bytes of the largest page of each column
    text : bytes of text that are in memory at the same time: each column's dictionary, and its pages of one batch
    """

    rows: int
    total: int = 0
    pages: int = 0
    text: int = 0

    def add(self, column_pages: Iterable[ParquetPage], is_text: bool) -> None:
        """Add the pages of one column. Raise `TooLarge` if the row group unfolds to too much."""
        largest, window = 0, Window(self.rows)
        for page in column_pages:
            self.total += page.unfolded
            largest = max(largest, page.unfolded)
            if page.is_dictionary:
                self.text += is_text * (page.unfolded + _ENTRY_BYTES * page.values)
            else:
                window.add(page)
            self._check(largest, window.largest * is_text)
        self.pages += largest
        self.text += window.largest * is_text

    def _check(self, page: int, text: int) -> None:
        """Raise `TooLarge` if it is too much, together with a column that is being added."""
        limits = (
            (self.total, MOST_ROW_GROUP_BYTES, "A row group decompresses"),
            (self.pages + page, MOST_PAGES_BYTES, "The largest pages of a row group's columns together decompress"),
            (self.text + text, MOST_TEXT_BYTES_AT_ONCE, "The text of a row group that is read together decompresses"),
        )
        for size, limit, subject in limits:
            if size > limit:
                raise TooLarge(f"{subject} to more than {limit:,} bytes. Write smaller row groups, pages and texts.")


def _check_row_groups(
    data: Any,
    metadata: pq.FileMetaData,
    names: Sequence[str],
    columns: Sequence[Named],
    texts: Sequence[str],
    rows: int,
) -> list[list[int]]:
    """Check the unpacked size of each row group by the headers of its pages; return the row groups to read together.

    A batch may hold records of several row groups, and then holds the distinct texts of each of them: row groups that
    follow each other are read together while all their text fits MOST_TEXT_BYTES_AT_ONCE.

    Parameters
    ----------
    data : the file, by byte
    names : of the declared columns, in the file
    texts : those of them that are text
    rows : of a batch
    """
    paths = [metadata.schema.column(position).path for position in range(metadata.num_columns)]
    positions = [position for position, path in enumerate(paths) if path in names]  # a chunk's own path is not believed
    runs: list[list[int]] = []
    pages_read = text_bytes = 0

    def checked(chunk: pq.ColumnChunkMetaData, index: int) -> Iterator[ParquetPage]:
        nonlocal pages_read
        for page in pages(data, first_page(chunk), chunk.total_compressed_size):
            pages_read += 1
            if pages_read > MOST_PAGES:
                raise TooLarge(f"The file has more than {MOST_PAGES:,} pages. Write larger pages in larger row groups.")
            _check_encodings(page, index, columns[index].name)
            yield page

    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        size = _RowGroup(rows)
        for position in positions:
            chunk = group.column(position) if position < group.num_columns else None
            if chunk is not None and chunk.num_values > 0:  # otherwise no page is read
                size.add(checked(chunk, names.index(paths[position])), paths[position] in texts)
        text_bytes += size.text
        if not runs or text_bytes > MOST_TEXT_BYTES_AT_ONCE:
            runs.append([])
            text_bytes = size.text
        runs[-1].append(number)
    return runs


def _check_encodings(page: ParquetPage, index: int, name: str) -> None:
    for encoding in page.encodings:
        if encoding in _UNBOUNDED:
            reason = (
                f"is {_UNBOUNDED[encoding]} encoded, which can unfold without bound: write it PLAIN or RLE_DICTIONARY"
            )
            raise Mismatch(index, name, reason)


def _check_texts(values: pa.DictionaryArray, name: str, batch: Batch) -> None:
    """Raise `Unreadable` if a text is longer than MOST_TEXT_BYTES; the message names the column and the row."""
    lengths = text_lengths(values.dictionary)
    if lengths.max(initial=0) <= MOST_TEXT_BYTES:
        return
    at = values.indices.index(int(lengths.argmax())).as_py()
    where = f"The column {name!r}" if at < 0 else f"Row {batch.line(at):,} of the column {name!r}"
    raise Unreadable(f"{where} has a text longer than {MOST_TEXT_BYTES:,} bytes. Shorten it, or leave the column out.")


def first_page(chunk: pq.ColumnChunkMetaData) -> int:
    """Return the position of a chunk's first page, as Arrow computes it."""
    first: int = chunk.data_page_offset
    words: int | None = chunk.dictionary_page_offset
    return words if words is not None and 0 < words < first else first


def is_read(kind: pa.DataType) -> bool:
    """Return whether a column of this type can be declared."""
    types = pa.types
    tests = (types.is_boolean, types.is_integer, types.is_floating, types.is_decimal, types.is_null, is_date, _is_words)
    return any(test(kind) for test in tests)


def _is_words(kind: pa.DataType) -> bool:
    return is_text(kind.value_type if pa.types.is_dictionary(kind) else kind)
