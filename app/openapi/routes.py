"""This interface, described: public, and free of anybody's data."""

from collections.abc import Callable

from fastapi import APIRouter, Request, Response
from fastapi.responses import HTMLResponse, JSONResponse

from app.http import conditional
from app.openapi.page import page

router = APIRouter(tags=["operations"])


@router.get("/docs", summary="This interface, to read", response_class=HTMLResponse, responses=conditional.RESPONSES)
def docs(request: Request, if_none_match: conditional.IfNoneMatch = None) -> Response:
    """The OpenAPI document as one page; it runs no script and loads nothing from elsewhere."""
    made = _once(request, "docs", lambda: page(request.app.openapi()).encode())
    return conditional.respond(made, if_none_match, media_type="text/html")


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
