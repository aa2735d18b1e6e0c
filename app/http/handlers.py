"""Exception handlers that turn errors of routes and of the framework into problem documents."""

import errno
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import cast

from fastapi import APIRouter, FastAPI, HTTPException, Request, Response
from fastapi.exceptions import RequestValidationError

from app.http.errors import MEDIA_TYPE, NO_ROUTE, ApiError, invalid, of_status
from app.http.routing import allowed, own_path, routes


def respond(problem: ApiError, headers: Mapping[str, str] | None = None) -> Response:
    """Return the problem as a response."""
    return Response(
        problem.details().model_dump_json(exclude_none=True),
        problem.status,
        {**(headers or {}), **(problem.headers or {})},
        MEDIA_TYPE,
    )


def install(app: FastAPI, routers: Sequence[APIRouter] = ()) -> None:
    """Replace the framework's error responses, whose texts may repeat the input.

    Parameters
    ----------
    routers : routers whose routes give the `Allow` header of method_not_allowed
    """
    all_routes = tuple(routes(routers))

    def other_method(request: Request, _error: Exception) -> Response:
        methods = allowed(all_routes, own_path(request.scope))
        return respond(ApiError("method_not_allowed", headers={"Allow": ", ".join(sorted(methods))}))

    app.add_exception_handler(ApiError, _problem)
    for status in range(400, 500):
        app.add_exception_handler(status, _framework)
    app.add_exception_handler(405, other_method)
    app.add_exception_handler(RequestValidationError, _validation)
    app.add_exception_handler(OSError, _system)


def _problem(_request: Request, error: Exception) -> Response:
    """Return the response for an `ApiError`."""
    return respond(cast(ApiError, error))


def _framework(_request: Request, error: Exception) -> Response:
    """Return the response for an error that the framework raised with a status."""
    raised = cast(HTTPException, error)
    detail = NO_ROUTE if raised.status_code == HTTPStatus.NOT_FOUND else None
    return respond(ApiError(of_status(raised.status_code), detail), raised.headers)


def _system(_request: Request, error: Exception) -> Response:
    """Return disk_full for an error of a full disk; raise other errors again."""
    if cast(OSError, error).errno in (errno.ENOSPC, errno.EDQUOT):
        return respond(ApiError("disk_full"))
    raise error


def _validation(_request: Request, error: Exception) -> Response:
    """Return the response for invalid parameters."""
    return respond(invalid(cast(RequestValidationError, error).errors()))
