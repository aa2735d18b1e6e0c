"""This interface, described: public, and free of anybody's data."""

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


@router.get("/docs", summary="This interface, to read", response_class=HTMLResponse, responses=conditional.RESPONSES)
def docs(request: Request, if_none_match: conditional.IfNoneMatch = None) -> Response:
    """The OpenAPI document as one page, where a request can be tried; nothing is loaded from elsewhere."""
    made = _once(request, "docs", lambda: page(request.app.openapi()).encode())
    answer = conditional.respond(made, if_none_match, media_type="text/html")
    answer.headers["Content-Security-Policy"] = _POLICY
    return answer


@router.get("/docs/try.js", include_in_schema=False)
def script(if_none_match: conditional.IfNoneMatch = None) -> Response:
    """What that page runs."""
    return conditional.respond(_SCRIPT.read_bytes(), if_none_match, media_type="text/javascript")


@router.get("/openapi.json", include_in_schema=False)
def openapi(request: Request, if_none_match: conditional.IfNoneMatch = None) -> Response:
    """The OpenAPI document."""
    text = _once(request, "openapi", lambda: JSONResponse(request.app.openapi()).body)
    return conditional.respond(text, if_none_match)


def _once(request: Request, name: str, made: Callable[[], bytes | memoryview]) -> bytes:
    """What strangers may ask for is written once."""
    written: dict[str, bytes] = request.app.state.written
    if name not in written:
        written[name] = bytes(made())
    return written[name]
