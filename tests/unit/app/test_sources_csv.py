"""Reading CSV: every record in its place, and every file that is not CSV refused without a word of what it holds."""

import gzip
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.sources import csv
from app.sources.errors import Mismatch, TooLarge, Unreadable
from app.sources.ingest import Reading, stage
from app.sources.matrix import Floats
from purse.wire.columns import CategoryColumn, Column, NumberColumn
from purse.wire.files import Dialect
from tests.support.patience import PATIENCE
from tests.support.stored import stored_matrix

SECRET = "s3cr3t"
COLUMNS: list[Column] = [
    NumberColumn(name="x", type="number", lower=0.0, upper=10.0),
    CategoryColumn(name="c", type="category", categories=["red", "blue, dark", 'say "no"', "two\nlines"]),
]


def read(folder: Path, content: bytes, columns: Sequence[Column] = COLUMNS, most_bytes: int = 2**30) -> Floats:
    """The stored matrix of a file, as an array."""
    file = folder / "upload"
    file.write_bytes(content)
    destination = folder / "columns"
    rows, _ = stage(file, Reading(columns, most_rows=most_bytes // (8 * len(columns))), destination)
    matrix = stored_matrix(destination)
    assert matrix.shape == (rows, len(columns))
    return matrix


@pytest.mark.parametrize(
    "content",
    [
        b"c,x\nred,0\ngreen,10\n",
        b"c,x\nred,0\ngreen,10",
        b"c,x\r\nred,0\r\ngreen,10\r\n",
        b"c,x\rred,0\rgreen,10\r",
        b"\xef\xbb\xbfc,x\nred,0\ngreen,10\n",
        b'"c","x"\n"red","0"\n"green","10"\n',
        b" c ,x\t\n red , 0\ngreen,10\n",
        b"c,x\n\nred,0\n\n\ngreen,10\n\n",
        b"id,c,more,x\n1,red,\xc3\xa9,0\n2,green,,10\n",
        b"more,x,c,id\n,0,red,1\n,10,green,2\n",
    ],
)
def test_the_declared_columns_come_in_the_declared_order(tmp_path: Path, content: bytes) -> None:
    assert read(tmp_path, content).tolist() == [[-1.0, 0.0], [1.0, 4.0]]


def test_quoted_fields_hold_commas_quotes_and_line_ends(tmp_path: Path) -> None:
    content = b'c,x\n"blue, dark",0\n"say ""no""",5\n"two\nlines",10\n"",5\n'
    assert read(tmp_path, content).tolist() == [[-1.0, 1.0], [0.0, 2.0], [1.0, 3.0], [0.0, 4.0]]


def test_a_blank_line_is_a_record_in_a_file_of_one_column_only(tmp_path: Path) -> None:
    assert read(tmp_path, b"x\n10\n\n0\n", COLUMNS[:1]).tolist() == [[1.0], [0.0], [-1.0]]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "empty"),
        (b"x,c", "no records"),
        (b"x,c\n", "no records"),
        (b"x,c\r\n\r\n\n", "no records"),
        (b"x,c\n1,red\n2\n", "Line 3 has 1 fields, and the header has 2"),
        (b"x,c\n1,red\n\n2,red,s3cr3t\n", "Line 4 has 3 fields, and the header has 2"),
        (b'x,c\n1,"s3cr3t\n2,red\n', "line 2 opens a quote and does not close"),
        (b'x,c\n"1,s3cr3t\n2,red\n', "not close"),
        (b"x,c\n1,red\n\n1,s3cr3t\0\n", "Line 4 contains a NUL"),
        (b"x,c,more\n1,red,caf\xe9 s3cr3t\n", "Line 2 is not UTF-8"),
        (b"x,c\n1,red\n2,s3cr3t\xc3", "Line 3 is not UTF-8"),
        ("x,c\n1,s3cr3t\n".encode("utf-16"), "UTF-8"),
        ("x,c\n1,s3cr3t\n".encode("utf-16-be"), "NUL"),
        (gzip.compress(b"x,c\n1,s3cr3t\n", mtime=0)[:-3], "gzip but is damaged"),
        (gzip.compress(b"x,c\n1,s3cr3t\n", mtime=0) + b"more", "gzip but is damaged"),
        (pa.compress(b"x,c\n1,s3cr3t\n", "zstd", asbytes=True)[:-3], "zstd but is damaged"),
        (b"x,c\n1,s3cr3t\n\xef\xbb\xbf", "text from line 3 on is not CSV"),
        (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "UTF-8"),
        (b"PK\x03\x04\x14\0\0\0", "as Excel workbooks are"),
        (b'x,c"s3cr3t\n1,red\n', "line 1 does not"),
        (b'x,"c\n1,red\n', "line 1 does not"),
        (b"x,c\n1," + b"s3cr3t" * 2**21 + b"\n", "longer"),
        (b"x,c" + b",s3cr3t" * 2**20 + b"\n1,red\n", "columns"),
        (b"x," + b"c" * 2**23 + b"\n1,red\n", "line 1 does not"),
        (b"x,c" + b"," * 2**16 + b"\n1,red\n", "more than 65,536 columns"),
    ],
    ids=lambda value: value if isinstance(value, str) else f"{len(value)} bytes",
)
def test_a_file_that_is_not_csv_is_refused_and_not_quoted(tmp_path: Path, content: bytes, reason: str) -> None:
    with pytest.raises(Unreadable, match=reason) as caught:
        read(tmp_path, content)
    assert SECRET not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


