"""Refusal of unknown query parameters: a misspelt one would otherwise have no effect, without a message."""

from collections.abc import Sequence
from typing import Any

from fastapi import APIRouter, Depends, Request
from fastapi.params import Depends as Dependency
from fastapi.routing import APIRoute

from app.http.errors import invalid
from app.http.routing import dependants
from purse.unknown_fields import unknown

_PARAMETER = "query parameter"


async def refuse_unknown(request: Request) -> None:
    """Raise an `ApiError` for a query parameter that the route does not have, or that is given twice."""
    route = request.scope.get("route")
    given = [name for name, _ in request.query_params.multi_items()]
    if not given or not isinstance(route, APIRoute):
        return
    known = sorted({field.alias for dependant in dependants(route) for field in dependant.query_params})
    wrong = {name: unknown(name, known, _PARAMETER) for name in given if name not in known}
    wrong |= {name: "is given more than once: send it once" for name in known if given.count(name) > 1}
    if wrong:
        raise invalid([{"type": "query", "loc": ("query", name), "msg": what} for name, what in wrong.items()])


def strict_router(dependencies: Sequence[Dependency] = (), **options: Any) -> APIRouter:
    """Return a router whose routes all refuse unknown query parameters."""
    return APIRouter(dependencies=[Depends(refuse_unknown), *dependencies], **options)
