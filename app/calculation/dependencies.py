"""The FastAPI dependency of routes that calculate."""

from typing import Annotated

from fastapi import Depends, Request

from app.calculation.pool import Pool


async def pool(request: Request) -> Pool:
    """Return the pool of calculations."""
    calculations = request.app.state.services.pool
    assert isinstance(calculations, Pool)
    return calculations


Calculations = Annotated[Pool, Depends(pool)]
