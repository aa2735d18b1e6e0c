"""Parquet, read in order, row group by row group, in batches; its footer is judged before anything is decoded.

Read are booleans, integers, floats, decimals, text (also dictionary-encoded), null columns, and dates and timestamps
where the column says what of them is stored. Refused are nested columns, raw bytes, times of a day and durations.
"""

import mmap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from app.sources.batch import Batch, Named, locate
from app.sources.dates import is_date
from app.sources.encoding import is_text
from app.sources.errors import Mismatch, TooLarge, Unreadable
from app.sources.pages import pages

if TYPE_CHECKING:
    import pyarrow.parquet as pq

MAGIC = b"PAR1"
MOST_FOOTER_BYTES = 64 * 2**20
MOST_ROW_GROUP_BYTES = 2**30  # of the declared columns, uncompressed
MOST_PAGES = 2**20  # of the declared columns: each is looked at
_DELTA_BYTE_ARRAY = 7  # of parquet.thrift
_BATCH_ROWS = 2**16
_BATCH_VALUES = 2**21
_BUFFER_BYTES = 2**16

_DAMAGED = "The file begins like Parquet but is damaged, encrypted, or not Parquet."
_NAMES = "The file has a column whose name is not UTF-8."


def batches(path: Path, columns: Sequence[Named], most_rows: int) -> Iterator[Batch]:
    """The declared columns of the file's records, batch by batch, in the file's order.

    Text comes dictionary-encoded, so that one long value that is repeated a million times costs no more than once.

    Raises
    ------
    Unreadable
        if the file is no Parquet.
    Mismatch
        if a declared column is not in the file, is there twice, or has a type that is not read.
    TooLarge
        if the footer announces more than `most_rows` rows, or a row group that unfolds to too much.
    """
    import pyarrow.parquet as pq  # late: a file that is none needs none of it

    with _damage(), pa.OSFile(str(path)) as file:
        _check_footer_length(path)
        names, texts = _judge(pq.ParquetFile(file), columns, most_rows)
        with path.open("rb") as raw, mmap.mmap(raw.fileno(), 0, access=mmap.ACCESS_READ) as data:
            _check_row_groups(data, pq.ParquetFile(file).metadata, names, columns)
        opened = pq.ParquetFile(file, read_dictionary=texts, pre_buffer=False, buffer_size=_BUFFER_BYTES)
        for index, name in enumerate(names):
            if name in texts and not pa.types.is_dictionary(opened.schema_arrow.field(name).type):
                raise Mismatch(index, columns[index].name, "has the name of a nested column too")
        size = max(1, min(_BATCH_ROWS, _BATCH_VALUES // len(columns)))
        done = 0
        for batch in opened.iter_batches(batch_size=size, columns=list(dict.fromkeys(names)), use_threads=False):
            yield Batch([batch.column(name) for name in names], lambda row: row + 1, done)
            done += len(batch)


@contextmanager
def _damage() -> Iterator[None]:
    try:
        yield
    except UnicodeDecodeError:  # a name is all that is decoded here; values stay Arrow's
        raise Unreadable(_NAMES) from None
    except (pa.ArrowException, OSError):  # Arrow says OSError for a thrift that it cannot read
        raise Unreadable(_DAMAGED) from None


def _check_footer_length(path: Path) -> None:
    with path.open("rb") as file:
        size = file.seek(0, 2)
        if size < 12:
            raise Unreadable(_DAMAGED)
        file.seek(-8, 2)
        tail = file.read(8)
    if tail[4:] != MAGIC:
        raise Unreadable(_DAMAGED)
    if int.from_bytes(tail[:4], "little") > min(size, MOST_FOOTER_BYTES):
        raise TooLarge(f"The file's footer is longer than {MOST_FOOTER_BYTES} bytes.")


def _judge(file: "pq.ParquetFile", columns: Sequence[Named], most_rows: int) -> tuple[list[str], list[str]]:
    """The names in the file of the declared columns, and of those among them that are text."""
    schema = file.schema_arrow
    names = [schema.names[position] for position in locate(schema.names, columns)]
    texts = []
    for index, name in enumerate(names):
        kind = schema.field(name).type
        if _is_words(kind):
            texts.append(name)
        elif is_date(kind) and not columns[index].date:
            raise Mismatch(index, columns[index].name, "holds dates: say with `date` what of them is stored")
        elif not is_read(kind):
            raise Mismatch(index, columns[index].name, "has a type that is not read")
    if not 0 <= file.metadata.num_rows <= most_rows:
        raise TooLarge(f"With these columns at most {most_rows} rows are taken.")
    return names, texts


def _check_row_groups(data: Any, metadata: "pq.FileMetaData", names: Sequence[str], columns: Sequence[Named]) -> None:
    wanted, looked = {name: index for index, name in enumerate(names)}, 0
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        total = 0
        for position in range(group.num_columns):
            chunk = group.column(position)
            index = wanted.get(metadata.schema.column(position).path)  # the chunk's own word for it counts nowhere
            if index is None or chunk.num_values <= 0:  # then no page is read
                continue
            for page in pages(data, _start(chunk), chunk.total_compressed_size):
                looked, total = looked + 1, total + page.unfolded
                if _DELTA_BYTE_ARRAY in page.encodings:
                    what = "is DELTA_BYTE_ARRAY encoded, which can unfold without bound"
                    raise Mismatch(index, columns[index].name, what)
                if looked > MOST_PAGES:
                    raise TooLarge(f"At most {MOST_PAGES} pages are taken: write larger ones, in larger row groups.")
                if total > MOST_ROW_GROUP_BYTES:
                    what = f"unfolds to more than {MOST_ROW_GROUP_BYTES} bytes"
                    raise TooLarge(f"A row group {what}: write smaller row groups.")


def _start(chunk: "pq.ColumnChunkMetaData") -> int:
    """Where its pages begin, as Arrow has it."""
    first: int = chunk.data_page_offset
    words: int | None = chunk.dictionary_page_offset
    return words if words is not None and 0 < words < first else first


def is_read(kind: pa.DataType) -> bool:
    """Whether a column of this type can be declared."""
    types = pa.types
    tests = (types.is_boolean, types.is_integer, types.is_floating, types.is_decimal, types.is_null, is_date, _is_words)
    return any(test(kind) for test in tests)


def _is_words(kind: pa.DataType) -> bool:
    return is_text(kind.value_type if pa.types.is_dictionary(kind) else kind)
