"""Prices and attempts of a server that lives for one command, by children of one process: `purse fit`.

The process is a fork of the command's own, made while that has one thread and holds neither key, token of the home nor
database: so what both need is loaded once. It has nothing of the command's to hold but what the command line said.
"""

import contextlib
import os
import signal
import socket
import sys
import threading

from app.calculation import calculators
from app.calculation.calculators import Begun
from app.calculation.process import WARM, calculated, fork_for_each, load
from app.worker.engine import FAILED, Outcome, outcome
from app.worker.execute import quiet, run

_ATTEMPT = b"attempt\n"
_WHOLE = b"\n"  # ends an output: without it the child was killed as it answered


class Forked:
    """A child of ours by its number."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._status: int | None = None

    def kill(self) -> None:
        """Ends the process."""
        if self._status is None:  # until then the number is nobody else's
            os.kill(self.pid, signal.SIGKILL)

    def wait(self) -> int:
        """Waits until the process has ended; how it ended."""
        if self._status is None:
            _, self._status = os.waitpid(self.pid, 0)
        return self._status


def begin() -> Begun:
    """The process: a fork of this one, or where that has more than one thread, whose locks a fork would leave as they
    are, a new one. Before anything is read that a worker must not know.
    """
    if threading.active_count() > 1 or sys.platform == "darwin":  # whose system libraries start threads of their own
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
    return Begun(Forked(pid), ours)


def main(descriptor: int) -> None:
    """As a new process: serve this socket until its other end is closed."""
    with socket.socket(fileno=descriptor) as channel:
        _serve(channel)


def _become() -> None:
    """What a new process would be: without our settings, and with nobody to talk to."""
    for name in [name for name in os.environ if name.startswith("PURSE_")]:
        del os.environ[name]
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nowhere, descriptor)


def _serve(channel: socket.socket) -> None:
    """Serve the channel until the command closes its end or is killed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the command handles the interrupt from the keyboard
    with contextlib.suppress(ConnectionError):  # the command was killed
        channel.sendall(WARM)  # everything else that a price or a job needs is loaded on first use
        load(every=False)
        fork_for_each(channel, _work)


def _work(first: bytes, second: bytes) -> bytes:
    """An attempt's output, or a price."""
    if first != _ATTEMPT:
        return calculated(first, second)
    try:
        quiet()
        said = run(second.decode())
    except BaseException:
        said = FAILED
    return said.encode() + _WHOLE


class ForkedEngine:
    """One attempt at a time, in a child of that process. It is never begun again: a command whose process was killed
    fails its job, as one whose workers are killed again and again.

    Parameters
    ----------
    begun : the process, which whoever began it ends
    """

    slots = 1

    def __init__(self, begun: Begun) -> None:
        self._begun = begun

    def take(self, held: int) -> bool:
        """Whether nothing runs."""
        return held < self.slots

    def hold(self, held: int) -> None:
        """It is nobody else's."""

    def submit(self, job_id: str, attempt: int, payload: str) -> "ForkedAttempt":
        """Start an attempt in a child; its payload is one line."""
        ours, theirs = socket.socketpair()
        with theirs:
            self._begun.hand_over(theirs)
        return ForkedAttempt(ours, payload, f"{job_id}-{attempt}")

    def close(self) -> None:
        """Attempts end with their connections."""


class ForkedAttempt:
    """A child that runs an attempt, and our end of its connection: closing that ends it."""

    def __init__(self, connection: socket.socket, payload: str, name: str) -> None:
        self._connection, self._payload = connection, payload
        self._outcome = Outcome("vanished")
        self._thread = threading.Thread(target=self._read, name=f"attempt {name}", daemon=True)
        self._thread.start()

    def done(self) -> bool:
        """Whether the child has answered or is gone."""
        return not self._thread.is_alive()

    def result(self) -> Outcome:
        """How it ended; only after `done`. A child that is killed has said nothing."""
        return self._outcome

    def cancel(self) -> None:
        """Ends the child; nothing if it has ended."""
        with contextlib.suppress(OSError):  # its end closes our end
            self._connection.shutdown(socket.SHUT_RDWR)

    def _read(self) -> None:
        try:
            with self._connection:
                self._connection.sendall(_ATTEMPT + self._payload.encode() + b"\n")
                with self._connection.makefile("rb") as lines:
                    said = lines.read()
        except OSError:
            return
        if said.endswith(_WHOLE):
            self._outcome = outcome(said.removesuffix(_WHOLE).decode())
