"""Upload of a large CSV file beside a plain copy of it: `python -m benchmarks.upload [GIGABYTES [DECLARED]]`.

It goes in parts, as our client sends it. Memory is the server's own, as Linux tells it: before, the most while the
bytes arrive, and the most until they have been read and coded. Of its ten columns so many are declared, and so stored.
"""

import os
import secrets
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

from benchmarks.load import Server, serving
from purse.client import parts
from purse.client.calls import register
from purse.client.sending import TIMEOUT, Blocking, Sender, run

_ROWS = 10_000  # of a block that is repeated
_COLUMNS = 10


def main(gigabytes: float = 1.0, declared: float = _COLUMNS) -> None:
    """Print all of it."""
    size, rate = int(gigabytes * 10**9), gigabytes * 10**3
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        token = secrets.token_urlsafe(32)
        file = folder / "rows.csv"
        rows = _write(file, size)
        print(f"{gigabytes:g} GB, {rows} rows of {_COLUMNS} numbers, to this disk", flush=True)
        copied = _copy(file, folder / "copy")
        print(f"plain copy, synced           {copied:8.1f} s  {rate / copied:8.1f} MB/s", flush=True)
        with serving(folder, token, max_upload_bytes=2 * size) as server:
            _upload(server, token, file, int(declared), rate, copied)


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


def _upload(server: Server, token: str, file: Path, declared: int, rate: float, copied: float) -> None:
    headers, url = {"Authorization": f"Bearer {token}"}, f"http://127.0.0.1:{server.port}"
    with httpx.Client(base_url=url, headers=headers, timeout=TIMEOUT) as http, file.open("rb") as source:
        sender = Sender(Blocking(http))
        size = file.stat().st_size
        before = _memory(server)
        began = time.monotonic()
        busy = server.cpu()
        with _watched(server) as most:
            upload = run(parts.begin(sender, size))
            run(parts.fill(sender, upload, source, size))
        took = time.monotonic() - began
        print(f"upload, until all is there   {took:8.1f} s  {rate / took:8.1f} MB/s  {copied / took:.2f} of the copy")
        print(f"the server's CPU time        {server.cpu() - busy:8.1f} s  in parts of {parts.PART_BYTES >> 20} MiB")
        print(f"server's memory: {before:.0f} MiB before, {most():.0f} while it arrived", flush=True)
        columns = [{"name": f"c{c}", "type": "number", "lower": 0, "upper": 100} for c in range(declared)]
        spec = {"name": "rows", "columns": columns, "budget": {"epsilon": 1.0, "delta": 1e-9}}
        with _watched(server) as most:
            run(sender.send(register(upload, spec)))
        took = time.monotonic() - began
        print(
            f"{declared} columns read, registered   {took:8.1f} s  {rate / took:8.1f} MB/s  {most():.0f} MiB the most"
        )


@contextmanager
def _watched(server: Server) -> Iterator[Callable[[], float]]:
    """The most memory that it has inside the block, once that is over."""
    seen = [_memory(server)]
    over = threading.Event()

    def watch() -> None:
        while not over.wait(0.05):
            seen.append(max(seen.pop(), _memory(server)))

    watching = threading.Thread(target=watch)
    watching.start()
    try:
        yield lambda: seen[0]
    finally:
        over.set()
        watching.join()


def _memory(server: Server) -> float:
    """Return the MiB of the process without pages of files, which the system can reclaim."""
    status = Path(f"/proc/{server.process.pid}/status").read_text()
    return int(status.partition("RssAnon:")[2].split()[0]) / 2**10


if __name__ == "__main__":
    main(*map(float, sys.argv[1:]))
