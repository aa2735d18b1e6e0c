"""Reading Parquet: the same codes as from CSV, and a footer that is judged before anything is decoded."""

import datetime as dt
import math
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from app.sources import parquet
from app.sources.errors import Mismatch, TooLarge, Unreadable
from app.sources.ingest import Reading, stage
from app.sources.matrix import Floats
from app.sources.pages import ParquetPage, Window, pages
from purse.wire.columns import CategoryColumn, Column, NumberColumn
from tests.support.stored import stored_matrix

X = NumberColumn(name="x", type="number", lower=0.0, upper=10.0)
C = CategoryColumn(name="c", type="category", categories=["red", "7"])


def read(
    folder: Path, table: pa.Table | bytes, columns: Sequence[Column], most_bytes: int = 2**30, **how: Any
) -> Floats:
    """The stored matrix of a table that was written as Parquet, or of raw bytes."""
    file = folder / "upload"
    if isinstance(table, bytes):
        file.write_bytes(table)
    else:
        pq.write_table(table, file, **how)
    destination = folder / "columns"
    reading = Reading(columns, most_rows=most_bytes // (8 * len(columns)))
    assert stage(file, reading, destination)[0] == len(stored_matrix(destination))
    return stored_matrix(destination)


def raw(table: pa.Table, **how: Any) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, **how)
    return bytes(sink.getvalue())


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (pa.array([2**64 - 1, 2**53 + 1, None], pa.uint64()), [1.0, 1.0, 0.0]),
        (pa.array([math.nan, math.inf, 2.5]), [0.0, 0.0, -0.5]),
        (pa.array([np.float16(2.5)] * 3), [-0.5] * 3),
        (pa.array([Decimal("2.5"), None, Decimal("-1")]), [-0.5, 0.0, -1.0]),
        (pa.array([True, False, None]), [-0.8, -1.0, 0.0]),
        (pa.array(["2.5", "nan", None], pa.large_string()), [-0.5, 0.0, 0.0]),
        (pa.array(["2.5", "nan", None], pa.string_view()), [-0.5, 0.0, 0.0]),
        (pa.array(["2.5", "nan", None]).dictionary_encode(), [-0.5, 0.0, 0.0]),
        (pa.array([5, 10, None]).dictionary_encode(), [0.0, 1.0, 0.0]),
        (pa.nulls(3), [0.0] * 3),
    ],
)
def test_a_number_is_read_from_any_plain_type(tmp_path: Path, values: pa.Array, expected: list[float]) -> None:
    assert read(tmp_path, pa.table({"x": values}), [X])[:, 0].tolist() == expected


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (pa.array(["red", " 7 ", None]), [0, 1, 2]),
        (pa.array(["red", "blue", None]).dictionary_encode(), [0, 2, 2]),
        (pa.array([7.0, 7.5, math.nan]), [1, 2, 2]),
        (pa.array([Decimal(7), None, Decimal(8)]), [1, 2, 2]),
        (pa.nulls(3), [2, 2, 2]),
    ],
)
def test_a_category_is_read_from_any_plain_type(tmp_path: Path, values: pa.Array, expected: list[float]) -> None:
    assert read(tmp_path, pa.table({"c": values}), [C])[:, 0].tolist() == expected


@pytest.mark.parametrize(
    "values",
    [
        pa.array([[1.0]]),
        pa.array([{"a": 1}]),
        pa.array([b"red"]),
        pa.array([dt.time(1)]),
        pa.array([dt.timedelta(1)]),
        pa.array([b"0123456789abcdef"], pa.binary(16)),
        pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int64())),
    ],
)
def test_a_type_that_would_be_a_guess_is_refused_by_the_columns_name(tmp_path: Path, values: pa.Array) -> None:
    table = pa.table({"x": [1.0], "c": values, "undeclared": values})
    with pytest.raises(Mismatch) as caught:
        read(tmp_path, table, [X, C])
    assert caught.value.index == 1


