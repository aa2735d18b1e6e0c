"""Grants: which analysts know of a dataset."""

from typing import Annotated

from pydantic import Field

from purse.wire.base import Identifier, Name, Timestamp, Wire


class Grant(Wire):
    """An analyst may see this dataset and spend on it."""

    analyst: Name
    identity: Annotated[Identifier, Field(description="The analyst's, whatever token it shows.")]
    granted_by: Annotated[Name, Field(description="The steward who gave it.")]
    granted_at: Timestamp
