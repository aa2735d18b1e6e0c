"""Who may do what: FastAPI dependencies that every protected route names."""

from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from app.http.errors import ApiError
from app.http.rates import CALLER
from app.identity import service
from app.identity.sign_on import SignOn
from app.identity.store import Principal
from app.persistence.session import Database
from app.settings import Settings
from purse.wire.tokens import Role, Scope

bearer = HTTPBearer(
    auto_error=False,
    scheme_name="token",
    description="A token that a steward made with `POST /v1/tokens`, or one of the provider of sign-on.",
)
_CHALLENGE = {"WWW-Authenticate": "Bearer"}


async def database(request: Request) -> Database:
    """Return the service's database."""
    base = request.app.state.services.database
    assert isinstance(base, Database)
    return base


async def settings(request: Request) -> Settings:
    """Return the service's settings."""
    chosen = request.app.state.services.settings
    assert isinstance(chosen, Settings)
    return chosen


Base = Annotated[Database, Depends(database)]
Chosen = Annotated[Settings, Depends(settings)]


async def caller(
    request: Request, credentials: Annotated[HTTPAuthorizationCredentials | None, Depends(bearer)]
) -> Principal:
    """Whom the provider of sign-on vouches for, or who holds this token: looked up once for each request.

    Raises
    ------
    ApiError
        unauthenticated, and what `service.known` raises.
    """
    if credentials is None:
        raise ApiError("unauthenticated", headers=_CHALLENGE)
    sign_on: SignOn | None = request.app.state.services.sign_on
    arrived = None if sign_on is None else await sign_on.read(credentials.credentials)
    base = await database(request)
    principal = await service.known(base, arrived or credentials.credentials)
    if principal is None:
        raise ApiError("unauthenticated", headers=_CHALLENGE)
    request.scope[CALLER] = principal.id
    return principal


@dataclass(frozen=True, slots=True)
class Require:
    """A dependency: the principal, if its role is one of `roles` and its token is for `scope`. Made by `require`."""

    roles: frozenset[Role]
    scope: Scope

    async def __call__(self, principal: Annotated[Principal, Depends(caller)]) -> Principal:
        """The principal; `ApiError` unauthenticated or forbidden."""
        if principal.role not in self.roles:
            raise ApiError("forbidden")
        if self.scope not in principal.scopes:
            raise ApiError("forbidden", f"This token is not for this: it lacks the scope `{self.scope}`.")
        return principal


def require(*roles: Role, scope: Scope = "read") -> Require:
    """`Annotated[Principal, Depends(require("analyst"))]`. A steward may do all that an analyst may."""
    allowed = frozenset(roles)
    return Require(allowed | {"steward"} if "analyst" in allowed else allowed, scope)


__all__ = ["Base", "Chosen", "Principal", "Require", "bearer", "caller", "database", "require", "settings"]
