"""The FastAPI dependency of routes that calculate."""

from fastapi import Request

from app.calculation.pool import Pool


async def pool(request: Request) -> Pool:
    """Return the pool of calculations."""
    calculations = request.app.state.services.pool
    assert isinstance(calculations, Pool)
    return calculations
