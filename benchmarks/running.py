"""The cost of a server without requests: its start, from processes to readiness, and its idle minutes.

CPU seconds are those of the server and its descendants, so other work on the machine changes them little. Seconds by
the clock depend on that work.
"""

import os
import subprocess
import tempfile
import time
from pathlib import Path

import httpx
import psutil

from app.demo.server import COMMAND, reserve_port
from benchmarks.served import cpu_seconds, environment

_SETTLE_SECONDS = 10.0  # after ready, until late imports are done
_IDLE_SECONDS = 60.0


def report(seeds: int) -> None:
    """Print a start without compiled loops, then `seeds` starts after an earlier start, and an idle minute."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        empty = folder / "compiled"
        empty.mkdir()
        _start(folder / "cold", "cold, no compiled loops", NUMBA_CACHE_DIR=str(empty))
        for number in range(seeds):
            _start(folder / "warm", f"warm {number + 1}")
        _start(folder / "warm", "then idle", is_idle=True)


def _start(home: Path, label: str, *, is_idle: bool = False, **variables: str) -> None:
    port, _reserved = reserve_port()
    start = time.monotonic()
    process = psutil.Popen(
        COMMAND,
        env=environment(home=home, port=port) | variables,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=5.0) as client:
            while not _is_ready(client):
                time.sleep(0.02)
                if process.poll() is not None:
                    raise SystemExit("the server did not start")
        ready = time.monotonic() - start
        used = cpu_seconds(process)
        time.sleep(_SETTLE_SECONDS)
        print(
            f"  {label}: ready after {ready:.1f} s, {used:.1f} CPU s by then; {cpu_seconds(process):.1f} CPU s once "
            f"all is there (load {os.getloadavg()[0]:.1f})",
            flush=True,
        )
        if is_idle:
            before, start = cpu_seconds(process), time.monotonic()
            time.sleep(_IDLE_SECONDS)
            share = (cpu_seconds(process) - before) / (time.monotonic() - start)
            print(f"  idle for {_IDLE_SECONDS:.0f} s: server and workers use {share:.2%} of a core", flush=True)
    finally:
        process.terminate()
        process.wait()


def _is_ready(client: httpx.Client) -> bool:
    try:
        return client.get("/health/ready").is_success
    except httpx.TransportError:
        return False
