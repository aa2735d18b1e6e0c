"""Bearer tokens, whose they are, and what they may do."""

from collections.abc import Mapping
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from purse.wire.base import Identifier, Name, Timestamp, Title, Wire

Role = Literal["steward", "analyst", "auditor"]
Scope = Literal["read", "quote", "submit", "manage"]

SCOPES: Mapping[Role, tuple[Scope, ...]] = {
    "steward": ("read", "quote", "submit", "manage"),
    "analyst": ("read", "quote", "submit"),
    "auditor": ("read",),
}
"""What each role may do."""


class TokenRequest(Wire):
    """Ask for a token. A name that is known, with its role, is another token of the same person or program."""

    name: Annotated[Title, Field(description="Whose token it is: one name for one person or program, for good.")]
    role: Annotated[Role, Field(description="steward (all), analyst (quotes and jobs), auditor (reads).")]
    scopes: Annotated[
        list[Scope] | None,
        Field(
            min_length=1,
            max_length=4,
            description="Part of what the role may do: read; quote; submit (jobs, and quotes); manage (what stewards "
            "alone do). All of it if null.",
        ),
    ] = None
    lifetime: Annotated[
        int | None,
        Field(ge=60, le=315_360_000, description="Seconds until it expires, up to ten years; never, if null."),
    ] = None

    @model_validator(mode="after")
    def _within_role(self) -> Self:
        if self.scopes is not None and not set(self.scopes) <= set(SCOPES[self.role]):
            raise ValueError(f"the scopes of this role are {', '.join(SCOPES[self.role])}")
        return self


class Token(Wire):
    """A token without its secret."""

    id: Identifier
    identity: Annotated[Identifier, Field(description="Whose it is; this outlives the token.")]
    name: Name
    role: Annotated[Role, Field(description="What the bearer may do.")]
    scopes: Annotated[list[Scope], Field(description="What of it this token is for.")]
    created_at: Timestamp
    expires_at: Annotated[Timestamp | None, Field(description="From when on it is invalid.")] = None


class NewToken(Token):
    """A token with its secret, shown this once."""

    token: Annotated[str, Field(description="The bearer secret. It is stored only as a hash.")]

    def __repr__(self) -> str:
        """Without the secret: a notebook keeps what a cell shows."""
        return f"<token {self.id} of {self.name}, {self.role}: the secret is in .token, this once>"
