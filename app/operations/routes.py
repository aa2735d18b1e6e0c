"""Health probes, which are public, and metrics for a monitor. None of them depends on the data.

These routes ignore query parameters that they do not know. A probe or a scraper may append some, such as one that
defeats a cache, and must not fail because of it.
"""

import hmac
from typing import Annotated

from fastapi import APIRouter, Depends, Request, Response
from fastapi.security import HTTPAuthorizationCredentials

from app.http.errors import ApiError, responses
from app.http.rates import CALLER
from app.identity.dependencies import ServiceSettings, bearer, caller, require
from app.operations.metrics import CONTENT_TYPE
from app.operations.readiness import REASONS
from purse.wire.health import Health

router = APIRouter(tags=["operations"])

READER = require("steward", "auditor")


async def monitor(
    request: Request,
    settings: ServiceSettings,
    credentials: Annotated[HTTPAuthorizationCredentials | None, Depends(bearer)],
) -> None:
    """Require PURSE_METRICS_TOKEN, which needs no database, or the token of a steward or an auditor."""
    token = credentials.credentials if credentials else ""
    expected = settings.metrics_token
    if expected is None or not hmac.compare_digest(token.encode(), expected.get_secret_value().encode()):
        await READER(await caller(request, credentials))
    else:
        request.scope[CALLER] = "the monitor"


@router.get("/health/live", summary="Check liveness")
async def live() -> Health:
    """Report that the process answers. No thread or database is involved."""
    return Health()


@router.get("/health/ready", summary="Check readiness", responses=responses("not_ready"))
async def ready(request: Request) -> Health:
    """Report that the server should get requests. Otherwise the detail of not_ready names each reason."""
    if reasons := await request.app.state.services.readiness.reasons():
        raise ApiError("not_ready", f"Not ready: {'; '.join(f'{reason} ({REASONS[reason]})' for reason in reasons)}.")
    return Health()


@router.get(
    "/metrics",
    summary="Read metrics",
    response_class=Response,
    dependencies=[Depends(monitor)],
    responses=responses("unauthenticated", "forbidden")
    | {200: {"description": "The text format of Prometheus.", "content": {"text/plain": {}}}},
)
def metrics(request: Request) -> Response:
    """Return metrics of requests, prices, jobs, leases and budgets. None of them depends on the data."""
    return Response(request.app.state.metrics.text(), media_type=CONTENT_TYPE)
