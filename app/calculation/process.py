"""The calculating process, which forks a child for each question; it has no key and no database address.

It has one thread, so forking is safe, and a child starts in milliseconds instead of seconds. A child reads one
question, answers it and ends. It also ends when its caller closes the connection, and at its limit of CPU seconds. No
question can run longer or leave anything behind.
"""

import gc
import os
import resource
import signal
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import NoReturn

from accounting.accountants import guard
from accounting.calibration import calibrate
from accounting.mechanisms import Gaussian, PoissonGaussian
from accounting.plan import Query
from accounting.privacy import Privacy
from app.calculation.questions import ANSWER, QUESTION, Answer, Refused, answer
from app.calculation.speed import measured_speed
from app.without import without

WARM = b"w"
_UNUSED = ("scipy.linalg", "cffi")  # numba loads them to find out whether loops may call them; ours do not
_GRACE_SECONDS = 5  # between the limit, which gets an answer, and the kernel's kill


Work = Callable[[bytes, bytes], bytes]
"""Function of a child: from the two lines that it reads to its answer."""


def main(descriptor: int) -> None:
    """Serve the questions that arrive as connections on this socket, until the server closes its end or is killed.

    Parameters
    ----------
    descriptor : of the socket, inherited
    """
    with socket.socket(fileno=descriptor) as channel, suppress(ConnectionError):  # the server was killed
        warm_up()
        channel.sendall(WARM)
        load()
        fork_for_each(channel, calculated)


def fork_for_each(channel: socket.socket, work: Work) -> None:
    """Fork a child for each connection that arrives, until the channel's other end is closed.

    Raises
    ------
    ConnectionError
        if the process at the other end was killed before it had read everything that was sent to it.
    """
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # exit statuses of children are not read
    gc.freeze()
    gc.enable()
    while True:
        _, received, _, _ = socket.recv_fds(channel, 1, 1)
        if not received:
            return
        if os.fork() == 0:
            channel.close()
            _child(received[0], work)
        os.close(received[0])


def warm_up() -> None:
    """Load the accountants, without which a server is not ready."""
    guard.warm_up()
    for mechanism in (Gaussian(), PoissonGaussian(0.01)):
        calibrate([Query("warm_up", 100, mechanism)], Privacy(1.0, 1e-6))


def load(*, every: bool = True) -> None:
    """Load the compiled loops and measure their speed, which prices depend on; earlier questions wait half a second.

    Parameters
    ----------
    every : load also the loops that the measurement does not need; otherwise a child loads what it needs
    """
    with without(*_UNUSED):
        if every:
            import solvers.compiled  # noqa: F401  # late: compiling may take longer

        measured_speed()


class _OutOfTime(BaseException):
    """The time limit is reached. Not an `Exception`, so that no accountant catches it."""


def _child(descriptor: int, work: Work) -> NoReturn:
    try:
        connection = socket.socket(fileno=descriptor)
        with connection.makefile("rb") as lines:
            first = lines.readline()
            second = lines.readline()
        threading.Thread(target=_leave_with_caller, args=(connection,), daemon=True).start()
        connection.sendall(work(first, second))
    finally:
        os._exit(0)


def calculated(limit: bytes, question: bytes) -> bytes:
    """Return the answer to a question, which is a refusal after the limit of CPU seconds."""
    seconds = int(limit)

    def stop(_signal: int, _frame: object) -> NoReturn:
        raise _OutOfTime

    signal.signal(signal.SIGXCPU, stop)
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + _GRACE_SECONDS))
    try:
        result: Answer = answer(QUESTION.validate_json(question))
    except _OutOfTime:
        detail = f"The calculation takes more than {seconds} CPU seconds, the most allowed here."
        result = Refused("out_of_range", detail)
    return ANSWER.dump_json(result)


def _leave_with_caller(connection: socket.socket) -> None:
    """End this process as soon as the caller closes the connection, or is killed."""
    with suppress(ConnectionError):
        connection.recv(1)
    os._exit(0)
