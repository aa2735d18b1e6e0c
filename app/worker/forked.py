"""Prices and attempts of a server for one command (`purse fit`), calculated by children of one process.

The process is a fork of the command's own, so that common libraries are loaded once. The fork takes place while the
command has one thread and has opened neither a key, a token of the home nor the database. The fork therefore contains
nothing of the command except its command line.
"""

import contextlib
import os
import signal
import socket
import sys
import threading

from app.calculation import calculators
from app.calculation.calculators import CalculatingProcess
from app.calculation.process import WARM, calculated, fork_for_each, load
from app.worker.engine import RAISED, VANISHED
from app.worker.execute import quiet, run

_ATTEMPT = b"attempt\n"
_END = b"\n"  # terminates an output; an output without it was cut off by a kill


class Forked:
    """A child process, by its process id."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._status: int | None = None

    def kill(self) -> None:
        """Kill the process."""
        if self._status is None:  # until `wait` the operating system does not reuse the id
            os.kill(self.pid, signal.SIGKILL)

    def wait(self) -> int:
        """Wait for the end of the process; return its exit status."""
        if self._status is None:
            _, self._status = os.waitpid(self.pid, 0)
        return self._status


def begin() -> CalculatingProcess:
    """Return the process: a fork of this one, or a new process if this one has several threads.

    A fork would inherit locks that other threads hold. To be called before anything is read that a worker must not
    know.
    """
    if threading.active_count() > 1 or sys.platform == "darwin":  # system libraries of macOS start threads
        return calculators.begin(__name__)
    ours, theirs = socket.socketpair()
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid == 0:
        try:
            ours.close()
            _become()
            _serve(theirs)
        finally:
            os._exit(0)
    theirs.close()
    return CalculatingProcess(Forked(pid), ours)


def main(descriptor: int) -> None:
    """Serve this socket, as the main function of a new process, until its other end is closed."""
    with socket.socket(fileno=descriptor) as channel:
        _serve(channel)


def _become() -> None:
    """Remove settings and standard streams, as in a new process."""
    for name in [name for name in os.environ if name.startswith("PURSE_")]:
        del os.environ[name]
    null_device = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null_device, descriptor)


def _serve(channel: socket.socket) -> None:
    """Serve the channel until the command closes its end or is killed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the command handles the interrupt from the keyboard
    with contextlib.suppress(ConnectionError):  # the command was killed
        channel.sendall(WARM)  # everything else that a price or a job needs is loaded on first use
        load(every=False)
        fork_for_each(channel, work)


def work(first: bytes, second: bytes) -> bytes:
    """Return the output of an attempt, or a price."""
    if first != _ATTEMPT:
        return calculated(first, second)
    try:
        quiet()
        output = run(second.decode())
    except BaseException:
        output = RAISED
    return output.encode() + _END


class ForkedEngine:
    """An engine that runs one attempt at a time, in a child of that process.

    The process is never started again. If it is killed, the job fails, as after repeated losses of workers.

    Parameters
    ----------
    process : the process; its creator ends it
    """

    slots = 1

    def __init__(self, process: CalculatingProcess) -> None:
        self._process = process

    def take(self, held_slots: int) -> bool:
        """See `Engine`."""
        return held_slots < self.slots

    def hold(self, held_slots: int) -> None:
        """See `Engine`; no other server uses this engine."""

    def submit(self, job_id: str, attempt: int, payload: str) -> "ForkedAttempt":
        """See `Engine`; the payload is one line."""
        ours, theirs = socket.socketpair()
        with theirs:
            self._process.hand_over(theirs)
        return ForkedAttempt(ours, payload, f"{job_id}-{attempt}")

    def close(self) -> None:
        """Do nothing: attempts end with their connections."""


class ForkedAttempt:
    """A child that runs an attempt, and our end of its connection. Closing the connection ends the child."""

    def __init__(self, connection: socket.socket, payload: str, name: str) -> None:
        self._connection, self._payload = connection, payload
        self._outcome = VANISHED
        self._thread = threading.Thread(target=self._read, name=f"attempt {name}", daemon=True)
        self._thread.start()

    def done(self) -> bool:
        """Return whether the child has answered or ended."""
        return not self._thread.is_alive()

    def result(self) -> str:
        """Return how the attempt ended; to be called after `done`. A killed child has vanished."""
        return self._outcome

    def cancel(self) -> None:
        """End the child, if it has not ended."""
        with contextlib.suppress(OSError):  # the connection may be closed already
            self._connection.shutdown(socket.SHUT_RDWR)

    def _read(self) -> None:
        try:
            with self._connection:
                self._connection.sendall(_ATTEMPT + self._payload.encode() + b"\n")
                with self._connection.makefile("rb") as lines:
                    output = lines.read()
        except OSError:
            return
        if output.endswith(_END):
            self._outcome = output.removesuffix(_END).decode()
