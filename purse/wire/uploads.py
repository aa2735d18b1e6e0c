"""Uploads that go on where they stopped."""

from typing import Annotated

from pydantic import Field

from purse.wire.base import Identifier, Timestamp, Wire


class UploadStatus(Wire):
    """A file that arrives in as many requests as it takes. Nobody but its steward knows of it."""

    id: Identifier
    length: Annotated[int, Field(description="The bytes of the whole file.")]
    offset: Annotated[int, Field(description="How many are on the server's disk: the next one to send.")]
    expires_at: Annotated[Timestamp, Field(description="When it is deleted, unless more of it arrives before.")]
