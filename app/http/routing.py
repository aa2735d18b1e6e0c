"""What the application's routes are, as FastAPI holds them."""

from collections.abc import Iterator, Sequence

from fastapi import APIRouter
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute


def routes(routers: Sequence[APIRouter]) -> Iterator[APIRoute]:
    """Every route of ours."""
    for router in routers:
        for route in router.routes:
            if isinstance(route, APIRoute):
                yield route


def dependants(route: APIRoute) -> Iterator[Dependant]:
    """What a route's function depends on: itself, and every dependency down to the last."""
    waiting = [route.dependant]
    while waiting:
        dependant = waiting.pop()
        yield dependant
        waiting += dependant.dependencies
