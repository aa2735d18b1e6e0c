"""A declaration drafted from a file: its dialect, its columns' types, and what nobody could declare left out."""

from datetime import date, datetime, time, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from app.cli.proposal import drafted, hint
from app.sources.errors import Unreadable
from purse.wire.files import PLAIN, Dialect

ROWS = 30
NUMBER = {"type": "number", "lower": None, "upper": None}


def _parquet(path: Path, **columns: pa.Array) -> Path:
    pq.write_table(pa.table(columns), path)
    return path


def test_columns_of_parquet_are_drafted_by_their_types(tmp_path: Path) -> None:
    file = _parquet(
        tmp_path / "typed.parquet",
        town=pa.array(["a", "b", None] * 10).dictionary_encode(),
        born=pa.array([date(2020, 1, 1)] * ROWS),
        seen=pa.array([datetime(2020, 1, 1, 12)] * ROWS),
        paid=pa.array([i / 7 for i in range(ROWS)]),
        flag=pa.array([True, False] * 15),
    )
    draft = drafted(file)
    assert draft.spec["columns"] == [
        {"name": "town", "type": "category", "categories": ["a", "b"]},
        NUMBER | {"name": "born", "date": "days"},
        NUMBER | {"name": "seen", "date": "days"},
        NUMBER | {"name": "paid"},
        {"name": "flag", "type": "category", "categories": ["false", "true"]},
    ]
    assert draft.left_out == []


UNREAD = {
    "list": pa.array([[1, 2]] * ROWS),
    "struct": pa.array([{"a": 1}] * ROWS),
    "map": pa.array([[("a", 1)]] * ROWS, pa.map_(pa.string(), pa.int64())),
    "bytes": pa.array([b"a\xff"] * ROWS),
    "time": pa.array([time(1, 2)] * ROWS),
    "duration": pa.array([timedelta(1)] * ROWS),
    "nothing": pa.nulls(ROWS),
}


@pytest.mark.parametrize("kind", UNREAD)
def test_a_column_of_an_unsupported_type_is_left_out(tmp_path: Path, kind: str) -> None:
    draft = drafted(_parquet(tmp_path / "some.parquet", odd=UNREAD[kind], x=pa.array(range(ROWS))))
    assert (draft.spec["columns"], draft.left_out) == ([NUMBER | {"name": "x"}], ["odd"])


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "windows-1252"])
def test_the_draft_has_the_dialect_of_the_file(tmp_path: Path, encoding: str) -> None:
    file = tmp_path / "file.csv"
    file.write_bytes("town;größe\nKöln;1,5\nUlm;2,5\nBonn;3,5\n".encode(encoding))
    draft = drafted(file)
    expected = {"delimiter": ";", "decimal": ","} | ({} if encoding == "utf-8" else {"encoding": encoding})
    assert draft.spec["dialect"] == expected
    assert [column["name"] for column in draft.spec["columns"]] == ["town", "größe"]
    assert hint(file, PLAIN) == f"The file's delimiter is probably ';', and its encoding {encoding}."
    assert hint(file, Dialect.model_validate(expected)) == ""


def test_bytes_of_no_other_encoding_are_latin_1(tmp_path: Path) -> None:
    file = tmp_path / "file.csv"
    file.write_bytes(b"a;b\n\x81;1\n\x81;2\n\x81;3\n")
    assert drafted(file).spec["dialect"] == {"delimiter": ";", "encoding": "latin-1"}


def test_a_file_that_cannot_be_unpacked_has_no_hint_and_no_draft(tmp_path: Path) -> None:
    file = tmp_path / "file.csv.gz"
    file.write_bytes(b"\x1f\x8b\x08 no more")
    assert hint(file, PLAIN) == ""
    with pytest.raises(Unreadable, match="damaged"):
        drafted(file)


def test_a_long_repeated_text_is_read_once_and_left_out(tmp_path: Path) -> None:
    repeated = pa.DictionaryArray.from_arrays(pa.array([0] * 1000, pa.int32()), pa.array(["x" * 2**20]))
    file = tmp_path / "long.parquet"
    pq.write_table(pa.table({"long": repeated, "x": pa.array(range(1000))}), file, compression="zstd")
    memory_before = pa.default_memory_pool().max_memory()
    draft = drafted(file)
    assert draft.left_out == ["long"]
    assert [column["name"] for column in draft.spec["columns"]] == ["x"]
    assert pa.default_memory_pool().max_memory() - memory_before < 2**27
