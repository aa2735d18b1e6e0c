"""Access of routes to the parts of the running service."""

from dataclasses import dataclass
from typing import Any

from fastapi import Request


@dataclass(frozen=True, slots=True)
class ServicePart:
    """FastAPI dependency that returns the part of this name of `app.services.Services`."""

    name: str

    async def __call__(self, request: Request) -> Any:
        """Return the part."""
        return getattr(request.app.state.services, self.name)
