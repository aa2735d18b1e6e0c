"""Bearer tokens and their roles."""

from typing import Annotated, Literal

from pydantic import Field

from app.wire.base import Identifier, Name, Timestamp, Title, Wire

Role = Literal["steward", "analyst", "auditor"]


class TokenRequest(Wire):
    """Ask for a token for one person or program."""

    name: Annotated[Title, Field(description="Whose token it is; shown in budgets and receipts.")]
    role: Annotated[Role, Field(description="steward (all), analyst (quotes and jobs), auditor (reads).")]


class Token(Wire):
    """A token without its secret."""

    id: Identifier
    name: Name
    role: Annotated[Role, Field(description="What the bearer may do.")]
    created_at: Timestamp


class NewToken(Token):
    """A token with its secret, shown this once."""

    token: Annotated[str, Field(description="The bearer secret. It is stored only as a hash.")]
