"""Grants: which analysts may see a dataset and spend its budget."""

from typing import Annotated

from pydantic import Field

from purse.wire.base import Identifier, Name, Timestamp, Wire


class Grant(Wire):
    """Permission for an analyst to see a dataset and spend its budget."""

    analyst: Name
    identity: Annotated[Identifier, Field(description="Identity of the analyst, the same for all of their tokens.")]
    granted_by: Annotated[Name, Field(description="The steward who gave it.")]
    granted_at: Timestamp
