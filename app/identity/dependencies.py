"""FastAPI dependencies for authentication and authorization; every protected route uses one."""

from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from app.calculation.pool import Pool
from app.http.dependencies import ServicePart
from app.http.errors import ApiError
from app.http.rates import CALLER
from app.identity import service
from app.identity.sign_on import SignOn
from app.identity.store import Principal as Principal  # routes import it from here
from app.persistence.session import Database
from app.settings import Settings
from purse.wire.tokens import Role, Scope

bearer = HTTPBearer(
    auto_error=False,
    scheme_name="token",
    description="Token created by a steward with `POST /v1/tokens`, or a token of the sign-on provider.",
)
_CHALLENGE = {"WWW-Authenticate": "Bearer"}


ServiceDatabase = Annotated[Database, Depends(ServicePart("database"))]
ServiceSettings = Annotated[Settings, Depends(ServicePart("settings"))]
Calculations = Annotated[Pool, Depends(ServicePart("pool"))]


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
    principal = await service.authenticate(request.app.state.services.database, arrival or credentials.credentials)
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
            needed = " or ".join(sorted(self.roles))
            detail = f"The token has the role {principal.role}, and this action needs the role {needed}."
            raise ApiError("forbidden", f"{detail} Ask a steward for another token.")
        if self.scope not in principal.scopes:
            raise ApiError("forbidden", f"The token lacks the scope `{self.scope}`. Use a token that has it.")
        return principal


def require(*roles: Role, scope: Scope = "read") -> Require:
    """Return a dependency for `Annotated[Principal, Depends(require("analyst"))]`; "analyst" also admits stewards."""
    allowed = frozenset(roles)
    return Require(allowed | {"steward"} if "analyst" in allowed else allowed, scope)


Anyone = Annotated[Principal, Depends(require("steward", "analyst", "auditor"))]
Analyst = Annotated[Principal, Depends(require("analyst"))]
Quoter = Annotated[Principal, Depends(require("analyst", scope="quote"))]
Submitter = Annotated[Principal, Depends(require("analyst", scope="submit"))]
SessionHolder = Annotated[Principal, Depends(require("analyst", scope="session"))]
Reader = Annotated[Principal, Depends(require("analyst", "auditor"))]
Auditor = Annotated[Principal, Depends(require("steward", "auditor"))]
Steward = Annotated[Principal, Depends(require("steward"))]
Manager = Annotated[Principal, Depends(require("steward", scope="manage"))]


async def check_capacity(calculations: Calculations, principal: Annotated[Principal, Depends(caller)]) -> None:
    """Refuse a caller with too many questions before the body is read, which costs almost nothing."""
    calculations.check(principal.id)


Capacity = Annotated[None, Depends(check_capacity)]
"""The parameter that comes after a route's principal and before its body, for routes that calculate."""
