"""The application and its server: routes, middleware, and the life of the process."""

import logging
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import cache
from importlib.metadata import version
from pathlib import Path

import uvicorn
from fastapi import APIRouter, FastAPI, Request, Response

import accounting
import app
import purse
import solvers
from app.calculation.calculators import Calculators
from app.datasets import routes as datasets
from app.datasets import samples, sharing, twins, uploads
from app.http import handlers
from app.http.errors import ApiError
from app.http.guards import Guarded
from app.http.middleware import Observed
from app.http.protocol import ConnectionLimits
from app.http.rates import RateLimiter
from app.http.routing import routes
from app.http.server import configured
from app.identity import routes as tokens
from app.jobs import routes as jobs
from app.ledger import routes as ledger
from app.openapi import document as openapi
from app.openapi import routes as documentation
from app.operations import routes as operations
from app.operations.draining import draining
from app.operations.observers import Observers
from app.pages.session import CookieSession
from app.persistence.clock import Clock
from app.persistence.dialect import Unavailable
from app.persistence.files import StartRefused
from app.quotes import calibrations, forecasts
from app.quotes import routes as quotes
from app.services import Substitutes, running
from app.sessions import routes as sessions
from app.settings import Settings, forget_secrets
from app.stewardship import routes as stewardship
from app.webhooks import routes as webhooks
from app.worker.engine import Engine

ROUTERS = (  # a request is matched against them in this order, so the most used come first
    datasets.router,
    jobs.router,
    sessions.router,
    quotes.router,
    tokens.router,
    sharing.router,
    uploads.router,
    twins.router,
    samples.router,
    forecasts.router,
    stewardship.router,
    webhooks.router,
    calibrations.router,
    ledger.router,
    operations.router,
    documentation.router,
)
_SWITCH_SECONDS = 5e-4  # a thread hands over the interpreter to the event loop after this time
_SHUTDOWN_SECONDS = 10  # time that open requests get to end
_DESCRIPTION = (
    "Differentially private models under a privacy budget: priced before they run, charged before the data is touched, "
    "and released with a signed receipt. Every request carries a bearer token, except where a route says public."
)


def create_app(
    settings: Settings,
    engine: Engine | None = None,
    calculators: Calculators | None = None,
    clock: Clock | None = None,
    alone: bool = False,
) -> FastAPI:
    """Return the application for a home; its parts start when the server does.

    Parameters
    ----------
    settings : settings of the operator
    engine, calculators, clock : see `Substitutes`
    alone : no other server may share the home meanwhile, and there are no pages; for a server of one command
    """
    forget_secrets()
    check_installation()
    observers = Observers(settings)
    substitutes = Substitutes(engine, calculators, clock)

    @asynccontextmanager
    async def lifespan(application: FastAPI) -> AsyncIterator[None]:
        try:
            async with running(settings, observers, substitutes, alone) as services:
                application.state.services = services
                yield
        except StartRefused as error:
            application.state.refused = error
            raise

    application = FastAPI(
        title="Privy Purse",
        version=version("privy-purse"),
        description=_DESCRIPTION,
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        redirect_slashes=False,
    )
    application.state.metrics = observers.metrics
    application.state.refused = None
    application.state.written = {}
    application.add_middleware(Guarded)
    application.add_middleware(RateLimiter, settings=settings, clock=time.monotonic if clock is None else clock.ticks)
    application.add_middleware(CookieSession)
    application.add_middleware(Observed, on_end=observers.request_ended, root_path=settings.root_path)
    routers = ROUTERS if alone else (*ROUTERS, *_pages())
    handlers.install(application, routers)
    application.add_exception_handler(Unavailable, _unavailable)
    application.router.routes.extend(routes(routers))  # `include_router` would analyse each route a second time
    application.openapi = cache(  # type: ignore[method-assign]  # replaces the framework's document
        lambda: openapi.document(application, ROUTERS, settings.root_path)
    )
    return application


def serve(settings: Settings, calculators: Calculators | None = None) -> None:
    """Run the server until a signal stops it. Raise `StartRefused` if the stored state does not allow a start."""
    sys.setswitchinterval(_SWITCH_SECONDS)
    application = create_app(settings, calculators=calculators)
    config = configured(
        application,
        ConnectionLimits(connections=settings.max_connections),
        settings.trusted_proxies,
        timeout_graceful_shutdown=_SHUTDOWN_SECONDS,
        host=settings.host,
        port=settings.port,
    )
    server_log, is_logged = logging.getLogger("uvicorn.error"), lambda _: application.state.refused is None
    server_log.addFilter(is_logged)  # a refused start is one sentence, without a stack trace
    try:
        with suppress(KeyboardInterrupt):  # raised again by uvicorn after an orderly stop
            server = uvicorn.Server(config)
            server.handle_exit = draining(server.handle_exit, application, settings.drain_seconds)  # type: ignore[assignment]
            server.run()
    except SystemExit as error:
        raise application.state.refused or error from None
    finally:
        server_log.removeFilter(is_logged)


def check_installation() -> None:
    """Raise `RuntimeError` if our four packages come from different folders.

    A folder of the same name in the working directory would otherwise replace one of them.
    """
    folders = {Path(str(package.__file__)).resolve().parents[1] for package in (accounting, solvers, purse, app)}
    if len(folders) != 1:
        raise RuntimeError(
            "the packages accounting, solvers, purse and app were loaded from different folders, so one of them may be "
            "replaced by a folder of the same name. Start in another working directory"
        )


def _pages() -> tuple[APIRouter, ...]:
    from app.pages.routers import PAGES  # late: pages and templates are a tenth of the time to start a command's server

    return PAGES


def _unavailable(_request: Request, _error: Exception) -> Response:
    return handlers.respond(ApiError("database_unavailable", headers={"Retry-After": "2"}))
