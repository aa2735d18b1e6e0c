"""Around every request: an id, one log line, one count, safe headers, and an end to every unknown error.

What is logged is the route's template and the status, never a path, a query string, a body or an exception's text:
a message may hold what a caller or a worker knows of the data.
"""

import asyncio
import logging
import re
import time
import traceback
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Final

from app.http.asgi import ASGIApp, Message, Receive, Scope, Send
from app.http.errors import ApiError
from app.http.handlers import respond

_access = logging.getLogger("purse.access")
_errors = logging.getLogger("purse.errors")
REQUEST: Final[ContextVar[str | None]] = ContextVar("request", default=None)  # the id of the request at hand
_ID = re.compile(rb"[0-9a-fA-F-]{16,64}")  # a UUID, say: none of a stranger's words come into a log
_DATA = re.compile(
    "/v1/(datasets|uploads)|/pages/upload"
)  # what is written here may be data, and how long it took tells of it
_LEFT = 499  # as a log calls it when the caller has left; nobody is told
_STOPPED = "The service stops, and this may have been done or not: send it again, with the same Idempotency-Key."
_HEADERS = (
    (b"cache-control", b"no-store"),
    (b"x-content-type-options", b"nosniff"),
    (b"content-security-policy", b"default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"),
    (b"referrer-policy", b"no-referrer"),
)


@dataclass(frozen=True, slots=True)
class Over:
    """A request that is over: nothing of what was said in it.

    Parameters
    ----------
    method, route : "-" for what is no method, or where no route took it; the route is its template
    status : of the answer
    seconds : that it took; None where it may have brought data
    request_id : its own
    parent : the span that it belongs to, as the caller says in `traceparent`
    """

    method: str
    route: str
    status: int
    seconds: float | None
    request_id: str
    parent: str


@contextmanager
def in_request(request_id: str | None) -> Iterator[None]:
    """What is logged inside the block belongs to this request, however long that is over."""
    reset_token = REQUEST.set(request_id)
    try:
        yield
    finally:
        REQUEST.reset(reset_token)


class Observed:
    """ASGI middleware; the outermost of ours.

    Parameters
    ----------
    app : what it surrounds
    tell : hears of each request that is over
    root_path : the prefix under which a proxy shows the service; it may take it away from a path or leave it
    """

    def __init__(self, app: ASGIApp, tell: Callable[[Over], None], root_path: str = "") -> None:
        self._app, self._tell, self._root_path = app, tell, root_path

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began, method = time.monotonic(), scope["method"]
        request_id = _request_id(scope)
        REQUEST.set(request_id)
        scope["root_path"] = self._root_path
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
                header_names = {name.lower() for name, _ in message["headers"]}
                message["headers"] = [*message["headers"], *((n, v) for n, v in _HEADERS if n not in header_names)]
                message["headers"].append((b"x-request-id", request_id.encode()))
            await send(message)

        try:
            await self._app(scope, receiving, sending)
        except Exception as error:
            severity = logging.INFO if has_left else logging.ERROR
            where = " < ".join(places(error))
            _errors.log(severity, "%s in %s: %s", type(error).__name__, _template(scope), where)
            if status == 0 and has_left:
                status = _LEFT
            elif status == 0:
                await respond(ApiError("internal"))(scope, receive, sending)
        except asyncio.CancelledError:  # the server's grace for a stop is over
            if status != 0 or has_left:
                raise
            await respond(ApiError("not_ready", _STOPPED, headers={"Retry-After": "5"}))(scope, receive, sending)
        finally:
            route = _template(scope)
            seconds = None if method not in ("GET", "HEAD") and _DATA.match(route) else time.monotonic() - began
            parent = b"".join(value for name, value in scope["headers"] if name == b"traceparent").decode("latin-1")
            over = Over(_short(method), route, status, seconds, request_id, parent)
            self._tell(over)
            fields = {"method": over.method, "route": route, "status": status, "seconds": seconds}
            took = "" if seconds is None else f" {1e3 * seconds:.0f} ms"
            _access.info("%s %s %d%s", over.method, route, status, took, extra={"fields": fields})


def _request_id(scope: Scope) -> str:
    """The one that a proxy or a caller gave it, if it has an id's shape; else a fresh one."""
    request_ids = [value for name, value in scope["headers"] if name == b"x-request-id"]
    return request_ids[0].decode() if len(request_ids) == 1 and _ID.fullmatch(request_ids[0]) else str(uuid.uuid4())


def _template(scope: Scope) -> str:
    """/v1/jobs/{job_id}, say: the route's own text, and none for what no route took."""
    return str(getattr(scope.get("route"), "path", None) or "-")


def _short(method: str) -> str:
    return method if method.isalpha() and len(method) < 10 else "-"


def places(error: BaseException) -> Iterable[str]:
    """Where it happened, innermost first, without the message and without any variable."""
    frames = traceback.extract_tb(error.__traceback__)
    return (f"{frame.filename.rsplit('/', 1)[-1]}:{frame.lineno} {frame.name}" for frame in reversed(frames[-8:]))
