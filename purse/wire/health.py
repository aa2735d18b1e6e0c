"""Health of the service."""

from typing import Literal

from purse.wire.base import Wire


class Health(Wire):
    """The response of a healthy service."""

    status: Literal["ok"] = "ok"
    """Always ok. Any other state is reported as a problem document."""
