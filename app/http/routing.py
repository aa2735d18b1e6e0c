"""Access to the routes of the application as FastAPI stores them."""

from collections.abc import Iterable, Iterator, Sequence

from fastapi import APIRouter
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute
from starlette.types import Scope


def routes(routers: Sequence[APIRouter]) -> Iterator[APIRoute]:
    """Yield every API route of the routers."""
    for router in routers:
        for route in router.routes:
            if isinstance(route, APIRoute):
                yield route


def dependants(route: APIRoute) -> Iterator[Dependant]:
    """Yield the dependant of a route and of all its direct and indirect dependencies."""
    stack = [route.dependant]
    while stack:
        dependant = stack.pop()
        yield dependant
        stack += dependant.dependencies


def own_path(scope: Scope) -> str:
    """Return the request's path without the prefix of a proxy, whether the proxy strips the prefix or not."""
    path = str(scope["path"])
    prefix = scope.get("root_path", "")
    return path.removeprefix(prefix) if f"{path}/".startswith(f"{prefix}/") else path


def allowed(candidates: Iterable[APIRoute], path: str) -> set[str]:
    """Return the methods that a path supports, including HEAD if it supports GET."""
    methods = {method for route in candidates if route.path_regex.match(path) for method in route.methods or ()}
    return methods | {"HEAD"} if "GET" in methods else methods