@pytest.mark.parametrize("values", [pa.array([dt.date(2026, 1, 9)]), pa.array([dt.datetime(2026, 1, 9, 23)])])
def test_a_column_of_dates_requires_the_part_to_store(tmp_path: Path, values: pa.Array) -> None:
    with pytest.raises(Mismatch, match="`date`"):
        read(tmp_path, pa.table({"c": values}), [C])
    parts = [X.model_copy(update={"name": part, "source": "c", "date": part}) for part in ("day", "month", "weekday")]
    (tmp_path / "again").mkdir()
    assert read(tmp_path / "again", pa.table({"c": values}), parts).tolist() == [[0.8, -0.8, 0.0]]


def test_undeclared_columns_may_be_anything_and_the_declared_order_holds(tmp_path: Path) -> None:
    table = pa.table({"c": ["red"], "secret": [{"a": [1]}], "x": [10], "blob": [b"\0"]})
    assert read(tmp_path, table, [X, C]).tolist() == [[1.0, 0.0]]


def test_a_dotted_name_is_not_taken_for_a_nested_column(tmp_path: Path) -> None:
    dotted = C.model_copy(update={"name": "a.b"})
    assert read(tmp_path, pa.table({"a.b": ["red"]}), [dotted]).tolist() == [[0.0]]
    nested = pa.table({"a": [{"b": "red"}]})
    with pytest.raises(Mismatch, match="in the file"):
        read(tmp_path / "..", nested, [dotted])
    (tmp_path / "both").mkdir()
    with pytest.raises(Mismatch, match="nested column"):
        read(tmp_path / "both", pa.table({"a.b": ["red"], "a": [{"b": "7"}]}), [dotted])


def test_a_declared_name_that_the_file_holds_twice_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Mismatch, match="more than once"):
        read(tmp_path, pa.Table.from_arrays([pa.array([1.0]), pa.array([2.0])], ["x", "x"]), [X])


def test_records_keep_their_positions_across_row_groups_and_batches(tmp_path: Path) -> None:
    n = 200_000
    x = NumberColumn(name="x", type="number", lower=0.0, upper=float(n))
    words = [f"w{i}" for i in range(64)]
    c = CategoryColumn(name="c", type="category", categories=words)
    order = np.arange(n)
    table = pa.table({"c": np.array(words)[order % 64], "x": order})
    matrix = read(tmp_path, table, [x, c], row_group_size=33_333)
    assert np.array_equal(matrix[:, 0], (2 * order - n) / n)
    assert np.array_equal(matrix[:, 1], order % 64)


@pytest.mark.parametrize(
    "damage",
    [
        lambda whole: whole[:4],
        lambda whole: whole[:-1],
        lambda whole: whole[: len(whole) // 2],
        lambda whole: whole[:4] + b"\0" * (len(whole) - 12) + whole[-8:],
        lambda whole: whole[:8] + bytes(byte ^ 0x5A for byte in whole[8:120]) + whole[120:],
        lambda _: b"PAR1" + b"x,c\n1,red\n",
        lambda _: b"PAR1\4\0\0\0PAR1",
        lambda whole: whole[:-8] + b"\0\0\0\0PAR1",
        lambda _: b"PAR1" + b"\x19" * 3000 + (3000).to_bytes(4, "little") + b"PAR1",  # a list of a list of a list ...
    ],
)
def test_a_damaged_file_is_unreadable(tmp_path: Path, damage: Any) -> None:
    whole = raw(pa.table({"x": np.arange(1000.0), "c": ["red"] * 1000}))
    with pytest.raises(Unreadable, match="damaged"):
        read(tmp_path, damage(whole), [X, C])


@pytest.mark.parametrize("store_schema", [True, False])
@pytest.mark.parametrize("name", ["x", "QQ"])
def test_a_column_name_that_is_not_utf8_makes_the_file_unreadable(
    tmp_path: Path, name: str, store_schema: bool
) -> None:
    """Whether the column is declared or not; the name is not quoted."""
    whole = raw(pa.table({"x": [1.0], "QQ": [2.0]}), store_schema=store_schema)
    with pytest.raises(Unreadable, match="UTF-8") as caught:
        read(tmp_path, whole.replace(b"QQ", b"\xff\xfe"), [X.model_copy(update={"name": name})])
    assert caught.value.__suppress_context__


def test_a_text_that_is_not_utf8_is_read_as_missing(tmp_path: Path) -> None:
    whole = raw(pa.table({"x": ["2.5", "QQ"], "c": ["red", "QQ"]}), use_dictionary=False)
    assert read(tmp_path, whole.replace(b"QQ", b"\xff\xfe"), [X, C]).tolist() == [[-0.5, 0.0], [0.0, 2.0]]


def test_a_file_without_records_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Unreadable, match="no records"):
        read(tmp_path, pa.table({"x": pa.array([], pa.float64())}), [X])


