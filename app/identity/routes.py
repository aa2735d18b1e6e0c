"""Tokens, for stewards."""

from typing import Annotated

from fastapi import Depends, Query, Response

from app.http.body import json_body
from app.http.errors import responses
from app.http.lists import Paging, paging
from app.http.location import Locate
from app.http.queries import strict_router
from app.identity import service
from app.identity.dependencies import Base, Chosen, Principal, require
from purse.wire.base import Identifier, Name, Page
from purse.wire.tokens import NewToken, Role, Token, TokenRequest

router = strict_router(prefix="/v1/tokens", tags=["tokens"])

Steward = Annotated[Principal, Depends(require("steward"))]
Manager = Annotated[Principal, Depends(require("steward", scope="manage"))]


@router.post(
    "",
    status_code=201,
    summary="Make a token",
    responses=responses("invalid_request", "out_of_range", "name_taken", "disk_full"),
)
def create(
    base: Base,
    chosen: Chosen,
    _principal: Manager,
    body: Annotated[TokenRequest, Depends(json_body(TokenRequest))],
    locate: Locate,
) -> NewToken:
    """The secret is shown in this answer and never again: the service keeps its SHA-256 only.

    A name is one person's or program's for good. With a name that is known, and its role, this is another token of the
    same identity, which has the same jobs, grants and spending.
    """
    token = service.create(base, body, chosen.max_token_lifetime)
    locate(f"{router.prefix}/{token.id}")
    return token


@router.get("", summary="List tokens", responses=responses("invalid_request"))
def listing(
    base: Base,
    _principal: Steward,
    asked: Annotated[Paging, Depends(paging())],
    name: Annotated[Name | None, Query(description="Only whose name is this.")] = None,
    role: Annotated[Role | None, Query(description="Only those of this role.")] = None,
) -> Page[Token]:
    """Live tokens, without their secrets."""
    return service.page(base, asked, name, role)


@router.post(
    "/{token_id}/rotate", status_code=201, summary="Rotate a token", responses=responses("not_found", "disk_full")
)
def rotate(
    base: Base,
    chosen: Chosen,
    _principal: Manager,
    token_id: Identifier,
    locate: Locate,
) -> NewToken:
    """A new secret for the same identity, scopes and lifetime; the old token ends at once, in the same transaction."""
    token = service.rotate(base, token_id, chosen.max_token_lifetime)
    locate(f"{router.prefix}/{token.id}")
    return token


@router.delete(
    "/{token_id}",
    status_code=204,
    summary="Revoke a token",
    responses=responses("not_found", "last_steward", "disk_full"),
)
def revoke(base: Base, _principal: Manager, token_id: Identifier) -> Response:
    """At once and for good. Jobs go on, charges stay, and all remain its identity's. The last steward token stays."""
    service.revoke(base, token_id)
    return Response(status_code=204)
