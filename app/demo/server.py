"""A real server, `purse serve`, in a process of its own, with its state in a temporary folder."""

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
_START_SECONDS = 120.0
_STOP_SECONDS = 30.0


@contextmanager
def serving(home: Path) -> Iterator[tuple[str, str]]:
    """Yield the URL and a steward's token of a ready server, and stop the server at the end.

    Raises
    ------
    ClientError
        if the server does not start; the message has the end of its log.
    """
    port, reserved = reserve_port()
    url = f"http://127.0.0.1:{port}"
    token = secrets.token_urlsafe(32)
    log = home / "server.log"
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PURSE_")}
    environment |= {"PURSE_HOME": str(home / "state"), "PURSE_PORT": str(port), "PURSE_BOOTSTRAP_TOKEN": token}
    with _endings_raise(), reserved, log.open("wb") as output:
        process = subprocess.Popen(
            COMMAND,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,  # a group with its workers, which Ctrl-C does not reach
        )
        try:
            _wait(process, url, log)
            yield url, token
        finally:
            _stop(process)


def reserve_port() -> tuple[int, socket.socket]:
    """Return a free port of 127.0.0.1, and the socket that reserves it until it is closed.

    Linux gives a bound port to no other process that asks for a free one. It lets a server listen on the port if both
    sockets set SO_REUSEADDR. On other systems the port is only free at this moment.
    """
    reserved = socket.socket()
    reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    reserved.bind(("127.0.0.1", 0))
    port = int(reserved.getsockname()[1])
    if sys.platform != "linux":
        reserved.close()
    return port, reserved


def _wait(process: subprocess.Popen[bytes], url: str, log: Path) -> None:
    deadline = time.monotonic() + _START_SECONDS
    with Client(url, timeout=5.0) as client:
        while process.poll() is None and time.monotonic() < deadline:
            try:
                client.ready()
            except (Unreachable, ProblemError):
                time.sleep(0.2)
            else:
                return
    last = log.read_text(errors="replace").strip().splitlines()[-3:]
    raise ClientError(f"the server did not start: {' | '.join(last) or 'its log is empty'}")


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@contextmanager
def _endings_raise() -> Iterator[None]:
    """Run the `finally` blocks of this process on SIGTERM and SIGHUP."""

    def end(number: int, _frame: FrameType | None) -> NoReturn:
        raise SystemExit(128 + number)

    handlers = {number: signal.signal(number, end) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
