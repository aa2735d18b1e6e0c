"""Health of the service."""

from typing import Annotated, Literal

from pydantic import Field

from purse.wire.base import Wire


class Health(Wire):
    """The response of a healthy service."""

    status: Annotated[
        Literal["ok"], Field(description="Always ok. Any other state is reported as a problem document.")
    ] = "ok"
