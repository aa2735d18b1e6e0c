"""HTTP/1.1 from strangers: uvicorn's protocol over h11, with a bound on all that a caller can hold or put off.

uvicorn bounds the bytes of a head and the silence between two requests. It bounds neither the time in which a head may
arrive, nor how long an answer may go unread, nor how many connections wait; and it says in plain text what is no HTTP.
It offers no hook for any of these, so this is the one class that extends somebody else's.
"""

from asyncio import TimerHandle, Transport
from dataclasses import dataclass
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import STATUS_PHRASES, H11Protocol

from app.http.errors import MEDIA_TYPE, ApiError
from app.http.gathered import Gathered

_BODY_PIECE = 2**16
_UNREAD_PIECE = 2**12  # an answer is read as long as so much of it leaves in `seconds_unread`

_OWING = ((h11.IDLE, h11.IDLE), (h11.DONE, h11.SEND_BODY))  # our state and the caller's: a head, an unwanted body


@dataclass(frozen=True, slots=True)
class Limits:
    """What one caller, and all of them, may hold.

    Parameters
    ----------
    connections : open at once
    head_bytes : of a request's line and headers
    seconds_head : from the first byte of a head, or from the connection's beginning, to the head's end; also how long
        an unwanted body is still read after the answer, so that the answer arrives
    seconds_unread : that an answer may wait for its reader
    """

    connections: int = 512
    head_bytes: int = 2**14
    seconds_head: float = 10.0
    seconds_unread: float = 30.0


class BoundedProtocol(H11Protocol):
    """One connection.

    Parameters
    ----------
    limits : of it and of all
    given : what uvicorn gives its protocols
    """

    def __init__(self, limits: Limits, **given: Any) -> None:
        super().__init__(**given)
        self._limits = limits
        self._owed: TimerHandle | None = None
        self._unread: TimerHandle | None = None
        self._idle_since = self.loop.time()

    def connection_made(self, transport: Transport) -> None:  # type: ignore[override]
        """Room is made by closing the connection that has been idle for longest."""
        super().connection_made(Gathered(transport, self.loop))
        if len(self.connections) > self._limits.connections:
            idle = [c for c in self.connections if isinstance(c, BoundedProtocol) and c is not self and c.is_idle]
            if not idle:
                self._refuse(ApiError("overloaded", headers={"Retry-After": "5"}))
                return
            min(idle, key=lambda connection: connection._idle_since).transport.abort()
        self._expect()

    def connection_lost(self, exc: Exception | None) -> None:
        """No clock runs on."""
        super().connection_lost(exc)
        self._unset_keepalive_if_required()
        self._cancel_owed()
        if self._unread is not None:
            self._unread.cancel()

    def data_received(self, data: bytes) -> None:
        """In pieces, so that the bound on a head holds however much arrives at once."""
        start = 0
        while start < len(data) and not self.transport.is_closing():
            size = _BODY_PIECE if self.conn.their_state is h11.SEND_BODY else self._limits.head_bytes
            super().data_received(data[start : start + size])
            start += size
        self._expect()

    def on_response_complete(self) -> None:
        """The next head is waited for as uvicorn does; the rest of a body only for a while."""
        self._idle_since = self.loop.time()
        super().on_response_complete()
        if self.conn.their_state is h11.SEND_BODY:
            self._expect()

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002
        """What is no HTTP, or is too long."""
        waiting, _ = self.conn.trailing_data
        too_long = len(waiting) > self._limits.head_bytes
        self._refuse(ApiError("headers_too_large" if too_long else "malformed_request"))

    def pause_writing(self) -> None:
        """The caller does not read as fast as we write."""
        super().pause_writing()
        self._wait_for_reader(self.transport.get_write_buffer_size())

    def resume_writing(self) -> None:
        """The caller has read on."""
        super().resume_writing()
        if self._unread is not None:
            self._unread.cancel()

    @property
    def is_idle(self) -> bool:
        """Whether no request is being answered."""
        return bool(getattr(self.cycle, "response_complete", True))  # there is no cycle before the first request

    def _expect(self) -> None:
        """The clock runs while a head is incomplete, or a body that nobody wants any more."""
        if self.transport.is_closing():
            return
        if (self.conn.our_state, self.conn.their_state) not in _OWING:
            self._cancel_owed()
        elif self._owed is None:
            self._owed = self.loop.call_later(self._limits.seconds_head, self._overdue)

    def _overdue(self) -> None:
        if self.conn.their_state is h11.IDLE:
            self._refuse(ApiError("request_timeout"))
        else:
            self.transport.abort()

    def _cancel_owed(self) -> None:
        if self._owed is not None:
            self._owed.cancel()
            self._owed = None

    def _wait_for_reader(self, left: int) -> None:
        def look() -> None:
            now = self.transport.get_write_buffer_size()
            if left - now < _UNREAD_PIECE:
                self.transport.abort()
            else:
                self._wait_for_reader(now)

        self._unread = self.loop.call_later(self._limits.seconds_unread, look)

    def _refuse(self, problem: ApiError) -> None:
        """The problem as an answer, if one can still be given, and the end of the connection."""
        if self.cycle is not None:  # whoever works on it has lost the caller
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            body = problem.details().model_dump_json(exclude_none=True).encode()
            headers = {"Content-Type": MEDIA_TYPE, "Content-Length": str(len(body)), "Connection": "close"}
            answer = h11.Response(
                status_code=problem.status,
                headers=[*headers.items(), *(problem.headers or {}).items()],
                reason=STATUS_PHRASES[problem.status],
            )
            for event in (answer, h11.Data(data=body), h11.EndOfMessage()):
                self.transport.write(self.conn.send(event))
        self.transport.close()
        self.loop.call_later(self._limits.seconds_head, self.transport.abort)  # read or not
