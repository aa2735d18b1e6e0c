"""This interface, described: public, and free of anybody's data."""

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, JSONResponse

from app.openapi.page import page

router = APIRouter(tags=["operations"])


@router.get("/docs", summary="This interface, to read", response_class=HTMLResponse)
def docs(request: Request) -> HTMLResponse:
    """The OpenAPI document as one page; it runs no script and loads nothing from elsewhere."""
    return HTMLResponse(page(request.app.openapi()))


@router.get("/openapi.json", include_in_schema=False)
def openapi(request: Request) -> JSONResponse:
    """The OpenAPI document."""
    return JSONResponse(request.app.openapi())
