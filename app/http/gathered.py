"""A transport that combines small writes: the head and the body of a response leave in one system call."""

from asyncio import AbstractEventLoop, BaseProtocol, Transport
from typing import Any

_MOST_BUFFERED_BYTES = 2**16  # more is written at once, so that flow control reaches the writer


class Gathered(Transport):
    """Transport that sends all data written in one step of the event loop by one call.

    Each call to the network costs as much as answering a small request.

    Parameters
    ----------
    transport : the transport of the connection
    loop : the event loop of the connection
    """

    def __init__(self, transport: Transport, loop: AbstractEventLoop) -> None:
        super().__init__()
        self._transport, self._loop = transport, loop
        self._waiting = bytearray()

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Buffer data until the end of this step of the event loop."""
        if not self._waiting and data:
            self._loop.call_soon(self._flush)
        self._waiting += data
        if len(self._waiting) >= _MOST_BUFFERED_BYTES:
            self._flush()

    def close(self) -> None:
        """Send all buffered data, then close the connection."""
        self._flush()
        self._transport.close()

    def abort(self) -> None:
        """Close the connection without sending the buffered data."""
        self._transport.abort()

    def get_write_buffer_size(self) -> int:
        """Return the number of bytes that have not been sent yet."""
        return self._transport.get_write_buffer_size() + len(self._waiting)

    def is_closing(self) -> bool:
        """Return whether the connection is closed or closing."""
        return self._transport.is_closing()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Return the connection's property of this name."""
        return self._transport.get_extra_info(name, default)

    def pause_reading(self) -> None:
        """Stop reading until `resume_reading` is called."""
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Continue reading after `pause_reading`."""
        self._transport.resume_reading()

    def set_protocol(self, protocol: BaseProtocol) -> None:
        """Set the protocol that receives incoming data."""
        self._transport.set_protocol(protocol)

    def _flush(self) -> None:
        """Send the buffered data."""
        if self._waiting and not self._transport.is_closing():
            self._transport.write(self._waiting)
        self._waiting = bytearray()  # a new buffer, because the transport may still hold the old one
