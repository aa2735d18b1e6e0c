"""The server's end of the calculating process: started, asked, and started again if somebody kills it."""

import asyncio
import os
import socket
import subprocess
import sys
from array import array
from dataclasses import dataclass
from typing import Protocol

# As multiprocessing does: the child finds our packages where this process found them.
_START = "import gc, sys; gc.disable(); sys.path[:] = {path!r}; from {module} import main; main({descriptor})"
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")


class Lost(Exception):
    """The child ended without an answer: it was killed, or there is a mistake in our code."""


class Process(Protocol):
    """A child of ours."""

    @property
    def pid(self) -> int:
        """The process's number, by the operating system."""
        ...

    def kill(self) -> None:
        """Ends the process."""
        ...

    def wait(self) -> int:
        """Waits until the process has ended; how it ended."""
        ...


@dataclass(frozen=True, slots=True)
class Begun:
    """The process, warm or on its way, and our end of its channel."""

    process: Process
    channel: socket.socket

    def hand_over(self, connection: socket.socket) -> None:
        """The process forks a child for the connection; an `OSError` if it cannot be told now, or is gone."""
        rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, array("i", [connection.fileno()]))
        self.channel.sendmsg([b"q"], [rights], socket.MSG_DONTWAIT)

    def end(self) -> None:
        """Ends it; its children go with their connections."""
        self.process.kill()
        self.process.wait()
        self.channel.close()


def begin(module: str = "app.calculation.process") -> Begun:
    """Starts the process and returns at once; it is warm after a second or two, and ends with its channel.

    Parameters
    ----------
    module : whose `main` it runs
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
    return Begun(process, ours)


class Calculators(Protocol):
    """Whoever answers questions. The service's own are `ForkedCalculators`; a test may have others."""

    def start(self) -> None:
        """Returns at once."""
        ...

    def is_warm(self) -> bool:
        """Waits until it is; False if it never will be."""
        ...

    async def ask(self, question: bytes) -> bytes:
        """The answer to a question in one line; cancelling ends the calculation. `Lost` if there is none."""
        ...

    def close(self) -> None:
        """Ends it."""
        ...


class ForkedCalculators:
    """One process that forks a child for each question.

    Parameters
    ----------
    seconds : CPU seconds that one question may take
    begun : a process that was begun before
    """

    def __init__(self, seconds: int, begun: Begun | None = None) -> None:
        self._seconds = seconds
        self._begun = begun
        self._starting = asyncio.Lock()

    def start(self) -> None:
        """Returns at once; the process answers when it is warm."""
        if self._begun is None:
            self._begun = begin()

    def is_warm(self) -> bool:
        """Waits until it is; False if the process has ended instead."""
        assert self._begun is not None
        return bool(self._begun.channel.recv(1))

    async def ask(self, question: bytes) -> bytes:
        """The child's answer. Closing the connection ends the child."""
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
        """Ends the process; children go with their connections."""
        if self._begun is not None:
            self._begun.end()
            self._begun = None

    async def _hand_over(self, connection: socket.socket) -> None:
        async with self._starting:
            try:
                self._send(connection)
            except BlockingIOError:
                raise Lost from None  # not warm yet, and many have come and gone
            except OSError:
                await asyncio.to_thread(self.close)
                await asyncio.to_thread(self.start)
                if not await asyncio.to_thread(self.is_warm):
                    raise Lost from None
                self._send(connection)

    def _send(self, connection: socket.socket) -> None:
        assert self._begun is not None
        self._begun.hand_over(connection)
