"""One calculating process for several users, because starting one takes seconds of CPU."""

import socket
from typing import Any

from app.calculation.calculators import CalculatingProcess
from app.calculation.process import WARM


class _Process:
    """A process that its users cannot end."""

    def __init__(self, pid: int) -> None:
        self.pid = pid

    def kill(self) -> None:
        """Do nothing."""

    def wait(self) -> int:
        """Return at once."""
        return 0


class _Channel(socket.socket):
    """A connection to the process. It reports that the process is warm, which the process itself does only once."""

    def recv(self, *_: Any) -> bytes:
        """Return what a warm process sends."""
        return WARM


def kept(process: CalculatingProcess) -> CalculatingProcess:
    """Return the process, which must be warm, for a user who may end it without an effect."""
    return CalculatingProcess(_Process(process.process.pid), _Channel(fileno=process.channel.dup().detach()))
