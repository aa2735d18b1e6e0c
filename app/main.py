"""The application: what it is made of, and the order in which that starts and stops."""

import logging
import os
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import IO, Any

import uvicorn
from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.concurrency import run_in_threadpool

import accounting
import app
import purse
import solvers
from app.calculation.calculators import Calculators, ForkedCalculators
from app.calculation.pool import Pool
from app.datasets import routes as datasets
from app.datasets import samples, sharing, twins, uploads
from app.datasets.budgets import Answers
from app.datasets.folders import sweep
from app.datasets.values import verify_quietly
from app.http import handlers
from app.http.errors import ApiError
from app.http.guards import Guarded
from app.http.middleware import Observed
from app.http.places import Places
from app.http.protocol import Limits
from app.http.rates import Limited
from app.http.routing import routes
from app.http.server import configured
from app.identity import code_flow
from app.identity import routes as tokens
from app.identity.home import open_database, refusing
from app.identity.service import ensure_steward
from app.identity.sign_on import SignOn, watched
from app.jobs import routes as jobs
from app.jobs.changes import Changes
from app.jobs.leases import Holder
from app.jobs.routes import STREAMS_EACH
from app.ledger import routes as ledger
from app.ledger.checkpoints import Checkpoints
from app.ledger.epoch import Epoch, published
from app.ledger.keys import SigningKeys
from app.openapi import document as openapi
from app.openapi import routes as documentation
from app.operations import logs
from app.operations import routes as operations
from app.operations.draining import draining
from app.operations.metrics import Metrics, Watched
from app.operations.observers import job_tellers, tellers, traces_of
from app.operations.readiness import Readiness
from app.operations.warming import warm_up
from app.pages.session import Session
from app.persistence.clock import Clock
from app.persistence.dialect import Unavailable
from app.persistence.files import StartRefused
from app.persistence.session import Database
from app.quotes import calibrations, forecasts
from app.quotes import routes as quotes
from app.settings import Settings, forget_secrets
from app.stewardship import routes as stewardship
from app.webhooks import routes as webhooks
from app.webhooks.courier import Courier
from app.worker.dispatcher import Dispatcher
from app.worker.engine import Coming, Engine
from app.worker.lives import Lives, attend

