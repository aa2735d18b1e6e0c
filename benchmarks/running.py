"""The cost of a server without requests: its start, from processes to readiness, and its idle minutes.

Wall time is of the machine as it is; CPU seconds are of the server and all its children and hold beside other work.
"""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import httpx
import psutil

from app.demo.server import reserve_port

_SETTLE = 10.0  # seconds after ready, until imports that lag behind are done


def report(repeats: int, seconds: float = 60.0) -> None:
    """Print the start `repeats` times, then an idle minute.

    Parameters
    ----------
    repeats : starts with what an earlier start has left on disk, after one with no compiled loops
    seconds : how long the idle server is watched
    """
    with tempfile.TemporaryDirectory() as folder:
        empty = Path(folder) / "compiled"
        empty.mkdir()
        _start(Path(folder) / "cold", "cold, no compiled loops", {"NUMBA_CACHE_DIR": str(empty)})
        for number in range(repeats):
            _start(Path(folder) / "warm", f"warm {number + 1}", {})
        _start(Path(folder) / "warm", "then idle", {}, seconds)


def _start(home: Path, label: str, environment: dict[str, str], idle: float = 0.0) -> None:
    port, _reserved = reserve_port()
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PURSE_")}
    command = [sys.executable, "-m", "app.cli", "serve", "--home", str(home), "--port", str(port)]
    begun = time.monotonic()
    process = psutil.Popen(
        command, env=kept | environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=5.0) as client:
            while not _is_ready(client):
                time.sleep(0.02)
                if process.poll() is not None:
                    raise SystemExit("the server did not start")
        ready = time.monotonic() - begun
        used = cpu_seconds(process)
        time.sleep(_SETTLE)
        print(
            f"  {label}: ready after {ready:.1f} s, {used:.1f} CPU s by then; {cpu_seconds(process):.1f} CPU s once "
            f"all is there (load {os.getloadavg()[0]:.1f})",
            flush=True,
        )
        if idle:
            before = cpu_seconds(process)
            then = time.monotonic()
            time.sleep(idle)
            share = (cpu_seconds(process) - before) / (time.monotonic() - then)
            print(f"  idle for {idle:.0f} s: server and workers use {share:.2%} of a core", flush=True)
    finally:
        process.terminate()
        process.wait()


def _is_ready(client: httpx.Client) -> bool:
    try:
        return client.get("/health/ready").is_success
    except httpx.TransportError:
        return False


def cpu_seconds(process: psutil.Process) -> float:
    """Return the CPU seconds, user and system, of a process and its descendants."""
    return sum(sum(one.cpu_times()[:2]) for one in (process, *process.children(recursive=True)))
