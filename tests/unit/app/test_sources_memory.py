"""The memory that reading a file takes: no more for a longer file, and bounded for a file that unfolds."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

MiB = 2**20

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux reports the peak memory of one process")

# Each file is read by a child of one process that has imported everything: a peak counts from a process's start.
_PROGRAM = """
import json, os, pathlib, sys
from app.sources.errors import SourceError
from app.sources.ingest import Reading, store
from purse.wire.datasets import DatasetSpec
for line in sys.stdin:
    file, spec = json.loads(line)
    if os.fork() == 0:
        try:
            reading = Reading.of(DatasetSpec.model_validate_json(spec))[0]
            result, _ = store(pathlib.Path(file), reading, pathlib.Path(file + "-columns"))
        except SourceError as error:
            result = type(error).__name__
        status = dict(line.split(":", 1) for line in open("/proc/self/status").read().splitlines())
        print(json.dumps([result, int(status["VmHWM"].split()[0]) * 1024]), flush=True)
        os._exit(0)
    os.wait()
"""
Read = Callable[..., tuple[Any, int]]


@pytest.fixture(scope="module")
def read() -> Iterator[Read]:
    """Function that returns the record count or the name of the error, and the peak memory in bytes."""
    with subprocess.Popen([sys.executable, "-c", _PROGRAM], stdin=-1, stdout=-1, text=True) as parent:
        assert parent.stdin is not None
        assert parent.stdout is not None

        def read(file: Path, *columns: dict[str, Any]) -> tuple[Any, int]:
            spec = {"name": "d", "columns": columns, "budget": {"epsilon": 1.0, "delta": 1e-6}, "max_unparsed": 1.0}
            print(json.dumps([str(file), json.dumps(spec)]), file=parent.stdin, flush=True)
            result, peak = json.loads(parent.stdout.readline())  # type: ignore[union-attr]
            return result, peak

        yield read
        parent.stdin.close()


def number(name: str) -> dict[str, Any]:
    return {"name": name, "type": "number", "lower": 0, "upper": 1}


def csv(path: Path, megabytes: int, width: int = 20) -> Path:
    """A file of so many megabytes, and a little more."""
    line = ",".join(f"0.{i:06d}" for i in range(width)) + "\n"
    piece = (line * (MiB // len(line) + 1)).encode()
    with path.open("wb") as file:
        file.write((",".join(f"x{i}" for i in range(width)) + "\n").encode())
        for _ in range(megabytes):
            file.write(piece)
    return path


@pytest.mark.slow
def test_csv(tmp_path: Path, read: Read) -> None:
    columns = [number(f"x{i}") for i in range(20)]
    small_rows, small_peak = read(csv(tmp_path / "small", 20), *columns)
    large_rows, large_peak = read(csv(tmp_path / "large", 60), *columns)
    assert large_rows == 3 * small_rows
    assert large_peak - small_peak < 40 * MiB
    assert large_peak < 500 * MiB


@pytest.mark.slow
def test_a_line_as_long_as_the_file_is_refused_without_being_held(tmp_path: Path, read: Read) -> None:
    with (tmp_path / "line").open("wb") as file:
        file.write(b"x0\n")
        for _ in range(300):
            file.write(b"1" * MiB)
    error, peak = read(tmp_path / "line", number("x0"))
    assert error == "Unreadable"
    assert peak < 250 * MiB


@pytest.mark.slow
def test_parquet(tmp_path: Path, read: Read) -> None:
    columns = [number(f"x{i}") for i in range(20)]
    batch = pa.table({f"x{i}": np.random.default_rng(i).random(2**16) for i in range(20)})
    peaks = []
    for groups in (1, 10):
        path = tmp_path / str(groups)
        with pq.ParquetWriter(path, batch.schema) as writer:
            for _ in range(groups):
                writer.write_table(batch)
        rows, peak = read(path, *columns)
        assert rows == groups * 2**16
        peaks.append(peak)
    assert peaks[1] - peaks[0] < 45 * MiB
    assert peaks[1] < 400 * MiB


WORD: dict[str, Any] = {"name": "x", "type": "category", "categories": ["a"]}


def texts(count: int, size: int) -> pa.Array:
    """Distinct texts of so many bytes each, which compress to almost nothing."""
    return pa.array([f"{n:08d}" + "x" * (size - 8) for n in range(count)])


def packed(file: Path, values: pa.Array, **how: Any) -> Path:
    """A Parquet file of one column, zstd; its dictionary may be as large as it likes."""
    pq.write_table(pa.table({"x": values}), file, compression="zstd", dictionary_pagesize_limit=2**30, **how)
    assert file.stat().st_size < MiB
    return file


@pytest.mark.parametrize("column", [WORD, number("x")])
def test_a_long_text_that_repeats_is_not_copied_for_each_of_its_rows(
    tmp_path: Path, read: Read, column: dict[str, Any]
) -> None:
    """A Parquet file of 13 KiB once took 2.5 GB: values that could not be parsed were copied for each row."""
    repeats = pa.array([0] * 1000, pa.int32())
    longest = pa.DictionaryArray.from_arrays(repeats, texts(1, 4 * MiB))
    rows, peak = read(packed(tmp_path / "longest", longest), column)
    assert rows == 1000
    assert peak < 350 * MiB
    beyond = pa.DictionaryArray.from_arrays(repeats, texts(1, 16 * MiB))
    error, peak = read(packed(tmp_path / "beyond", beyond), column)
    assert error == "Unreadable"
    assert peak < 350 * MiB


@pytest.mark.slow
def test_a_row_group_whose_texts_unfold_to_too_many_bytes_is_not_decoded(tmp_path: Path, read: Read) -> None:
    error, peak = read(packed(tmp_path / "file", texts(60, 4 * MiB)), WORD)
    assert error == "TooLarge"
    assert peak < 250 * MiB


@pytest.mark.slow
def test_few_row_groups_have_their_texts_in_memory_at_the_same_time(tmp_path: Path, read: Read) -> None:
    """A batch once read row groups until it was full, and kept the dictionary of each in memory."""
    group = pa.table({"x": texts(12, 4 * MiB)})
    with pq.ParquetWriter(
        tmp_path / "file", group.schema, compression="zstd", dictionary_pagesize_limit=2**30
    ) as writer:
        for _ in range(20):
            writer.write_table(group)
    rows, peak = read(tmp_path / "file", WORD)
    assert rows == 240
    assert peak < 900 * MiB


def test_a_footer_that_decodes_to_too_many_bytes_is_not_decoded(tmp_path: Path, read: Read) -> None:
    """Three bytes of the footer decode to a column chunk of 700 bytes: 64 MiB once took 15 GB."""
    chunks = b"\x19\xfc\xe8\x07" + b"\x26\0\0" * 1000  # a list of 1,000 column chunks
    groups = (chunks + b"\x16\0\x16\0\0") * 700
    schema = b"\x48\x01r\x15\x02\0" + b"\x15\x0a\x25\0\x18\x01x\0"  # a root and one double
    footer = b"\x15\x02\x19\x2c" + schema + b"\x16\0\x19\xfc\xbc\x05" + groups + b"\0"
    (tmp_path / "file").write_bytes(b"PAR1" + footer + len(footer).to_bytes(4, "little") + b"PAR1")
    error, peak = read(tmp_path / "file", number("x"))
    assert error == "TooLarge"
    assert peak < 250 * MiB
