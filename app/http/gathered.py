"""Writes that belong together leave together: an answer's head and its body are one piece to the network."""

from asyncio import AbstractEventLoop, BaseProtocol, Transport
from typing import Any

_PIECE = 2**16  # what is longer waits for nothing, so that whoever writes is told when its reader is slow


class Gathered(Transport):
    """A transport that sends what is written in one step of the loop by one call: each costs as much as a small answer.

    Parameters
    ----------
    to : what it writes to
    """

    def __init__(self, to: Transport, loop: AbstractEventLoop) -> None:
        super().__init__()
        self._to, self._loop = to, loop
        self._waiting = bytearray()

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Sent at the end of this step."""
        if not self._waiting and data:
            self._loop.call_soon(self._flush)
        self._waiting += data
        if len(self._waiting) >= _PIECE:
            self._flush()

    def close(self) -> None:
        """What was written is sent first."""
        self._flush()
        self._to.close()

    def abort(self) -> None:
        """Nothing more is sent."""
        self._to.abort()

    def get_write_buffer_size(self) -> int:
        """What has not left yet."""
        return self._to.get_write_buffer_size() + len(self._waiting)

    def is_closing(self) -> bool:
        """Whether it is closed, or will be."""
        return self._to.is_closing()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """What the connection says of itself by this name."""
        return self._to.get_extra_info(name, default)

    def pause_reading(self) -> None:
        """Nothing is read until `resume_reading`."""
        self._to.pause_reading()

    def resume_reading(self) -> None:
        """Reading goes on after `pause_reading`."""
        self._to.resume_reading()

    def set_protocol(self, protocol: BaseProtocol) -> None:
        """Who hears of what comes."""
        self._to.set_protocol(protocol)

    def _flush(self) -> None:
        if self._waiting and not self._to.is_closing():
            self._to.write(self._waiting)
        self._waiting = bytearray()  # another one: what was written may be sent later
