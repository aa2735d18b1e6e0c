"""Upload of a large CSV file beside a plain copy of it: `python -m benchmarks.upload [GIGABYTES [DECLARED]]`.

The client sends the file in parts. Memory is the server's own, without pages of files: before the upload, its largest
value while the bytes arrive, and its largest value until they are read and encoded. DECLARED of the ten columns are
declared and stored.
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

from benchmarks.load import Server, serving
from benchmarks.served import anonymous_bytes, cpu_seconds
from purse.client import parts
from purse.client.calls import register
from purse.client.sending import Blocking, Sender, run
from purse.wire.datasets import Registered

_ROWS = 10_000  # of a block that is repeated
_COLUMNS = 10


def main(gigabytes: float = 1.0, declared: float = _COLUMNS) -> None:
    """Print the times and the memory of the upload."""
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
    start = time.monotonic()
    shutil.copyfile(file, to)
    with to.open("rb") as copy:
        os.fsync(copy.fileno())
    elapsed = time.monotonic() - start
    to.unlink()
    return elapsed


def _upload(server: Server, token: str, file: Path, declared: int, rate: float, copied: float) -> None:
    server.http.headers["Authorization"] = f"Bearer {token}"
    sender = Sender(Blocking(server.http))
    with file.open("rb") as source:
        size = file.stat().st_size
        before = _memory(server)
        start = time.monotonic()
        used = cpu_seconds(server.process)
        with _peak(server) as peak:
            upload = run(parts.begin(sender, size))
            run(parts.fill(sender, upload, source, size))
        sent = time.monotonic() - start
        used = cpu_seconds(server.process) - used
        print(f"upload, until all is there   {sent:8.1f} s  {rate / sent:8.1f} MB/s  {copied / sent:.2f} of the copy")
        print(f"the server's CPU time        {used:8.1f} s  in parts of {parts.PART_BYTES >> 20} MiB")
        print(f"server's memory: {before:.0f} MiB before, {peak():.0f} while it arrived", flush=True)
        columns = [{"name": f"c{c}", "type": "number", "lower": 0, "upper": 100} for c in range(declared)]
        spec = {"name": "rows", "columns": columns, "budget": {"epsilon": 1.0, "delta": 1e-9}}
        with _peak(server) as peak:
            run(sender.send(register(spec, Registered, upload=(None, upload, None))))
        read = time.monotonic() - start
        label = f"{declared} columns read, registered"
        print(f"{label}   {read:8.1f} s  {rate / read:8.1f} MB/s  {peak():.0f} MiB the most")


@contextmanager
def _peak(server: Server) -> Iterator[Callable[[], float]]:
    """Yield a function that returns, after the block, the largest memory inside it."""
    samples = [_memory(server)]
    is_over = threading.Event()

    def watch() -> None:
        while not is_over.wait(0.05):
            samples.append(max(samples.pop(), _memory(server)))

    watching = threading.Thread(target=watch)
    watching.start()
    try:
        yield lambda: samples[0]
    finally:
        is_over.set()
        watching.join()


def _memory(server: Server) -> float:
    """Return the MiB of the process without pages of files."""
    return anonymous_bytes(server.process) / 2**20


if __name__ == "__main__":
    main(*map(float, sys.argv[1:]))
