"""A file several times as long takes no more memory."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

MiB = 2**20

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="a process's own peak is told by Linux")

# The peak is that of a process from its start, so each file has one of its own. (`ru_maxrss` would count its parent's.)
_PROGRAM = """
import json, pathlib, sys
from app.sources.ingest import Reading, ingest
from purse.wire.datasets import DatasetSpec
file, folder, spec = sys.argv[1:]
rows, _ = ingest(pathlib.Path(file), Reading.of(DatasetSpec.model_validate_json(spec))[0], pathlib.Path(folder))
status = dict(line.split(":", 1) for line in pathlib.Path("/proc/self/status").read_text().splitlines())
print(json.dumps([rows, int(status["VmHWM"].split()[0]) * 1024]))
"""


def peak(file: Path, columns: list[dict[str, Any]]) -> tuple[int, int]:
    """Records read, and the process's peak memory in bytes."""
    spec = json.dumps({"name": "d", "columns": columns, "budget": {"epsilon": 1.0, "delta": 1e-6}})
    command = [sys.executable, "-c", _PROGRAM, str(file), str(file) + "-columns", spec]
    rows, most = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return rows, most


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
def test_csv(tmp_path: Path) -> None:
    columns = [number(f"x{i}") for i in range(20)]
    few, small = peak(csv(tmp_path / "small", 30), columns)
    many, large = peak(csv(tmp_path / "large", 90), columns)
    assert many == 3 * few
    assert large - small < 40 * MiB
    assert large < 500 * MiB


@pytest.mark.slow
def test_a_line_as_long_as_the_file_is_refused_without_being_held(tmp_path: Path) -> None:
    with (tmp_path / "line").open("wb") as file:
        file.write(b"x0\n")
        for _ in range(600):
            file.write(b"1" * MiB)
    with pytest.raises(subprocess.CalledProcessError) as caught:
        peak(tmp_path / "line", [number("x0")])
    assert "Unreadable: The record of line 2 is longer than" in caught.value.stderr


@pytest.mark.slow
def test_parquet(tmp_path: Path) -> None:
    columns = [number(f"x{i}") for i in range(20)]
    batch = pa.table({f"x{i}": np.random.default_rng(i).random(2**16) for i in range(20)})
    peaks = []
    for groups in (1, 10):
        path = tmp_path / str(groups)
        with pq.ParquetWriter(path, batch.schema) as writer:
            for _ in range(groups):
                writer.write_table(batch)
        rows, most = peak(path, columns)
        assert rows == groups * 2**16
        peaks.append(most)
    assert peaks[1] - peaks[0] < 45 * MiB
    assert peaks[1] < 400 * MiB
