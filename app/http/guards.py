"""Before any route: what a head may hold, in what time a body arrives, and HEAD as GET without its body."""

import asyncio
from collections import Counter

from app.http.asgi import ASGIApp, Message, Receive, Scope, Send
from app.http.errors import ApiError, invalid
from app.http.handlers import respond

MOST_HEADERS = 100
MOST_HEAD_BYTES = 2**14
SECONDS_BODY = 20.0  # that a body may keep us waiting; what has arrived earns them back, at this rate:
BYTES_A_SECOND = 2**12
# Two of one of these, and which one counts would be anybody's guess.
_SINGLE = (b"authorization", b"idempotency-key", b"last-event-id", b"content-type")


class Guarded:
    """ASGI middleware.

    Parameters
    ----------
    app : what it surrounds
    seconds_body : for which a body may keep us waiting
    """

    def __init__(self, app: ASGIApp, seconds_body: float = SECONDS_BODY) -> None:
        self._app, self._seconds = app, seconds_body

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        refusal = _refusal(scope)
        if refusal is not None:
            await respond(refusal)(scope, receive, send)
            return
        if scope["method"] == "HEAD":
            scope["method"], send = "GET", _headless(send)
        await self._app(scope, _Punctual(receive, self._seconds), send)


def _refusal(scope: Scope) -> ApiError | None:
    headers = scope["headers"]
    length = sum(map(len, (scope["path"], scope["query_string"], *(part for pair in headers for part in pair))))
    if len(headers) > MOST_HEADERS or length > MOST_HEAD_BYTES:
        return ApiError("headers_too_large")
    counted = Counter(name for name, _ in headers)
    if counted[b"content-length"] and counted[b"transfer-encoding"]:  # RFC 9112, 6.3
        reason = "It says its length in two ways, Content-Length and Transfer-Encoding: send one of them."
        return ApiError("malformed_request", reason, headers={"Connection": "close"})
    twice = [name.decode() for name in _SINGLE if counted[name] > 1]
    if not twice:
        return None
    return invalid([{"type": "header", "loc": ("header", name), "msg": "is there more than once"} for name in twice])


def _headless(send: Send) -> Send:
    """The head of an answer and no more, a stream's head too."""

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            await send(message)
            await send({"type": "http.response.body", "body": b""})

    return sending


class _Punctual:
    """A body that keeps us waiting for too long is an `ApiError` request_timeout, wherever it is read."""

    def __init__(self, receive: Receive, seconds: float) -> None:
        self._receive, self._seconds, self._left, self._is_over = receive, seconds, seconds, False

    async def __call__(self) -> Message:
        if self._is_over:
            return await self._receive()
        began = asyncio.get_running_loop().time()
        try:
            async with asyncio.timeout(self._left):
                message = await self._receive()
        except TimeoutError:
            raise ApiError("request_timeout") from None
        waited = asyncio.get_running_loop().time() - began
        earned = len(message.get("body", b"")) / BYTES_A_SECOND
        self._left = min(self._left + earned - waited, self._seconds)
        self._is_over = not message.get("more_body")
        return message
