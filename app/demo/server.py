"""The real server, `purse serve`, as a process of its own, with its state in a folder that goes away."""

import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import NoReturn

from purse import Client, ClientError, ProblemError, Unreachable

COMMAND = [sys.executable, "-P", "-m", "app.cli", "serve"]
_STARTS_WITHIN = 120.0
_STOPS_WITHIN = 30.0


@contextmanager
def serving(home: Path) -> Iterator[tuple[str, str]]:
    """A server that is ready, as (url, a steward's token); stopped at the end, whatever the end is.

    Raises
    ------
    ClientError
        if it does not start; its last words are in the message.
    """
    url, token = f"http://127.0.0.1:{free_port()}", secrets.token_urlsafe(32)
    log = home / "server.log"
    with _endings_raise(), log.open("wb") as output:
        process = subprocess.Popen(
            COMMAND,
            env=_environment(home / "state", url, token),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,  # its group is its workers too, and Ctrl-C is ours to pass on
        )
        try:
            _wait(process, url, log)
            yield url, token
        finally:
            _stop(process)


def _environment(home: Path, url: str, token: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PURSE_")}
    port = url.rpartition(":")[2]
    return kept | {"PURSE_HOME": str(home), "PURSE_PORT": port, "PURSE_BOOTSTRAP_TOKEN": token}


def free_port() -> int:
    """A port of this machine that nobody listens on now."""
    with socket.socket() as port:
        port.bind(("127.0.0.1", 0))
        number: int = port.getsockname()[1]
        return number


def _wait(process: subprocess.Popen[bytes], url: str, log: Path) -> None:
    deadline = time.monotonic() + _STARTS_WITHIN
    with Client(url, timeout=5.0) as client:
        while process.poll() is None and time.monotonic() < deadline:
            try:
                client.ready()
            except (Unreachable, ProblemError):
                time.sleep(0.2)
            else:
                return
    last = log.read_text(errors="replace").strip().splitlines()[-3:]
    raise ClientError(f"the server did not start: {' | '.join(last) or 'it said nothing'}")


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(_STOPS_WITHIN)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@contextmanager
def _endings_raise() -> Iterator[None]:
    """SIGTERM and SIGHUP end this process by way of its `finally` blocks."""

    def end(number: int, _frame: FrameType | None) -> NoReturn:
        raise SystemExit(128 + number)

    before = {number: signal.signal(number, end) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
