"""Health of the service."""

from typing import Literal

from purse.wire.base import Wire


class Health(Wire):
    """The response of a healthy service."""

    status: Literal["ok"] = "ok"
    """ok; anything else is a problem document."""
