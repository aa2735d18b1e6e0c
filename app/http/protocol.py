"""HTTP/1.1 with limits on every resource that a client can occupy: uvicorn's protocol over h11, extended.

uvicorn limits the bytes of a head and the idle time between two requests. It does not limit the time until a head has
arrived, the time that a response waits for its reader, or the number of idle connections. It answers malformed requests
in plain text. It has no hooks for these, so this class extends uvicorn's.
"""

from asyncio import TimerHandle, Transport
from dataclasses import dataclass
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import STATUS_PHRASES, H11Protocol

from app.http.errors import MEDIA_TYPE, ApiError

_BODY_CHUNK_BYTES = 2**16
_LEAST_READ_BYTES = 2**12  # a client that reads less than this in `seconds_unread` is disconnected

# Pairs of server and client state in which the client must send: a head, or the remainder of an unused body.
_CLIENT_MUST_SEND = ((h11.IDLE, h11.IDLE), (h11.DONE, h11.SEND_BODY))


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """Limits on the connections of the server.

    Parameters
    ----------
    connections : largest number of open connections
    head_bytes : largest size of a request line with its headers, in bytes
    seconds_head : time for a head to arrive, from its first byte or from the start of the connection; also the time for
        which an unused body is still read after the response, so that the response arrives
    seconds_unread : time that a response may wait for its reader
    """

    connections: int = 512
    head_bytes: int = 2**14
    seconds_head: float = 10.0
    seconds_unread: float = 30.0


class BoundedProtocol(H11Protocol):
    """One HTTP/1.1 connection with limits.

    Parameters
    ----------
    limits : limits on this and on all connections
    options : uvicorn's arguments for its protocols
    """

    def __init__(self, limits: ConnectionLimits, **options: Any) -> None:
        super().__init__(**options)
        self._limits = limits
        self._receive_timer: TimerHandle | None = None
        self._read_timer: TimerHandle | None = None
        self._idle_since = self.loop.time()

    def connection_made(self, transport: Transport) -> None:  # type: ignore[override]
        """Accept a connection; above the limit, close the one that has been idle for longest, or refuse this one."""
        super().connection_made(transport)
        if len(self.connections) > self._limits.connections:
            idle = [c for c in self.connections if isinstance(c, BoundedProtocol) and c is not self and c.is_idle]
            if not idle:
                self._refuse(ApiError("overloaded"))
                return
            min(idle, key=lambda connection: connection._idle_since).transport.abort()
        self._expect()

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel all timers."""
        super().connection_lost(exc)
        self._unset_keepalive_if_required()
        self._cancel_receive_timer()
        if self._read_timer is not None:
            self._read_timer.cancel()

    def data_received(self, data: bytes) -> None:
        """Process data in chunks, so that the limit on a head holds for any amount of data."""
        start = 0
        while start < len(data) and not self.transport.is_closing():
            size = _BODY_CHUNK_BYTES if self.conn.their_state is h11.SEND_BODY else self._limits.head_bytes
            super().data_received(data[start : start + size])
            start += size
        self._expect()

    def on_response_complete(self) -> None:
        """Wait for the next head as uvicorn does, and for the remainder of a body for a limited time."""
        self._idle_since = self.loop.time()
        super().on_response_complete()
        if self.conn.their_state is h11.SEND_BODY:
            self._expect()

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002
        """Send a problem document for a request that is malformed or too long."""
        waiting, _ = self.conn.trailing_data
        too_long = len(waiting) > self._limits.head_bytes
        self._refuse(ApiError("headers_too_large" if too_long else "malformed_request"))

    def pause_writing(self) -> None:
        """Stop writing, and start the timer for the client to read."""
        super().pause_writing()
        self._wait_for_reader(self.transport.get_write_buffer_size())

    def resume_writing(self) -> None:
        """Continue writing, and cancel the timer for the client to read."""
        super().resume_writing()
        if self._read_timer is not None:
            self._read_timer.cancel()

    @property
    def is_idle(self) -> bool:
        """Whether no request is being processed."""
        return bool(getattr(self.cycle, "response_complete", True))  # there is no cycle before the first request

    def _expect(self) -> None:
        """Start or cancel the timer for a head, or for the remainder of an unused body."""
        if self.transport.is_closing():
            return
        if (self.conn.our_state, self.conn.their_state) not in _CLIENT_MUST_SEND:
            self._cancel_receive_timer()
        elif self._receive_timer is None:
            self._receive_timer = self.loop.call_later(self._limits.seconds_head, self._overdue)

    def _overdue(self) -> None:
        """Refuse a late head, or disconnect a client that still sends an unused body."""
        if self.conn.their_state is h11.IDLE:
            self._refuse(ApiError("request_timeout"))
        else:
            self.transport.abort()

    def _cancel_receive_timer(self) -> None:
        """Cancel the timer for data that the client must send."""
        if self._receive_timer is not None:
            self._receive_timer.cancel()
            self._receive_timer = None

    def _wait_for_reader(self, buffered_bytes: int) -> None:
        """Disconnect the client unless it reads enough of the buffered bytes in time."""

        def check_progress() -> None:
            remaining_bytes = self.transport.get_write_buffer_size()
            if buffered_bytes - remaining_bytes < _LEAST_READ_BYTES:
                self.transport.abort()
            else:
                self._wait_for_reader(remaining_bytes)

        self._read_timer = self.loop.call_later(self._limits.seconds_unread, check_progress)

    def _refuse(self, problem: ApiError) -> None:
        """Send the problem if a response is still possible, then close the connection."""
        if self.cycle is not None:  # notify the application that the client is gone
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            body = problem.details().model_dump_json(exclude_none=True).encode()
            headers = {"Content-Type": MEDIA_TYPE, "Content-Length": str(len(body)), "Connection": "close"}
            response = h11.Response(
                status_code=problem.status,
                headers=[*headers.items(), *problem.headers.items()],
                reason=STATUS_PHRASES[problem.status],
            )
            for event in (response, h11.Data(data=body), h11.EndOfMessage()):
                self.transport.write(self.conn.send(event))
        self.transport.close()
        self.loop.call_later(self._limits.seconds_head, self.transport.abort)  # even if the response is unread