@pytest.mark.parametrize(
    ("content", "index"), [(b"x\n1\n", 1), (b"c;x\nred;1\n", 0), (b"x,c,x\n1,red,2\n", 0), (b"x,C\n1,red\n", 1)]
)
def test_a_declared_column_that_is_not_there_once_is_named(tmp_path: Path, content: bytes, index: int) -> None:
    with pytest.raises(Mismatch) as caught:
        read(tmp_path, content)
    assert caught.value.index == index
    assert repr(COLUMNS[index].name) in caught.value.detail


def test_a_file_with_too_many_rows_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TooLarge, match="2 rows"):
        read(tmp_path, b"x,c\n" + b"1,red\n" * 3, most_bytes=47)


def test_records_keep_their_positions_across_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv, "BLOCK_BYTES", 4096)
    n = 20_000
    column = NumberColumn(name="x", type="number", lower=0.0, upper=float(n))
    lines = [f'"{i}","{"é" * (i % 7)}\n"' for i in range(n)]
    matrix = read(tmp_path, ("x,more\n" + "\n".join(lines)).encode(), [column])
    assert np.array_equal(matrix[:, 0], (2 * np.arange(n) - n) / n)


@pytest.mark.parametrize(("delimiter", "quote"), [(",", '"'), ("|", "'")])
def test_a_doubled_quote_does_not_end_a_record_at_any_block_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, delimiter: str, quote: str
) -> None:
    text = 'x,c\n1,"say ""no"",\nthen ""\n"""\n2,a""b\n"""\n",red\n4,blue\n'
    (tmp_path / "file").write_text(text.replace('"', quote).replace(",", delimiter))

    def records() -> list[tuple[str, int]]:
        batches = csv.batches(tmp_path / "file", COLUMNS[:1], Dialect(delimiter=delimiter, quote=quote))
        return [(x, batch.line(i)) for batch in batches for i, x in enumerate(batch.columns[0].to_pylist())]

    for size in range(32, len(text)):
        monkeypatch.setattr(csv, "BLOCK_BYTES", size)
        assert records() == [("1", 2), ("2", 5), (f"{quote}\n", 6), ("4", 8)], size


@pytest.mark.slow
def test_the_number_of_a_ragged_record_counts_across_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv, "BLOCK_BYTES", 512)
    with pytest.raises(Unreadable, match="Line 10,002"):
        read(tmp_path, b"x,c\n" + b'1,"two\nlines"\n' * 5000 + b"1,2,3\n")


def test_undeclared_columns_are_not_stored(tmp_path: Path) -> None:
    content = b"c,x,name\n" + b"red,0,s3cr3t\n" * 50
    read(tmp_path, content)
    paths = sorted((tmp_path / "columns").iterdir())
    assert [path.name for path in paths] == ["codes.npy", "meta.json", "numbers.npy"]
    assert all(SECRET.encode() not in path.read_bytes() for path in paths)
    assert (tmp_path / "columns" / "numbers.npy").stat().st_size == 128 + 50 * 8
    assert (tmp_path / "columns" / "codes.npy").stat().st_size == 128 + 50


