"""Health and metrics; public, and free of anybody's data."""

import asyncio
from typing import Annotated

import sqlalchemy as sa
from fastapi import APIRouter, Depends, Request, Response

from app.http.errors import ApiError, responses
from app.identity.dependencies import database
from app.operations.metrics import CONTENT_TYPE
from app.persistence.session import Database
from app.wire.health import Health

router = APIRouter(tags=["operations"])

_PATIENCE = 5.0  # seconds that the database may take


@router.get("/health/live", summary="Is the process there?")
async def live() -> Health:
    """Answers as long as the server answers at all; no thread is asked."""
    return Health()


@router.get("/health/ready", summary="Is the service ready?", responses=responses("not_ready"))
async def ready(request: Request, base: Annotated[Database, Depends(database)]) -> Health:
    """Answers while the libraries are warm, the database is there and the disk has room; otherwise not_ready."""
    if not request.app.state.services.ready.is_set():
        raise ApiError("not_ready")
    try:
        async with asyncio.timeout(_PATIENCE):
            await asyncio.to_thread(_look, base)  # not one of the threads that requests wait for
    except (TimeoutError, sa.exc.SQLAlchemyError):
        raise ApiError("not_ready") from None
    if not request.app.state.services.settings.has_room:
        raise ApiError("not_ready", "The disk is nearly full.")
    return Health()


def _look(base: Database) -> None:
    with base.read() as connection:
        connection.execute(sa.text("select 1"))


@router.get(
    "/metrics",
    summary="Counters for Prometheus",
    response_class=Response,
    responses={200: {"description": "The text format of Prometheus.", "content": {"text/plain": {}}}},
)
def metrics(request: Request) -> Response:
    """Requests by route and status, jobs by state. No timing and no count of anything in the data."""
    return Response(request.app.state.metrics.text(), media_type=CONTENT_TYPE)
