"""The server's end of the calculating process: started, asked, and started again if somebody kills it."""

import asyncio
import os
import socket
import subprocess
import sys
from array import array
from typing import Protocol

from fastapi.concurrency import run_in_threadpool

# As multiprocessing does: the child finds our packages where this process found them.
_START = "import sys; sys.path[:] = {path!r}; from app.calculation.process import main; main({descriptor}, {seconds})"
_ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")


class Lost(Exception):
    """The child ended without an answer: it was killed, or there is a mistake in our code."""


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
    """

    def __init__(self, seconds: int) -> None:
        self._seconds = seconds
        self._process: subprocess.Popen[bytes] | None = None
        self._channel: socket.socket | None = None
        self._starting = asyncio.Lock()

    def start(self) -> None:
        """Returns at once; the process answers when it is warm."""
        ours, theirs = socket.socketpair()
        with theirs:
            descriptor = theirs.fileno()
            code = _START.format(path=sys.path, descriptor=descriptor, seconds=self._seconds)
            self._process = subprocess.Popen(
                [sys.executable, "-c", code],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=(descriptor,),
                env={name: value for name, value in os.environ.items() if not name.startswith("PURSE_")} | _ONE_THREAD,
            )
        self._channel = ours

    def is_warm(self) -> bool:
        """Waits until it is; False if the process has ended instead."""
        assert self._channel is not None
        return bool(self._channel.recv(1))

    async def ask(self, question: bytes) -> bytes:
        """The child's answer. Closing the connection ends the child."""
        ours, theirs = socket.socketpair()
        with theirs:
            await self._hand_over(theirs)
        reader, writer = await asyncio.open_unix_connection(sock=ours)
        try:
            writer.write(question + b"\n")
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
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        if self._channel is not None:
            self._channel.close()

    async def _hand_over(self, connection: socket.socket) -> None:
        async with self._starting:
            try:
                self._send(connection)
            except BlockingIOError:
                raise Lost from None  # not warm yet, and many have come and gone
            except OSError:
                await run_in_threadpool(self.close)
                await run_in_threadpool(self.start)
                if not await run_in_threadpool(self.is_warm):
                    raise Lost from None
                self._send(connection)

    def _send(self, connection: socket.socket) -> None:
        assert self._channel is not None
        rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, array("i", [connection.fileno()]))
        self._channel.sendmsg([b"q"], [rights], socket.MSG_DONTWAIT)
