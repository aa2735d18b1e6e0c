"""Health and metrics; public, and free of anybody's data."""

from typing import Annotated

from fastapi import APIRouter, Depends, Request, Response

from app.http.errors import ApiError, responses
from app.identity.dependencies import database
from app.operations.metrics import CONTENT_TYPE
from app.persistence.session import Database
from app.wire.health import Health

router = APIRouter(tags=["operations"])


@router.get("/health/live", summary="Is the process there?")
def live() -> Health:
    """Answers as long as the server answers at all."""
    return Health()


@router.get("/health/ready", summary="Is the service ready?", responses=responses("not_ready"))
def ready(request: Request, base: Annotated[Database, Depends(database)]) -> Health:
    """Answers once the libraries are warm and the database is there; until then not_ready."""
    if not request.app.state.services.ready.is_set():
        raise ApiError("not_ready")
    with base.read() as connection:
        base.now(connection)
    return Health()


@router.get(
    "/metrics",
    summary="Counters for Prometheus",
    response_class=Response,
    responses={200: {"description": "The text format of Prometheus.", "content": {"text/plain": {}}}},
)
def metrics(request: Request) -> Response:
    """Requests by route and status, jobs by state. No timing and no count of anything in the data."""
    return Response(request.app.state.metrics.text(), media_type=CONTENT_TYPE)