def test_an_announced_footer_beyond_the_limit_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet, "MOST_FOOTER_BYTES", 100)
    with pytest.raises(TooLarge, match="footer"):
        read(tmp_path, pa.table({"x": [1.0]}), [X])


def test_a_row_group_that_unfolds_to_too_many_bytes_is_not_decoded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet, "MOST_ROW_GROUP_BYTES", 100_000)
    bomb = pa.table({"x": np.zeros(100_000), "c": np.arange(100_000)})
    how: dict[str, Any] = {"use_dictionary": False, "compression": "zstd"}
    assert len(raw(bomb.select(["x"]), **how)) < 10_000
    with pytest.raises(TooLarge, match="smaller row groups"):
        read(tmp_path, bomb, [X], **how)
    (tmp_path / "small").mkdir()
    assert len(read(tmp_path / "small", bomb, [X], row_group_size=10_000, **how)) == 100_000


def test_more_rows_than_are_taken_are_not_decoded(tmp_path: Path) -> None:
    bomb = pa.table({"x": pa.DictionaryArray.from_arrays(np.zeros(10**6, np.int32), [1.0])})
    assert len(raw(bomb)) < 10_000
    with pytest.raises(TooLarge, match="1,000 rows"):
        read(tmp_path, bomb, [X], most_bytes=8000)


def _varint(value: int, width: int = 0) -> bytes:
    """Encode an integer for Thrift's compact protocol, padded to `width` bytes if it needs fewer."""
    encoded, value = bytearray(), value << 1
    while value > 127 or len(encoded) + 1 < width:
        encoded.append(value & 127 | 128)
        value >>= 7
    return bytes((*encoded, value))


def _forged(whole: bytes, old: bytes, new: bytes) -> bytes:
    """The same file with another footer."""
    at = len(whole) - 8 - int.from_bytes(whole[-8:-4], "little")
    assert old in whole[at:]
    assert len(old) == len(new)
    return whole[:at] + whole[at:].replace(old, new)


