"""`python -m benchmarks.upload [GIGABYTES]`: a CSV file of so many, beside a plain copy of the same file.

The file is sent in pieces, so nothing here holds it. Memory is the server's own, as Linux tells it: before, the most
while the bytes arrive, and the most until they have been read and coded.
"""

import json
import os
import secrets
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import httpx

from benchmarks.load import Server, serving

_PIECE = 2**20
_ROWS = 10_000  # of a block that is repeated
_COLUMNS = 10


def main(gigabytes: float = 1.0) -> None:
    """Print all of it."""
    size = int(gigabytes * 10**9)
    with tempfile.TemporaryDirectory() as name:
        folder, token = Path(name), secrets.token_urlsafe(32)
        file = folder / "rows.csv"
        rows = _write(file, size)
        copied = _copy(file, folder / "copy")
        with serving(folder, token, max_upload_bytes=2 * size) as server:
            took, arrived, memory = _upload(server, token, file)
    rate = size / 1e6
    print(f"{gigabytes:g} GB, {rows} rows of {_COLUMNS} numbers, to this disk")
    print(f"plain copy, synced           {copied:8.1f} s  {rate / copied:8.1f} MB/s")
    print(
        f"upload, until all is there   {arrived:8.1f} s  {rate / arrived:8.1f} MB/s  {copied / arrived:.2f} of the copy"
    )
    print(f"upload, read and registered  {took:8.1f} s  {rate / took:8.1f} MB/s")
    print(f"server's memory: {memory[0]:.0f} MiB before, {memory[1]:.0f} while it arrived, {memory[2]:.0f} at the most")


def _write(file: Path, size: int) -> int:
    lines = (",".join(str((row * (3 + c) + c) % 1000 / 10) for c in range(_COLUMNS)) for row in range(_ROWS))
    block = ("\n".join(lines) + "\n").encode()
    with file.open("wb") as target:
        target.write((",".join(f"c{c}" for c in range(_COLUMNS)) + "\n").encode())
        blocks = max(size // len(block), 1)
        for _ in range(blocks):
            target.write(block)
    return blocks * _ROWS


def _copy(file: Path, to: Path) -> float:
    began = time.monotonic()
    shutil.copyfile(file, to)
    with to.open("rb") as copy:
        os.fsync(copy.fileno())
    took = time.monotonic() - began
    to.unlink()
    return took


def _upload(server: Server, token: str, file: Path) -> tuple[float, float, list[float]]:
    """Seconds until the answer, and until all was sent; memory in MiB before, while it was sent, and at the most."""
    columns = [{"name": f"c{c}", "type": "number", "lower": 0, "upper": 100} for c in range(_COLUMNS)]
    spec = {"name": "rows", "columns": columns, "budget": {"epsilon": 1.0, "delta": 1e-9}}
    memory = [_memory(server)] * 3
    arrived: list[float] = []
    over = threading.Event()

    def watch() -> None:
        while not over.wait(0.05):
            now = _memory(server)
            memory[2] = max(memory[2], now)
            if not arrived:
                memory[1] = max(memory[1], now)

    watching = threading.Thread(target=watch)
    watching.start()
    began = time.monotonic()
    try:
        with httpx.Client(timeout=None) as client:
            headers = {"Authorization": f"Bearer {token}", "Content-Type": "multipart/form-data; boundary=b"}
            body = _body(spec, file, arrived)
            url = f"http://127.0.0.1:{server.port}/v1/datasets"
            client.post(url, content=body, headers=headers).raise_for_status()
    finally:
        over.set()
        watching.join()
    return time.monotonic() - began, arrived[0] - began, memory


def _body(spec: object, file: Path, arrived: list[float]) -> Iterator[bytes]:
    yield b'--b\r\nContent-Disposition: form-data; name="spec"\r\n\r\n' + json.dumps(spec).encode() + b"\r\n"
    yield b'--b\r\nContent-Disposition: form-data; name="file"; filename="rows.csv"\r\n\r\n'
    with file.open("rb") as source:
        while piece := source.read(_PIECE):
            yield piece
    yield b"\r\n--b--\r\n"
    arrived.append(time.monotonic())


def _memory(server: Server) -> float:
    """MiB of its own: pages of files, which the system takes back when it likes, are not among them."""
    status = Path(f"/proc/{server.process.pid}/status").read_text()
    return int(status.partition("RssAnon:")[2].split()[0]) / 2**10


if __name__ == "__main__":
    main(*map(float, sys.argv[1:]))
