"""Public routes that describe the HTTP interface."""

from collections.abc import Callable
from pathlib import Path

from fastapi import Request, Response
from fastapi.responses import HTMLResponse, JSONResponse

from app.http import conditional
from app.http.queries import strict_router
from app.openapi.page import page

_SCRIPT = Path(__file__).parent / "try.js"
_POLICY = (
    "default-src 'none'; script-src 'self'; connect-src 'self'; style-src 'unsafe-inline'; "
    "form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
)
router = strict_router(tags=["operations"])


@router.get("/docs", summary="Read the API reference", response_class=HTMLResponse, responses=conditional.RESPONSES)
def docs(request: Request, if_none_match: conditional.IfNoneMatch = None) -> Response:
    """Return the OpenAPI document as a page that can send requests and loads nothing from other hosts."""
    content = _once(request, "docs", lambda: page(request.app.openapi()).encode())
    answer = conditional.respond(content, if_none_match, media_type="text/html")
    answer.headers["Content-Security-Policy"] = _POLICY
    return answer


@router.get("/docs/try.js", include_in_schema=False)
def script(if_none_match: conditional.IfNoneMatch = None) -> Response:
    """Return the script of that page."""
    return conditional.respond(_SCRIPT.read_bytes(), if_none_match, media_type="text/javascript")


@router.get("/openapi.json", include_in_schema=False)
def openapi(request: Request, if_none_match: conditional.IfNoneMatch = None) -> Response:
    """Return the OpenAPI document."""
    text = _once(request, "openapi", lambda: JSONResponse(request.app.openapi()).body)
    return conditional.respond(text, if_none_match)


def _once(request: Request, name: str, write: Callable[[], bytes | memoryview]) -> bytes:
    """Return content that is written at the first request, because anybody may request it often."""
    written: dict[str, bytes] = request.app.state.written
    if name not in written:
        written[name] = bytes(write())
    return written[name]
