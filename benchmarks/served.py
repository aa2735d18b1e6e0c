"""A server for one benchmark, with a small dataset."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from app.demo.server import serving
from purse import Client


@contextmanager
def small(rows: int, epsilon: float) -> Iterator[tuple[Client, psutil.Process, str]]:
    """A steward's client, the server's process, and the id of a dataset of a number x and a category y."""
    with tempfile.TemporaryDirectory() as name, serving(Path(name)) as (url, token), Client(url, token=token) as purse:
        server = next(one for one in psutil.Process().children() if "serve" in one.cmdline())
        file = Path(name) / "rows.csv"
        file.write_text("x,y\n" + "1,a\n2,b\n" * (rows // 2))
        columns = [
            {"name": "x", "type": "number", "lower": 0, "upper": 9},
            {"name": "y", "type": "category", "categories": ["a", "b"]},
        ]
        spec = {"name": "rows", "columns": columns, "budget": {"epsilon": epsilon, "delta": 1e-6}}
        yield purse, server, purse.datasets.upload(file, spec=spec).id
