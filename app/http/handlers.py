"""Every error that a route or the framework raises becomes a problem document."""

import errno
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import cast

from fastapi import APIRouter, FastAPI, HTTPException, Request, Response
from fastapi.exceptions import RequestValidationError

from app.http.errors import MEDIA_TYPE, NO_ROUTE, ApiError, invalid, of_status
from app.http.routing import allowed, own_path, routes


def respond(problem: ApiError, headers: Mapping[str, str] | None = None) -> Response:
    """The problem as a response."""
    return Response(
        problem.details().model_dump_json(exclude_none=True),
        problem.status,
        {**(headers or {}), **(problem.headers or {})},
        MEDIA_TYPE,
    )


def install(app: FastAPI, routers: Sequence[APIRouter] = ()) -> None:
    """Takes over from the framework's own answers, whose words may repeat the input.

    Parameters
    ----------
    routers : whose routes' methods are named where a path does not know the one that was asked
    """
    every_route = tuple(routes(routers))

    def other_method(request: Request, _error: Exception) -> Response:
        methods = allowed(every_route, own_path(request.scope))
        return respond(ApiError("method_not_allowed", headers={"Allow": ", ".join(sorted(methods))}))

    app.add_exception_handler(ApiError, _problem)
    for status in range(400, 500):
        app.add_exception_handler(status, _framework)
    app.add_exception_handler(405, other_method)
    app.add_exception_handler(RequestValidationError, _validation)
    app.add_exception_handler(OSError, _system)


def _problem(_request: Request, error: Exception) -> Response:
    return respond(cast(ApiError, error))


def _framework(_request: Request, error: Exception) -> Response:
    raised = cast(HTTPException, error)
    detail = NO_ROUTE if raised.status_code == HTTPStatus.NOT_FOUND else None
    return respond(ApiError(of_status(raised.status_code), detail), raised.headers)


def _system(_request: Request, error: Exception) -> Response:
    if cast(OSError, error).errno in (errno.ENOSPC, errno.EDQUOT):
        return respond(ApiError("disk_full"))
    raise error


def _validation(_request: Request, error: Exception) -> Response:
    return respond(invalid(cast(RequestValidationError, error).errors()))
