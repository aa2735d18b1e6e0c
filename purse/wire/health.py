"""Whether the service is there, and whether it is ready."""

from typing import Annotated, Literal

from pydantic import Field

from purse.wire.base import Wire


class Health(Wire):
    """An answer at all is the message."""

    status: Annotated[Literal["ok"], Field(description="ok; anything else is a problem document.")] = "ok"
