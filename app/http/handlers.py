"""Exception handlers that turn errors of routes and of the framework into problem documents."""

import errno
from collections.abc import Sequence
from http import HTTPStatus

from fastapi import APIRouter, FastAPI, HTTPException, Request, Response
from fastapi.exceptions import RequestValidationError

from app.http.errors import MEDIA_TYPE, NO_ROUTE, ApiError, invalid
from app.http.routing import allowed, own_path, routes


def respond(problem: ApiError) -> Response:
    """Return the problem as a response."""
    body = problem.details().model_dump_json(exclude_none=True)
    return Response(body, problem.status, problem.headers, MEDIA_TYPE)


def install(app: FastAPI, routers: Sequence[APIRouter] = ()) -> None:
    """Replace the framework's error responses, whose texts may repeat the input.

    Parameters
    ----------
    routers : routers whose routes give the `Allow` header of method_not_allowed
    """
    all_routes = tuple(routes(routers))

    def framework(_request: Request, error: HTTPException) -> Response:
        is_unknown_path = error.status_code == HTTPStatus.NOT_FOUND
        return respond(ApiError("not_found", NO_ROUTE) if is_unknown_path else ApiError("invalid_request"))

    for status in range(400, 500):
        app.exception_handler(status)(framework)

    @app.exception_handler(405)
    def other_method(request: Request, _error: HTTPException) -> Response:
        methods = allowed(all_routes, own_path(request.scope))
        return respond(ApiError("method_not_allowed", headers={"Allow": ", ".join(sorted(methods))}))

    @app.exception_handler(ApiError)
    def problem(_request: Request, error: ApiError) -> Response:
        return respond(error)

    @app.exception_handler(RequestValidationError)
    def validation(_request: Request, error: RequestValidationError) -> Response:
        return respond(invalid(error.errors()))

    @app.exception_handler(OSError)
    def system(_request: Request, error: OSError) -> Response:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            return respond(ApiError("disk_full"))
        raise error
