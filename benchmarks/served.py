"""Servers for benchmarks, and the CPU time and memory of their processes."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from app.demo.server import serving
from purse import Client

TWO_COLUMNS = [
    {"name": "x", "type": "number", "lower": 0, "upper": 9},
    {"name": "y", "type": "category", "categories": ["a", "b"]},
]


@contextmanager
def small(rows: int, epsilon: float) -> Iterator[tuple[Client, psutil.Process, str]]:
    """Yield a steward's client, the server's process, and the id of a dataset of a number x and a category y."""
    with tempfile.TemporaryDirectory() as name, serving(Path(name)) as (url, token), Client(url, token=token) as purse:
        server = next(child for child in psutil.Process().children() if "serve" in child.cmdline())
        yield purse, server, upload(purse, Path(name), rows, epsilon)


def upload(purse: Client, folder: Path, rows: int, epsilon: float) -> str:
    """Upload a dataset of a number x and a category y, and return its id."""
    file = folder / "rows.csv"
    file.write_text("x,y\n" + "1,a\n2,b\n" * (rows // 2))
    spec = {"name": "rows", "columns": TWO_COLUMNS, "budget": {"epsilon": epsilon, "delta": 1e-6}}
    return purse.datasets.upload(file, spec=spec).id


def environment(**settings: object) -> dict[str, str]:
    """Return the variables of this process with these settings of the service alone."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("PURSE_")}
    return inherited | {f"PURSE_{name.upper()}": str(value) for name, value in settings.items()}


def cpu_seconds(process: psutil.Process) -> float:
    """Return the CPU seconds of a process, its running descendants, and the children of these that ended."""
    return sum(sum(member.cpu_times()[:4]) for member in (process, *process.children(recursive=True)))


def anonymous_bytes(process: psutil.Process | None = None) -> int:
    """Return the memory of a process, by default this one, without pages of files, which the system can reclaim."""
    memory = (process or psutil.Process()).memory_info()
    return int(memory.rss - memory.shared)
