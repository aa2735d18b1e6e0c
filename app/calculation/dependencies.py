"""What a route depends on."""

from fastapi import Request

from app.calculation.pool import Pool


async def pool(request: Request) -> Pool:
    """The service's calculations."""
    found = request.app.state.services.pool
    assert isinstance(found, Pool)
    return found