def test_a_footer_that_states_smaller_sizes_than_its_pages_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file of ten kilobytes was once unfolded to any size that its pages stated."""
    monkeypatch.setattr(parquet, "MOST_ROW_GROUP_BYTES", 100_000)
    whole = raw(pa.table({"x": np.zeros(100_000)}), use_dictionary=False, compression="zstd")
    size = pq.ParquetFile(pa.BufferReader(whole)).metadata.row_group(0).column(0).total_uncompressed_size
    forged = _forged(whole, _varint(size), _varint(50, len(_varint(size))))
    assert pq.ParquetFile(pa.BufferReader(forged)).metadata.row_group(0).column(0).total_uncompressed_size == 50
    with pytest.raises(TooLarge, match="decompresses"):
        read(tmp_path, forged, [X])
    whole = raw(pa.table({"c": ["red"] * 10}), use_dictionary=False, column_encoding={"c": "DELTA_BYTE_ARRAY"})
    forged = _forged(whole, bytes((0x25, 2 * 3, 2 * 7)), bytes((0x25, 2 * 3, 2 * 0)))
    assert "DELTA_BYTE_ARRAY" not in pq.ParquetFile(pa.BufferReader(forged)).metadata.row_group(0).column(0).encodings
    (tmp_path / "text").mkdir()
    with pytest.raises(Mismatch, match="DELTA_BYTE_ARRAY"):
        read(tmp_path / "text", forged, [C])


@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("packed", ["none", "snappy", "zstd"])
def test_the_sizes_of_the_pages_sum_to_that_of_the_footer(tmp_path: Path, version: str, packed: str) -> None:
    """The pages are read to the end of each column of a correct file."""
    rng = np.random.default_rng(5)
    table = pa.table({"x": rng.normal(size=20_000), "c": [f"{n % 700}" for n in range(20_000)]})
    whole = raw(table, data_page_version=version, compression=packed, data_page_size=1000, row_group_size=6000)
    metadata = pq.ParquetFile(pa.BufferReader(whole)).metadata
    for group in range(metadata.num_row_groups):
        for place in range(2):
            chunk = metadata.row_group(group).column(place)
            chunk_pages = list(pages(whole, parquet.first_page(chunk), chunk.total_compressed_size))
            unfolded = sum(page.unfolded for page in chunk_pages)
            assert len(chunk_pages) > 2
            assert 0 < chunk.total_uncompressed_size - unfolded < 100 * len(chunk_pages), (
                "the difference is the size of the headers"
            )
            assert {encoding for page in chunk_pages for encoding in page.encodings} <= {0, 2, 3, 8}
            assert all(len(page.encodings) == 1 for page in chunk_pages)
    assert len(read(tmp_path, whole, [X])) == 20_000


def test_bytes_that_are_not_pages_are_unreadable() -> None:
    """Random bytes raise no other error, and the iteration ends."""
    rng, ends = np.random.default_rng(5), 0
    for _ in range(3000):
        data = rng.bytes(int(rng.integers(1, 60)))
        try:
            assert sum(page.unfolded >= 0 for page in pages(data, 0, len(data))) <= len(data)
        except Unreadable:
            ends += 1
    assert ends > 2000
    for start, length in ((-1, 5), (0, 6), (3, 3), (0, -1)):
        with pytest.raises(Unreadable):
            list(pages(b"\x15\x00\x15\x00\x00", start, length))


def _page(*fields: tuple[int, int, bytes]) -> bytes:
    """A header in which each field says its number in full."""
    return b"".join(bytes((kind,)) + _varint(number) + value for number, kind, value in fields) + b"\0"


SIZES = (2, 5, _varint(10**6)), (3, 5, _varint(0))


def test_of_ambiguous_page_headers_the_larger_size_counts() -> None:
    """Sizes and encodings may be repeated, have another type, or exceed the range of their type."""
    own = {place: (place, 12, _page((2 if place == 5 else 4, 5, _varint(7 if place == 8 else 0)))) for place in (5, 8)}
    [page] = pages(content := _page(*SIZES, (2, 6, _varint(5)), own[5], own[8]), 0, len(content))
    assert (page.unfolded, page.encodings) == (10**6, (0, 7))
    for wrong in (
        _page(SIZES[0], (3, 5, _varint(2**32))),
        _page(SIZES[0], (3, 5, _varint(1))),
        _page((2, 5, _varint(2**31)), SIZES[1]),
        _page(*SIZES, (2**16 + 2, 5, _varint(5))),
        _page(SIZES[0], (3, 6, _varint(0))),
    ):
        with pytest.raises(Unreadable):
            list(pages(wrong, 0, len(wrong)))


def test_a_column_is_found_by_its_position_for_any_name_of_its_chunk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet, "MOST_ROW_GROUP_BYTES", 100_000)
    whole = raw(
        pa.table({"long name": np.zeros(100_000)}), use_dictionary=False, compression="zstd", store_schema=False
    )
    at = whole.rindex(b"long name")
    forged = whole[:at] + b"lost name" + whole[at + 9 :]
    assert pq.ParquetFile(pa.BufferReader(forged)).metadata.row_group(0).column(0).path_in_schema == "lost name"
    column = NumberColumn(name="long name", type="number", lower=0.0, upper=10.0)
    with pytest.raises(TooLarge, match="decompresses"):
        read(tmp_path, forged, [column])


def test_the_number_of_pages_is_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet, "MOST_PAGES", 3)
    table = pa.table({"x": np.arange(100.0)})
    with pytest.raises(TooLarge, match="3 pages"):
        read(tmp_path, table, [X], row_group_size=20, use_dictionary=False)


def test_the_size_of_a_batch_counts_the_pages_that_its_rows_can_reach() -> None:
    """A batch of three rows reaches three pages of one row, or two pages of many rows."""
    for rows, values, most_bytes in ((3, 1, 30), (3, 2, 20), (3, 100, 20), (1, 1, 10), (100, 1, 50)):
        window = Window(rows)
        for _ in range(5):
            window.add(ParquetPage(10, (0,), values, is_dictionary=False))
        assert window.largest == most_bytes, (rows, values)


@pytest.mark.parametrize("encoding", ["DELTA_BYTE_ARRAY", "DELTA_LENGTH_BYTE_ARRAY"])
def test_a_refused_text_encoding_is_named(tmp_path: Path, encoding: str) -> None:
    how: dict[str, Any] = {"use_dictionary": False, "column_encoding": {"c": encoding}}
    with pytest.raises(Mismatch, match=f"'c' is {encoding} encoded"):
        read(tmp_path, pa.table({"c": ["red"] * 10}), [C], **how)


def test_a_text_that_is_too_long_is_refused_by_its_row_and_column(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet, "MOST_TEXT_BYTES", 100)
    read(tmp_path, pa.table({"c": ["red", None, "x" * 100]}), [C])
    (tmp_path / "long").mkdir()
    with pytest.raises(Unreadable, match="Row 3") as caught:
        read(tmp_path / "long", pa.table({"c": ["red", None, "x" * 101, "7"]}), [C])
    assert "xx" not in caught.value.detail


def test_row_groups_with_large_texts_are_read_separately(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet, "MOST_TEXT_BYTES_AT_ONCE", 2000)
    words = [f"w{n}" for n in range(64)]
    column = CategoryColumn(name="c", type="category", categories=words)
    table = pa.table({"c": [words[n % 7] for n in range(100)]})
    assert read(tmp_path, table, [column], row_group_size=9)[:, 0].tolist() == [n % 7 for n in range(100)]


def test_csv_and_parquet_agree(tmp_path: Path) -> None:
    x, c = ["1", "2.5", "", "1e400", "-3"], ["red", " red", "", "blue", "7"]
    lines = "".join(f"{a},{b}\n" for a, b in zip(x, c, strict=True))
    (tmp_path / "csv").mkdir()
    (tmp_path / "parquet").mkdir()
    from_csv = read(tmp_path / "csv", f"x,c\n{lines}".encode(), [C, X])
    from_parquet = read(tmp_path / "parquet", pa.table({"x": x, "c": c}), [C, X])
    assert np.array_equal(from_csv, from_parquet)


@pytest.mark.parametrize("place", [0, 7, 29])
@pytest.mark.parametrize("record", [("", ""), ("1e400", "red"), ("7", "no such"), (None, None)])
def test_replacing_one_record_changes_one_row(
    tmp_path: Path, place: int, record: tuple[str | None, str | None]
) -> None:
    records: list[tuple[str | None, str | None]] = [(str(i % 12), ["red", "7", "x"][i % 3]) for i in range(30)]
    replaced = [*records[:place], record, *records[place + 1 :]]
    matrices = []
    for name, rows in (("before", records), ("after", replaced), ("alone", [record])):
        (tmp_path / name).mkdir()
        x, c = zip(*rows, strict=True)
        table = pa.table({"x": pa.array(x, pa.string()), "c": pa.array(c, pa.string())})
        matrices.append(read(tmp_path / name, table, [X, C], row_group_size=8))
    original_rows, replaced_rows, single_row = matrices
    assert np.array_equal(np.delete(original_rows, place, axis=0), np.delete(replaced_rows, place, axis=0))
    assert np.array_equal(replaced_rows[[place]], single_row)
