"""Tokens, for stewards."""

from typing import Annotated

from fastapi import APIRouter, Depends, Query, Response

from app.http.body import json_body
from app.http.errors import responses
from app.identity import service
from app.identity.dependencies import Principal, database, require
from app.persistence.session import Database
from app.wire.base import Identifier, Page
from app.wire.tokens import NewToken, Token, TokenRequest

router = APIRouter(prefix="/v1/tokens", tags=["tokens"])

Base = Annotated[Database, Depends(database)]
Steward = Annotated[Principal, Depends(require("steward"))]


@router.post("", status_code=201, summary="Make a token", responses=responses("invalid_request", "disk_full"))
def create(
    base: Base, _principal: Steward, body: Annotated[TokenRequest, Depends(json_body(TokenRequest))]
) -> NewToken:
    """The secret is shown in this answer and never again: the service keeps its SHA-256 only."""
    return service.create(base, body)


@router.get("", summary="List tokens", responses=responses("invalid_request"))
def listing(
    base: Base,
    _principal: Steward,
    cursor: Annotated[Identifier | None, Query(description="`next` of the page before.")] = None,
    limit: Annotated[int, Query(ge=1, le=500, description="The most entries of this page.")] = 100,
) -> Page[Token]:
    """Live tokens, oldest first, without their secrets."""
    return service.page(base, cursor, limit)


@router.delete(
    "/{token_id}",
    status_code=204,
    summary="Revoke a token",
    responses=responses("not_found", "last_steward", "disk_full"),
)
def revoke(base: Base, _principal: Steward, token_id: Identifier) -> Response:
    """At once and for good. Its jobs go on, and its charges stay. The last steward token cannot be revoked."""
    service.revoke(base, token_id)
    return Response(status_code=204)
