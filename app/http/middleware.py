"""Around every request: one log line, one count, safe headers, and an end to every unknown error.

What is logged is the route's template and the status, never a path, a query string, a body or an exception's text:
a message may hold what a caller or a worker knows of the data.
"""

import logging
import time
import traceback
from collections.abc import Callable, Iterable

from app.http.asgi import ASGIApp, Message, Receive, Scope, Send
from app.http.errors import ApiError
from app.http.handlers import respond

_access = logging.getLogger("purse.access")
_errors = logging.getLogger("purse.errors")
_LEFT = 499  # as a log calls it when the caller has left; nobody is told
_HEADERS = (
    (b"cache-control", b"no-store"),
    (b"x-content-type-options", b"nosniff"),
    (b"content-security-policy", b"default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"),
    (b"referrer-policy", b"no-referrer"),
)


class Observed:
    """ASGI middleware; the outermost of ours.

    Parameters
    ----------
    app : what it surrounds
    count : told of each request that is over: its method, its route's template, its status
    """

    def __init__(self, app: ASGIApp, count: Callable[[str, str, int], None]) -> None:
        self._app = app
        self._count = count

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began, method = time.monotonic(), scope["method"]
        status, has_left = 0, False

        async def receiving() -> Message:
            nonlocal has_left
            message = await receive()
            has_left |= message["type"] == "http.disconnect"
            return message

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                given = {name.lower() for name, _ in message["headers"]}
                message["headers"] = [*message["headers"], *((n, v) for n, v in _HEADERS if n not in given)]
            await send(message)

        try:
            await self._app(scope, receiving, sending)
        except Exception as error:
            severity = logging.INFO if has_left else logging.ERROR
            places = " < ".join(_places(error))
            _errors.log(severity, "%s in %s: %s", type(error).__name__, _template(scope), places)
            if status == 0 and has_left:
                status = _LEFT
            elif status == 0:
                await respond(ApiError("internal"))(scope, receive, sending)
        finally:
            self._count(method, _template(scope), status)
            _access.info("%s %s %d %.0f ms", _short(method), _template(scope), status, 1e3 * (time.monotonic() - began))


def _template(scope: Scope) -> str:
    """/v1/jobs/{job_id}, say: the route's own text, and none for what no route took."""
    return str(getattr(scope.get("route"), "path", None) or "-")


def _short(method: str) -> str:
    return method if method.isalpha() and len(method) < 10 else "-"


def _places(error: BaseException) -> Iterable[str]:
    """Where it happened, innermost first, without the message and without any variable."""
    frames = traceback.extract_tb(error.__traceback__)
    return (f"{frame.filename.rsplit('/', 1)[-1]}:{frame.lineno} {frame.name}" for frame in reversed(frames[-8:]))
