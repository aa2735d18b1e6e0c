"""Routes for tokens, which stewards manage."""

from typing import Annotated

from fastapi import Depends, Query

from app.http.body import JsonBody
from app.http.dependencies import Locate
from app.http.errors import responses
from app.http.lists import Paging, paging_parameters
from app.http.queries import strict_router
from app.identity import service
from app.identity.dependencies import Manager, ServiceDatabase, ServiceSettings, Steward
from purse.wire.base import Identifier, Name, Page
from purse.wire.tokens import NewToken, Role, Token, TokenRequest

router = strict_router(prefix="/v1/tokens", tags=["tokens"])


@router.post("", status_code=201, summary="Make a token", responses=responses("name_taken", "disk_full"))
def create(
    database: ServiceDatabase,
    settings: ServiceSettings,
    _principal: Manager,
    body: Annotated[TokenRequest, Depends(JsonBody(TokenRequest))],
    locate: Locate,
) -> NewToken:
    """Create a token. Only this response contains the secret. The service stores its SHA-256 hash.

    A name belongs permanently to one person or program. If the name exists with the same role, the new token belongs to
    the same identity, with its jobs, grants and spending.
    """
    token = service.create(database, body, settings.max_token_lifetime)
    locate(f"{router.prefix}/{token.id}")
    return token


@router.get("", summary="List tokens")
def listing(
    database: ServiceDatabase,
    _principal: Steward,
    paging_request: Annotated[Paging, Depends(paging_parameters())],
    name: Annotated[Name | None, Query(description="Only tokens of the identity with this name.")] = None,
    role: Annotated[Role | None, Query(description="Only tokens with this role.")] = None,
) -> Page[Token]:
    """List valid tokens without their secrets."""
    return service.page(database, paging_request, name, role)


@router.post("/{token_id}/rotate", status_code=201, summary="Rotate a token", responses=responses("disk_full"))
def rotate(
    database: ServiceDatabase,
    settings: ServiceSettings,
    _principal: Manager,
    token_id: Identifier,
    locate: Locate,
) -> NewToken:
    """Replace a token by a new one with the same identity, scopes and lifetime. The old one is revoked immediately."""
    token = service.rotate(database, token_id, settings.max_token_lifetime)
    locate(f"{router.prefix}/{token.id}")
    return token


@router.delete("/{token_id}", status_code=204, summary="Revoke a token", responses=responses("last_steward"))
def revoke(database: ServiceDatabase, _principal: Manager, token_id: Identifier) -> None:
    """Revoke a token immediately and permanently.

    Jobs continue, and charges remain with the identity. The last token that can create tokens cannot be revoked.
    """
    service.revoke(database, token_id)