_GIVE_UP = """
import pathlib, sys
from app.sources import csv
from app.sources.errors import Unreadable
from purse.wire.columns import NumberColumn
column = NumberColumn(name="x", type="number", lower=0.0, upper=1.0)
for file in map(pathlib.Path, sys.argv[1:]):
    try:
        for count, _ in enumerate(csv.batches(file, [column])):
            if file.name == "dropped" and count == 2:
                break
        print(file.name, count)
    except Unreadable as error:
        print(error.detail)
kept = csv.batches(file, [column])
next(kept)
"""


@pytest.mark.slow
def test_a_process_that_abandons_a_file_midway_exits(tmp_path: Path) -> None:
    """No thread waits after a refusal in the middle, a dropped reader, or a quote that does not close."""
    first_rows, last_rows = b"1,red\n" * 10**6, b"1,red\n" * 10**6
    contents = {"ragged": b"1\n", "no text": b"1,\xff\n", "open": b'1,"\n', "dropped": b""}
    for name, odd in contents.items():
        (tmp_path / name).write_bytes(b"x,c\n" + first_rows + odd + last_rows)
    program = [sys.executable, "-c", _GIVE_UP, *(str(tmp_path / name) for name in contents)]
    for _ in range(2):
        result = subprocess.run(program, check=True, capture_output=True, text=True, timeout=PATIENCE)
        ragged, no_text, unclosed, dropped = result.stdout.splitlines()
        assert ragged.startswith("Line 1,000,002 has 1 fields, and the header has 2. ")
        assert dropped == "dropped 2"
        assert "UTF-8" in no_text
        assert "not close" in unclosed


_AWKWARD = st.lists(st.sampled_from(['"', '""', ",", "\n", "\r", "\r\n", "a", "é", " "]), max_size=40).map("".join)


@pytest.mark.slow
@pytest.mark.parametrize("columns", [COLUMNS[:1], COLUMNS])
@settings(deadline=None, max_examples=150)
@given(content=_AWKWARD, size=st.integers(8, 48))
def test_where_blocks_end_changes_nothing(
    tmp_path_factory: pytest.TempPathFactory, columns: list[Column], content: str, size: int
) -> None:
    """Quotes, line ends and letters of two bytes fall on every place of a block; only a long record is refused."""
    file = tmp_path_factory.mktemp("file") / "upload"
    file.write_bytes(",".join(column.name for column in columns).encode() + b"\n" + content.encode())

    def records() -> list[tuple[str, ...]] | str:
        try:
            blocks = csv.batches(file, columns)
            return [
                record
                for block in blocks
                for record in zip(*(column.to_pylist() for column in block.columns), strict=True)
            ]
        except Unreadable as error:
            return error.detail

    whole = records()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(csv, "BLOCK_BYTES", size)
        pieces = records()
    assert pieces == whole or "is longer than" in pieces


_RECORDS = st.lists(st.tuples(st.text(max_size=6), st.text(max_size=6)), min_size=1, max_size=12)


def _csv(records: Sequence[tuple[str, str]]) -> bytes:
    def field(text: str) -> str:
        cleaned = text.replace("\0", "")
        return '"' + cleaned.replace('"', '""') + '"'

    lines = [f"{field(x)},{field(c)}" for x, c in records]
    return ("x,c\n" + "\n".join(lines) + "\n").encode(errors="replace")


@pytest.mark.slow
@settings(deadline=None, max_examples=30)
@given(_RECORDS, st.data())
def test_replacing_one_record_changes_one_row(
    tmp_path_factory: pytest.TempPathFactory, records: list[tuple[str, str]], data: st.DataObject
) -> None:
    place = data.draw(st.integers(0, len(records) - 1))
    replacement = data.draw(
        st.tuples(st.sampled_from(["", "7", "1e400", "x", "-1"]), st.sampled_from(["", "red", "é"]))
    )
    replaced = [*records[:place], replacement, *records[place + 1 :]]
    original_rows = read(tmp_path_factory.mktemp("before"), _csv(records))
    replaced_rows = read(tmp_path_factory.mktemp("after"), _csv(replaced))
    assert original_rows.shape == replaced_rows.shape == (len(records), 2)
    elsewhere = np.arange(len(records)) != place
    assert np.array_equal(original_rows[elsewhere], replaced_rows[elsewhere])
    assert np.array_equal(replaced_rows[[place]], read(tmp_path_factory.mktemp("alone"), _csv([replacement])))
