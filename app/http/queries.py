"""Routers that reject unknown query parameters and run reading requests in fair turns.

Unknown parameters are rejected like unknown fields, because a misspelt one would silently have no effect.
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
_INJECTED = "injected_response"  # name of the parameter that `_in_turn` adds


async def refuse_unknown(request: Request) -> None:
    """Raise `ApiError` for a query parameter that is unknown or repeated."""
    route = request.scope.get("route")
    sent_names = [name for name, _ in request.query_params.multi_items()]
    if not sent_names or not isinstance(route, APIRoute):
        return
    known_names = sorted({field.alias for dependant in dependants(route) for field in dependant.query_params})
    errors = {name: unknown(name, known_names, _PARAMETER) for name in sent_names if name not in known_names}
    errors |= {name: "occurs more than once; send it once" for name in known_names if sent_names.count(name) > 1}
    if errors:
        raise invalid([{"type": "query", "loc": ("query", name), "msg": text} for name, text in errors.items()])


class TurnRoute(APIRoute):
    """Route whose synchronous `GET` function, with the encoding of its JSON, runs in its caller's turn.

    Other methods may change or read records. FastAPI runs them as usual, and their time is not charged.
    """

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        is_read = options.get("methods") in (["GET"], {"GET"}) and not inspect.iscoroutinefunction(endpoint)
        is_plain = is_read and not inspect.isasyncgenfunction(endpoint)
        APIRoute.__init__(self, path, _in_turn(endpoint) if is_plain else endpoint, **options)


def _in_turn(endpoint: Callable[..., Any]) -> Callable[..., Any]:
    """Return an async endpoint that runs a synchronous one, and encodes its result, in the caller's turn.

    FastAPI adds the headers of the injected response only to results that it encodes itself. They are added here, so
    the endpoint always has a parameter for that response.
    """
    signature = inspect.signature(endpoint)
    injected = next((name for name, each in signature.parameters.items() if each.annotation is Response), None)

    def call_and_encode(response: Response, arguments: dict[str, Any]) -> Any:
        result = endpoint(**arguments)
        if not isinstance(result, BaseModel):
            return result
        encoded = Response(
            result.model_dump_json(by_alias=True), response.status_code or 200, media_type="application/json"
        )
        encoded.raw_headers.extend(response.raw_headers)
        return encoded

    @wraps(endpoint)
    async def run(**arguments: Any) -> Any:
        response = arguments[injected] if injected else arguments.pop(_INJECTED)
        return await in_turn(call_and_encode, response, arguments)

    if injected is None:
        own = inspect.Parameter(_INJECTED, inspect.Parameter.KEYWORD_ONLY, annotation=Response)
        run.__signature__ = signature.replace(parameters=[*signature.parameters.values(), own])  # type: ignore[attr-defined]
    return run


def strict_router(dependencies: Sequence[Dependency] = (), **options: Any) -> APIRouter:
    """Return a router whose routes reject unknown query parameters and run reads in turns."""
    settings: dict[str, Any] = {"route_class": TurnRoute} | options
    return APIRouter(dependencies=[Depends(refuse_unknown), *dependencies], **settings)
