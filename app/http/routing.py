"""What the application's routes are, as FastAPI holds them."""

from collections.abc import Iterable, Iterator, Sequence

from fastapi import APIRouter
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute

from app.http.asgi import Scope


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


def own_path(scope: Scope) -> str:
    """What was asked for, as our routes name it: without the prefix, which a proxy takes away or leaves."""
    path, prefix = str(scope["path"]), scope.get("root_path", "")
    return path.removeprefix(prefix) if f"{path}/".startswith(f"{prefix}/") else path


def allowed(known: Iterable[APIRoute], path: str) -> set[str]:
    """The methods that a path knows; HEAD goes wherever GET does."""
    methods = {method for route in known if route.path_regex.match(path) for method in route.methods or ()}
    return methods | {"HEAD"} if "GET" in methods else methods
