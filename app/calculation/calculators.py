"""The calculating process as the server uses it: started, asked questions, and replaced if it is killed."""

import asyncio
import os
import socket
import subprocess
import sys
import threading
from array import array
from dataclasses import dataclass
from typing import Protocol

# The child finds our packages where this process found them, as in multiprocessing. The server handles the interrupt
# from the keyboard; the child ignores it before it imports anything, so that an import does not end in a stack trace.
_START = (
    "import gc, signal, sys; signal.signal(signal.SIGINT, signal.SIG_IGN); gc.disable(); sys.path[:] = {path!r}; "
    "from {module} import main; main({descriptor})"
)
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")


class Lost(Exception):
    """The child ended without an answer: it was killed, or there is a mistake in our code."""


class Process(Protocol):
    """A child process."""

    @property
    def pid(self) -> int:
        """The process id."""

    def kill(self) -> None:
        """Kill the process."""

    def wait(self) -> int:
        """Wait for the end of the process; return its exit status."""


@dataclass(frozen=True, slots=True)
class CalculatingProcess:
    """The process, which may still be starting, and our end of its channel."""

    process: Process
    channel: socket.socket

    def hand_over(self, connection: socket.socket) -> None:
        """Let the process fork a child for the connection. Raise `OSError` if its queue is full or it has ended."""
        rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, array("i", [connection.fileno()]))
        self.channel.sendmsg([b"q"], [rights], socket.MSG_DONTWAIT)

    def end(self) -> None:
        """End the process; its children end with their connections."""
        self.process.kill()
        self.process.wait()
        self.channel.close()


def begin(module: str = "app.calculation.process") -> CalculatingProcess:
    """Start the process and return at once; it is warm after a second or two, and ends with its channel.

    Parameters
    ----------
    module : module whose `main` the process runs
    """
    ours, theirs = socket.socketpair()
    with theirs:
        descriptor = theirs.fileno()
        process = subprocess.Popen(
            [sys.executable, "-c", _START.format(path=sys.path, module=module, descriptor=descriptor)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            pass_fds=(descriptor,),
            env={name: value for name, value in os.environ.items() if not name.startswith("PURSE_")} | ONE_THREAD,
        )
    return CalculatingProcess(process, ours)


class Calculators(Protocol):
    """The interface of objects that answer questions: `ForkedCalculators`, or a substitute in tests."""

    def start(self) -> None:
        """Start, and return at once."""

    def is_warm(self) -> bool:
        """Wait until questions can be answered; False if the attempt failed. The next call makes another attempt."""

    async def ask(self, question: bytes) -> bytes:
        """Return the answer to a question of one line; cancelling ends the calculation. Raise `Lost` if it has none."""

    def close(self) -> None:
        """End all calculations."""


class ForkedCalculators:
    """One process that forks a child for each question. A process that was killed is replaced by another.

    Parameters
    ----------
    seconds : limit of CPU seconds for one question
    process : process that was started earlier
    """

    def __init__(self, seconds: int, process: CalculatingProcess | None = None) -> None:
        self._seconds = seconds
        self._process = process
        self._starting = threading.Lock()
        self._has_warmed = self._is_closed = False

    def start(self) -> None:
        """Return at once; the process answers when it is warm."""
        if self._process is None:
            self._process = begin()

    def is_warm(self) -> bool:
        """Wait until the process is warm; False if it ended instead. The next call then begins another process."""
        with self._starting:
            if self._is_closed:
                return False
            self.start()
            assert self._process is not None
            if not self._has_warmed:
                self._has_warmed = _becomes_warm(self._process.channel)
            if not self._has_warmed:
                self._end()
            return self._has_warmed

    async def ask(self, question: bytes) -> bytes:
        """Return the child's answer. Closing the connection ends the child."""
        ours, theirs = socket.socketpair()
        with theirs:
            await self._hand_over(theirs)
        reader, writer = await asyncio.open_unix_connection(sock=ours)
        try:
            writer.write(b"%d\n%s\n" % (self._seconds, question))
            answer = await reader.read()
        except ConnectionError:
            raise Lost from None
        finally:
            writer.transport.abort()
        if not answer:
            raise Lost
        return answer

    def close(self) -> None:
        """End the process for good; children end with their connections."""
        self._is_closed = True
        current = self._process
        if current is not None:
            current.process.kill()  # so that a thread in `is_warm` gets its answer and releases the lock
        with self._starting:
            self._end()

    async def _hand_over(self, connection: socket.socket) -> None:
        current = self._process
        try:
            self._send(connection)
        except BlockingIOError:
            raise Lost from None  # not warm yet, and its queue is full
        except OSError:
            if not await asyncio.to_thread(self._replace, current):
                raise Lost from None
            self._send(connection)

    def _replace(self, lost: CalculatingProcess | None) -> bool:
        """Begin another process unless another thread did so already. Return whether the process is warm."""
        with self._starting:
            if self._process is lost:
                self._end()
        return self.is_warm()

    def _end(self) -> None:
        if self._process is not None:
            self._process.end()
        self._process, self._has_warmed = None, False

    def _send(self, connection: socket.socket) -> None:
        current = self._process
        if current is None:
            raise ConnectionError("the calculating process has ended")
        current.hand_over(connection)


def _becomes_warm(channel: socket.socket) -> bool:
    """Wait until the process is warm, which a byte reports. Return False if the process ended."""
    try:
        return bool(channel.recv(1))
    except OSError:
        return False
