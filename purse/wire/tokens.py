"""Bearer tokens, their owners and their scopes."""

from collections.abc import Mapping
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from purse.wire.base import Identifier, Name, Timestamp, Title, Wire

Role = Literal["steward", "analyst", "auditor"]
Scope = Literal["read", "quote", "submit", "session", "manage"]

SCOPES: Mapping[Role, tuple[Scope, ...]] = {
    "steward": ("read", "quote", "submit", "session", "manage"),
    "analyst": ("read", "quote", "submit", "session"),
    "auditor": ("read",),
}
"""The scopes of each role."""


class TokenRequest(Wire):
    """A request for a token. If the name already has this role, the same person or program gets another token."""

    name: Annotated[Title, Field(description="Owner of the token: one name for one person or program, permanently.")]
    role: Role
    """Role of the bearer: steward (all), analyst (quotes, jobs and sessions) or auditor (reads)."""
    scopes: Annotated[list[Scope] | None, Field(min_length=1, max_length=5)] = None
    """Subset of the role's scopes: `read`, `quote`, `submit` (jobs and quotes), `session` (budget for programs that run
    elsewhere) and `manage` (actions of stewards). All of them if null."""
    lifetime: Annotated[int | None, Field(ge=60, le=315_360_000)] = None
    """Seconds until it expires, at most ten years. If null, it does not expire."""

    @model_validator(mode="after")
    def _within_role(self) -> Self:
        if self.scopes is not None and not set(self.scopes) <= set(SCOPES[self.role]):
            raise ValueError(f"scopes must be some of this role's: {', '.join(SCOPES[self.role])}")
        return self


class Token(Wire):
    """A token without its secret."""

    id: Identifier
    identity: Annotated[Identifier, Field(description="Owner's identity, which outlives the token.")]
    name: Name
    role: Role
    """Role of the bearer, which decides the allowed requests."""
    scopes: list[Scope]
    """Scopes of this token."""
    created_at: Timestamp
    expires_at: Timestamp | None = None
    """Time of expiry."""


class NewToken(Token):
    """A token with its secret, which is shown only once."""

    token: str
    """The bearer secret. The server stores only its hash."""

    def __repr__(self) -> str:
        """Return a text without the secret, because notebooks store what a cell shows."""
        return f"<token {self.id} of {self.name}, {self.role}: the secret is in .token and shown only once>"
