"""Checks before any route: size of the head, arrival time of the body, and HEAD answered as GET without a body."""

import asyncio
from collections import Counter

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.http.errors import ApiError, invalid
from app.http.handlers import respond

MOST_HEADERS = 100
MOST_HEAD_BYTES = 2**14
SECONDS_BODY = 20.0  # total time that the server waits for a body
BYTES_A_SECOND = 2**12  # bytes received that extend this time by a second, up to SECONDS_BODY
# Headers that may occur once only, because a second one would be ambiguous.
_SINGLE = (b"authorization", b"idempotency-key", b"last-event-id", b"content-type")


class Guarded:
    """ASGI middleware that rejects oversized or ambiguous heads and slow bodies.

    Parameters
    ----------
    app : the wrapped application
    seconds_body : total time in seconds that the server waits for a body
    """

    def __init__(self, app: ASGIApp, seconds_body: float = SECONDS_BODY) -> None:
        self._app, self._seconds = app, seconds_body

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        refusal = _refusal(scope)
        if refusal is not None:
            await respond(refusal)(scope, receive, send)
            return
        if scope["method"] == "HEAD":
            scope["method"], send = "GET", _without_body(send)
        await self._app(scope, _TimedBody(receive, self._seconds), send)


def _refusal(scope: Scope) -> ApiError | None:
    """Return the error for an oversized or ambiguous head, or None."""
    headers = scope["headers"]
    length = sum(map(len, (scope["path"], scope["query_string"], *(part for pair in headers for part in pair))))
    if len(headers) > MOST_HEADERS or length > MOST_HEAD_BYTES:
        return ApiError("headers_too_large")
    counted = Counter(name for name, _ in headers)
    if counted[b"content-length"] and counted[b"transfer-encoding"]:  # RFC 9112, 6.3
        detail = "The request has both Content-Length and Transfer-Encoding, which may disagree. Send one of them."
        return ApiError("malformed_request", detail, headers={"Connection": "close"})
    repeated = [name.decode() for name in _SINGLE if counted[name] > 1]
    if not repeated:
        return None
    message = "occurs more than once. Send it once"
    return invalid([{"type": "header", "loc": ("header", name), "msg": message} for name in repeated])


def _without_body(send: Send) -> Send:
    """Return a `send` that sends the head of a response and drops its body."""

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            await send(message)
            await send({"type": "http.response.body", "body": b""})

    return sending


class _TimedBody:
    """Receiver that raises `ApiError` request_timeout when the body takes too long to arrive."""

    def __init__(self, receive: Receive, seconds: float) -> None:
        self._receive, self._seconds, self._remaining, self._is_complete = receive, seconds, seconds, False

    async def __call__(self) -> Message:
        if self._is_complete:
            return await self._receive()
        began = asyncio.get_running_loop().time()
        try:
            async with asyncio.timeout(self._remaining):
                message = await self._receive()
        except TimeoutError:
            raise ApiError("request_timeout") from None
        waited = asyncio.get_running_loop().time() - began
        earned = len(message.get("body", b"")) / BYTES_A_SECOND
        self._remaining = min(self._remaining + earned - waited, self._seconds)
        self._is_complete = not message.get("more_body")
        return message