ROUTERS = (  # looked through one after the other: what is asked most comes first
    datasets.router,
    jobs.router,
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
_LOG = logging.getLogger("purse.main")
_DESCRIPTION = (
    "Differentially private models under a privacy budget: priced before they run, charged before the data is touched, "
    "and released with a signed receipt. Every request carries a bearer token, except where a route says public."
)


@dataclass(frozen=True, slots=True)
class Services:
    """What a running application holds; routes find it at `request.app.state.services`."""

    settings: Settings
    database: Database
    answers: Answers
    keys: SigningKeys
    epoch: Epoch
    checkpoints: Checkpoints
    sign_on: SignOn | None
    engine: Engine
    dispatcher: Dispatcher
    changes: Changes
    courier: Courier
    calculators: Calculators
    pool: Pool
    streams: Places
    uploads: Places
    twins: Places
    exchanges: Places
    ready: threading.Event
    readiness: Readiness
    lives: Lives
    lock: IO[bytes]


def create_app(
    settings: Settings,
    engine: Engine | None = None,
    calculators: Calculators | None = None,
    clock: Clock | None = None,
    alone: bool = False,
) -> FastAPI:
    """Return the application for a home; nothing starts before the server does.

    `engine`, `calculators` and `clock` replace those of the settings, in tests and for `purse fit`; their maker closes
    them. With `alone`, no other server may share the home, and there are no pages.
    """
    forget_secrets()
    check_installation()
    metrics, traces = Metrics(), traces_of(settings)
    told = job_tellers(metrics, traces)

    @asynccontextmanager
    async def lifespan(application: FastAPI) -> AsyncIterator[None]:
        stopping = threading.Event()
        try:
            with refusing(settings):
                services = await run_in_threadpool(_start, settings, metrics, told, engine, calculators, clock, alone)
        except StartRefused as error:
            application.state.refused = error
            raise
        application.state.services = services
        metrics.watch(_watched(services))
        warming = (services.ready, stopping, services.calculators, lambda: _begin_work(services))
        threading.Thread(target=warm_up, args=warming, name="warm-up", daemon=True).start()
        try:
            async with watched(services.sign_on):
                yield
        finally:
            stopping.set()
            services.readiness.draining = True
            services.ready.clear()
            await run_in_threadpool(_stop, services, engine)
            if traces is not None:
                await run_in_threadpool(traces.close)

    application = FastAPI(
        title="Privy Purse",
        version=_version(),
        description=_DESCRIPTION,
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        redirect_slashes=False,
    )
    application.state.metrics = metrics
    application.state.refused = None
    application.state.written = {}
    application.add_middleware(Guarded)
    application.add_middleware(Limited, settings=settings, clock=time.monotonic if clock is None else clock.ticks)
    application.add_middleware(Session)
    application.add_middleware(Observed, tell=tellers(metrics, traces), root_path=settings.root_path)
    routers = ROUTERS if alone else (*ROUTERS, *_pages())
    handlers.install(application, routers)
    application.add_exception_handler(Unavailable, _wait)
    application.router.routes.extend(routes(routers))  # as they are: `include_router` analyses each again
    _describe(application, settings.root_path)
    return application


def _pages() -> tuple[APIRouter, ...]:
    from app.pages.routers import PAGES  # late: they and their templates are a tenth of what a command's server loads

    return PAGES


def serve(settings: Settings, calculators: Calculators | None = None) -> None:
    """Runs the server until it is told to stop; `StartRefused` if its state is not one to go on from."""
    logs.install(settings.log_level, settings.log_format)
    sys.setswitchinterval(_SWITCH_SECONDS)
    limits = Limits(connections=settings.max_connections)
    application = create_app(settings, calculators=calculators)
    place = {"host": settings.host, "port": settings.port}
    config = configured(application, limits, settings.trusted_proxies, timeout_graceful_shutdown=10, **place)
    stacks, is_told = logging.getLogger("uvicorn.error"), lambda _: application.state.refused is None
    stacks.addFilter(is_told)  # a refusal is a sentence, and no stack
    try:
        with suppress(KeyboardInterrupt):  # it has stopped in order by then
            server = uvicorn.Server(config)
            server.handle_exit = draining(server.handle_exit, application, settings.drain_seconds)  # type: ignore[assignment]
            server.run()
    except SystemExit as ended:
        refused = application.state.refused
        if refused is not None and settings.log_format == "json":
            _LOG.critical("start_refused: %s", refused)  # the command prints the sentence as text
        raise refused or ended from None
    finally:
        stacks.removeFilter(is_told)


def check_installation() -> None:
    """Our four packages come from one folder: a folder in the working directory must not stand in for one of them.

    Raises
    ------
    RuntimeError
        if they do not.
    """
    folders = {Path(str(package.__file__)).resolve().parents[1] for package in (accounting, solvers, purse, app)}
    if len(folders) != 1:
        raise RuntimeError(
            "accounting, solvers, purse and app were loaded from different folders; start somewhere else"
        )


def _start(
    settings: Settings,
    metrics: Metrics,
    told: Callable[[str, float], None],
    engine: Engine | None,
    calculators: Calculators | None,
    clock: Clock | None,
    alone: bool,
) -> Services:
    """Start everything in order; if a step fails, stop what has been started and raise its error."""
    with ExitStack() as begun:
        os.umask(0o077)  # what is written from here on is the operator's alone
        home = settings.make_home()
        lock = begun.enter_context(attend(home, alone))
        calculating = calculators or ForkedCalculators(settings.calculation_seconds)
        begun.callback(calculating.close)
        calculating.start()
        database = open_database(settings, clock)
        begun.callback(database.close)
        keys = SigningKeys.beside(home, database)
        checkpoints = Checkpoints(database, keys, lambda wrong: _stop_spending(database, wrong))
        checkpoints.verify(published(settings, database))
        epoch = Epoch.open(settings, database)
        running = engine or Coming(lambda: _cluster(settings))
        if engine is None:
            begun.callback(running.close)
        if settings.scheduler is not None and isinstance(running, Coming):
            running.start()  # somebody else's: a mistake in its address is told at once
        with database.write(alone="names") as connection:
            sweep(home, connection)
        written = ensure_steward(database, settings)
        if written is not None:
            _tell_token(settings, written)
        lives = Lives(home, database.clock.boot)
        changes = Changes(database)
        dispatcher = Dispatcher(settings, database, keys, running, lives.ended, told, changes.tell)
        if settings.scheduler is None:  # what runs on somebody else's cluster may outlive its server
            lives.begin(dispatcher.holder)
        dispatcher.start()
        begun.callback(dispatcher.stop)
        changes.start(dispatcher.wake)
        begun.callback(changes.stop)
        courier = Courier(database, keys, settings.webhook_hosts)
        courier.start()
        checkpoints.start()
        begun.callback(checkpoints.stop)
        threading.Thread(target=verify_quietly, args=(database, home), name="checksums", daemon=True).start()
        ready = threading.Event()
        services = Services(
            settings=settings,
            database=database,
            answers=Answers(database),
            keys=keys,
            epoch=epoch,
            checkpoints=checkpoints,
            sign_on=None if settings.oidc_issuer is None else SignOn(settings, database.clock),
            engine=running,
            dispatcher=dispatcher,
            changes=changes,
            courier=courier,
            calculators=calculating,
            pool=Pool(calculating.ask, settings.calculations, metrics.priced),
            streams=Places("event streams", STREAMS_EACH, settings.max_streams),
            uploads=Places("uploads", datasets.UPLOADS_EACH, datasets.UPLOADS),
            twins=Places("twins", twins.TWINS_EACH, twins.TWINS),
            exchanges=Places("sign-ins", code_flow.EXCHANGES_EACH, code_flow.EXCHANGES),
            ready=ready,
            readiness=Readiness(settings, database, keys, ready, lambda: _slots(running)),
            lives=lives,
            lock=lock,
        )
        begun.pop_all()
    return services


def _stop_spending(database: Database, wrong: str) -> None:
    """Refuse every write from now on, as a start on these ledgers is refused; readiness reports it."""
    database.is_closed_to_writes = True
    _LOG.critical(
        "ledger_unsound: a ledger does not hold (%s), so nothing is charged any more: stop every server, and restore "
        "home and database from one backup",
        wrong,
    )


def _slots(engine: Engine) -> int | None:
    return None if isinstance(engine, Coming) and not engine.is_here else engine.slots


def _watched(services: Services) -> Watched:
    return Watched(
        services.database,
        Holder(services.database.clock, services.settings.lease_seconds),
        without_room=lambda: len(services.dispatcher.without_room()),
        behind=lambda: services.epoch.behind,
        slots=lambda: _slots(services.engine) or 0,
        reasons=lambda: services.readiness.known,
    )


def _tell_token(settings: Settings, file: Path) -> None:
    """To a person who looks; what machines keep has its place alone."""
    if settings.log_format == "json":
        _LOG.warning("steward_token_kept_in %s", file)
    else:
        print(f"The first steward's token, kept in {file}:\n{file.read_text().strip()}", flush=True)


def check_free(settings: Settings, alone: bool = True) -> None:
    """RuntimeError if a server runs on this home; or, if others may, one that is there alone."""
    attend(settings.make_home(), alone).close()


def _stop(services: Services, given: Engine | None) -> None:
    services.changes.stop()
    services.courier.stop()
    services.dispatcher.stop()
    if given is None:
        services.engine.close()
    services.calculators.close()
    services.checkpoints.stop()
    services.database.close()
    services.lives.end()
    services.lock.close()


def _cluster(settings: Settings) -> Engine:
    from app.worker.cluster import DaskEngine  # late: it is large, and a server is ready without it

    return DaskEngine(settings)


def _begin_work(services: Services) -> None:
    if isinstance(services.engine, Coming):
        services.engine.start()
        services.dispatcher.wake()


def _wait(_request: Request, _error: Exception) -> Response:
    return handlers.respond(ApiError("database_unavailable", headers={"Retry-After": "2"}))


def _describe(application: FastAPI, root_path: str) -> None:
    """Puts our complete OpenAPI document in place of the framework's."""
    made: list[dict[str, Any]] = []

    def once() -> dict[str, Any]:
        if not made:
            made.append(openapi.document(application, ROUTERS, root_path))
        return made[0]

    application.openapi = once  # type: ignore[method-assign]


def _version() -> str:
    try:
        return version("privy-purse")
    except PackageNotFoundError:
        return "0"
