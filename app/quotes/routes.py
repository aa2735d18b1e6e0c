"""The route of quotes, for analysts."""

from typing import Annotated

from fastapi import Depends, Request

from app.http.body import JsonBody
from app.http.dependencies import while_connected
from app.http.errors import responses
from app.http.queries import strict_router
from app.identity.dependencies import Calculations, Capacity, Quoter, ServiceDatabase, ServiceSettings
from app.quotes import service
from app.wire import AnyRequest, Quote

router = strict_router(prefix="/v1", tags=["jobs"])

REFUSALS = (
    "not_found",
    "dataset_deleted",
    "data_elsewhere",
    "dataset_changed",
    "dataset_damaged",
    "invalid_request",
    "out_of_range",
    "unsupported_combination",
    "method_filter_mismatch",
    "method_needs_one_machine",
    "too_many_requests",
    "overloaded",
)
"""Codes of the errors that pricing can raise."""


@router.post("/quotes", summary="Price a job", responses=responses(*REFUSALS))
async def quote(
    request: Request,
    database: ServiceDatabase,
    settings: ServiceSettings,
    calculations: Calculations,
    principal: Quoter,
    _capacity: Capacity,
    body: Annotated[AnyRequest, Depends(JsonBody(AnyRequest))],
) -> Quote:
    """Returns the queries of the job, their noise, and what would remain. Charges nothing and reads no data."""
    return await while_connected(request, service.quote(database, settings, calculations, principal, body.root))
