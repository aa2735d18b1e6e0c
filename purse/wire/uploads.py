"""Resumable uploads."""

from typing import Annotated

from pydantic import Field

from purse.wire.base import Identifier, Timestamp, Wire


class UploadStatus(Wire):
    """The state of a file that arrives in several requests. Only its steward can see it."""

    id: Identifier
    length: int
    """Number of bytes of the whole file."""
    offset: int
    """Number of bytes on the server, and so the position of the next byte to send."""
    expires_at: Annotated[Timestamp, Field(description="Time when it is deleted unless more bytes arrive.")]
