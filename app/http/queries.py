"""The routers of the service: they refuse unknown query parameters, and answer reading requests in fair turns.

An unknown parameter is refused like an unknown field: a misspelt one would silently do nothing.
"""

import inspect
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

from fastapi import APIRouter, Depends, Request, Response
from fastapi.params import Depends as Dependency
from fastapi.routing import APIRoute
from pydantic import BaseModel

from app.http.errors import invalid
from app.http.routing import dependants
from app.http.work import in_turn
from purse.unknown_fields import unknown

_PARAMETER = "query parameter"


async def refuse_unknown(request: Request) -> None:
    """Raise an `ApiError` for a query parameter that the route does not have, or that is given twice."""
    route = request.scope.get("route")
    names = [name for name, _ in request.query_params.multi_items()]
    if not names or not isinstance(route, APIRoute):
        return
    known_names = sorted({field.alias for dependant in dependants(route) for field in dependant.query_params})
    wrong = {name: unknown(name, known_names, _PARAMETER) for name in names if name not in known_names}
    wrong |= {name: "is given more than once: send it once" for name in known_names if names.count(name) > 1}
    if wrong:
        raise invalid([{"type": "query", "loc": ("query", name), "msg": what} for name, what in wrong.items()])


class TurnRoute(APIRoute):
    """A route whose `GET` function, if it is not async, runs in its caller's turn, as does writing its answer as JSON.

    Other methods may change or read records: they run as FastAPI runs them, and their time is not charged.
    """

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        is_read = options.get("methods") in (["GET"], {"GET"}) and not inspect.iscoroutinefunction(endpoint)
        is_plain = is_read and not inspect.isasyncgenfunction(endpoint)
        APIRoute.__init__(self, path, _in_turn(endpoint) if is_plain else endpoint, **options)


def _in_turn(endpoint: Callable[..., Any]) -> Callable[..., Any]:
    def answered(**given: Any) -> Any:
        response = endpoint(**given)
        if isinstance(response, BaseModel):
            return Response(response.model_dump_json(by_alias=True), media_type="application/json")
        return response

    @wraps(endpoint)
    async def answer(**given: Any) -> Any:
        return await in_turn(answered, **given)

    return answer


def strict_router(dependencies: Sequence[Dependency] = (), **options: Any) -> APIRouter:
    """Return a router all of whose routes refuse unknown query parameters."""
    chosen: dict[str, Any] = {"route_class": TurnRoute} | options
    return APIRouter(dependencies=[Depends(refuse_unknown), *dependencies], **chosen)
