"""Unknown query parameters are refused, like unknown fields: a misspelt one would silently do nothing."""

from collections.abc import Sequence
from typing import Any

from fastapi import APIRouter, Depends, Request
from fastapi.params import Depends as Dependency
from fastapi.routing import APIRoute

from app.http.errors import invalid
from app.http.routing import dependants


async def refuse_unknown(request: Request) -> None:
    """A dependency of every route of ours; `ApiError` for a parameter that is unknown or given twice."""
    route = request.scope.get("route")
    given = [name for name, _ in request.query_params.multi_items()]
    if not given or not isinstance(route, APIRoute):
        return
    known = {field.alias for dependant in dependants(route) for field in dependant.query_params}
    if len(set(given)) < len(given) or not known.issuperset(given):
        what = "holds a parameter that is not known here, or one twice"
        raise invalid([{"type": "query", "loc": ("query",), "msg": what}])


def strict_router(dependencies: Sequence[Dependency] = (), **options: Any) -> APIRouter:
    """A router all of whose routes refuse what they do not know."""
    return APIRouter(dependencies=[Depends(refuse_unknown), *dependencies], **options)
