"""FastAPI dependencies for authentication and authorization; every protected route uses one."""

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
    description="Token created by a steward with `POST /v1/tokens`, or a token of the sign-on provider.",
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
    """Return the principal of the bearer token, which is a token of the service or of the sign-on provider.

    Raises
    ------
    ApiError
        unauthenticated; forbidden if none of a person's groups has a role; sign_on_unavailable.
    """
    if credentials is None:
        raise ApiError("unauthenticated", headers=_CHALLENGE)
    sign_on: SignOn | None = request.app.state.services.sign_on
    arrival = None if sign_on is None else await sign_on.read(credentials.credentials)
    base = await database(request)
    principal = await service.authenticate(base, arrival or credentials.credentials)
    if principal is None:
        raise ApiError("unauthenticated", headers=_CHALLENGE)
    request.scope[CALLER] = principal.id
    return principal


@dataclass(frozen=True, slots=True)
class Require:
    """Dependency that returns the principal if its role and scope are sufficient; created by `require`."""

    roles: frozenset[Role]
    scope: Scope

    async def __call__(self, principal: Annotated[Principal, Depends(caller)]) -> Principal:
        """Return the principal, or raise `ApiError` forbidden."""
        if principal.role not in self.roles:
            raise ApiError("forbidden")
        if self.scope not in principal.scopes:
            raise ApiError("forbidden", f"The token lacks the scope `{self.scope}`. Use a token that has it.")
        return principal


def require(*roles: Role, scope: Scope = "read") -> Require:
    """Return a dependency for `Annotated[Principal, Depends(require("analyst"))]`; "analyst" also admits stewards."""
    allowed = frozenset(roles)
    return Require(allowed | {"steward"} if "analyst" in allowed else allowed, scope)


__all__ = ["Base", "Chosen", "Principal", "Require", "bearer", "caller", "database", "require", "settings"]
