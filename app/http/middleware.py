"""Middleware around every request: request id, access log, metrics, security headers and unexpected errors.

Log lines contain the route's template and the status. They never contain a path, a query string, a body or the text of
an exception, because these may contain values of the data.
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

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.http.errors import ApiError
from app.http.handlers import respond

_access = logging.getLogger("purse.access")
_errors = logging.getLogger("purse.errors")
REQUEST: Final[ContextVar[str | None]] = ContextVar("request", default=None)  # id of the current request
_ID = re.compile(rb"[0-9a-fA-F-]{16,64}")  # such as a UUID; no other text of a caller enters the log
# Writes to these routes may carry data, and their duration may depend on it.
_DATA_ROUTES = re.compile("/v1/(datasets|uploads)|/pages/upload")
_CLIENT_CLOSED_STATUS = 499  # logged if the client disconnects before the response; never sent
_SHUTDOWN_DETAIL = (
    "The server is shutting down. Your request may or may not have been processed; retry it with the same "
    "Idempotency-Key."
)
_HEADERS = (
    (b"cache-control", b"no-store"),
    (b"x-content-type-options", b"nosniff"),
    (b"content-security-policy", b"default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"),
    (b"referrer-policy", b"no-referrer"),
)


@dataclass(frozen=True, slots=True)
class FinishedRequest:
    """Facts about a finished request, for logs, metrics and traces; no part of its content.

    Parameters
    ----------
    method : HTTP method; "-" if it is not a plausible one
    route : template of the route; "-" if no route matched
    status : status of the response
    seconds : duration; None if the request may have carried data
    request_id : id of the request
    parent : the caller's `traceparent` header
    """

    method: str
    route: str
    status: int
    seconds: float | None
    request_id: str
    parent: str


@contextmanager
def in_request(request_id: str | None) -> Iterator[None]:
    """Log inside the block under this request's id, even if the request has ended."""
    token = REQUEST.set(request_id)
    try:
        yield
    finally:
        REQUEST.reset(token)


class Observed:
    """ASGI middleware that logs, counts and completes every request; the outermost one.

    Parameters
    ----------
    app : the wrapped application
    on_end : called with each finished request
    root_path : path prefix of the service behind a proxy; the proxy may strip it or leave it in place
    """

    def __init__(self, app: ASGIApp, on_end: Callable[[FinishedRequest], None], root_path: str = "") -> None:
        self._app, self._on_end, self._root_path = app, on_end, root_path

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began, method = time.monotonic(), scope["method"]
        request_id = _request_id(scope)
        REQUEST.set(request_id)
        scope["root_path"] = self._root_path
        status, is_disconnected = 0, False

        async def receiving() -> Message:
            nonlocal is_disconnected
            message = await receive()
            is_disconnected |= message["type"] == "http.disconnect"
            return message

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                present = {name.lower() for name, _ in message["headers"]}
                message["headers"] = [*message["headers"], *((n, v) for n, v in _HEADERS if n not in present)]
                message["headers"].append((b"x-request-id", request_id.encode()))
            await send(message)

        try:
            await self._app(scope, receiving, sending)
        except Exception as error:
            severity = logging.INFO if is_disconnected else logging.ERROR
            stack = " < ".join(stack_locations(error))
            _errors.log(severity, "%s in %s: %s", type(error).__name__, _template(scope), stack)
            if status == 0 and is_disconnected:
                status = _CLIENT_CLOSED_STATUS
            elif status == 0:
                await respond(ApiError("internal"))(scope, receive, sending)
        except asyncio.CancelledError:  # the server's time for a graceful shutdown is over
            if status != 0 or is_disconnected:
                raise
            await respond(ApiError("not_ready", _SHUTDOWN_DETAIL))(scope, receive, sending)
        finally:
            route = _template(scope)
            seconds = None if method not in ("GET", "HEAD") and _DATA_ROUTES.match(route) else time.monotonic() - began
            parent = b"".join(value for name, value in scope["headers"] if name == b"traceparent").decode("latin-1")
            finished = FinishedRequest(_plausible_method(method), route, status, seconds, request_id, parent)
            self._on_end(finished)
            fields = {"method": finished.method, "route": route, "status": status, "seconds": seconds}
            duration = "" if seconds is None else f" {1e3 * seconds:.0f} ms"
            _access.info("%s %s %d%s", finished.method, route, status, duration, extra={"fields": fields})


def _request_id(scope: Scope) -> str:
    """Return the id in `X-Request-Id` if it is well-formed, otherwise a new one."""
    values = [value for name, value in scope["headers"] if name == b"x-request-id"]
    return values[0].decode() if len(values) == 1 and _ID.fullmatch(values[0]) else str(uuid.uuid4())


def _template(scope: Scope) -> str:
    """Return the template of the matched route, such as /v1/jobs/{job_id}, or "-" if no route matched."""
    return str(getattr(scope.get("route"), "path", None) or "-")


def _plausible_method(method: str) -> str:
    """Return a method that looks like one of HTTP, otherwise "-"."""
    return method if method.isalpha() and len(method) < 10 else "-"


def stack_locations(error: BaseException) -> Iterable[str]:
    """Return the stack's lines and functions, innermost first, without the error's message and without variables."""
    frames = traceback.extract_tb(error.__traceback__)
    return (f"{frame.filename.rsplit('/', 1)[-1]}:{frame.lineno} {frame.name}" for frame in reversed(frames[-8:]))
