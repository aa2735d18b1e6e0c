"""The parts of a running server: the order in which they start, and the reverse order in which they stop."""

import logging
import os
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

from fastapi.concurrency import run_in_threadpool

from app.calculation.calculators import Calculators, ForkedCalculators
from app.calculation.pool import Pool
from app.datasets import routes as datasets
from app.datasets import twins
from app.datasets.budgets import BudgetAnswers
from app.datasets.folders import sweep
from app.datasets.values import verify_quietly
from app.http.work import ConcurrencyLimit
from app.identity import code_flow
from app.identity.home import open_database, refusing
from app.identity.service import ensure_steward
from app.identity.sign_on import SignOn, watched
from app.jobs.changes import Changes
from app.jobs.leases import Holder
from app.jobs.routes import STREAMS_EACH
from app.ledger.checkpoints import Checkpoints
from app.ledger.epoch import Epoch, published
from app.ledger.keys import SigningKeys
from app.operations.metrics import Watched
from app.operations.observers import Observers
from app.operations.readiness import Readiness
from app.operations.warming import WarmUp
from app.persistence.clock import Clock
from app.persistence.session import Database
from app.sessions.settling import expire
from app.settings import Settings
from app.webhooks.courier import Courier
from app.worker.dispatcher import Dispatcher
from app.worker.engine import Engine, StartingEngine
from app.worker.lives import Lives, lock_home

_LOG = logging.getLogger("purse.main")


@dataclass(frozen=True, slots=True)
class Services:
    """The parts of a running application that routes use, at `request.app.state.services`."""

    settings: Settings
    database: Database
    answers: BudgetAnswers
    keys: SigningKeys
    sign_on: SignOn | None
    dispatcher: Dispatcher
    changes: Changes
    courier: Courier
    calculators: Calculators
    pool: Pool
    streams: ConcurrencyLimit
    uploads: ConcurrencyLimit
    twins: ConcurrencyLimit
    exchanges: ConcurrencyLimit
    ready: threading.Event
    readiness: Readiness


@dataclass(frozen=True, slots=True)
class Substitutes:
    """Parts that tests and `purse fit` use instead of those that the settings name.

    Parameters
    ----------
    engine : runs the jobs; its maker closes it
    calculators : calculate prices; closed with the other parts
    clock : replaces the machine's clock
    """

    engine: Engine | None = None
    calculators: Calculators | None = None
    clock: Clock | None = None


class _Closable(Protocol):
    def close(self) -> object: ...


class _Startable(Protocol):
    @property
    def start(self) -> Callable[..., object]: ...

    def stop(self) -> object: ...


C = TypeVar("C", bound=_Closable)


class _Parts:
    """Opens and starts parts in threads, and leaves to a stack to close and stop them in the reverse order."""

    def __init__(self, stack: AsyncExitStack) -> None:
        self._stack = stack

    async def open(self, make: Callable[..., C], *arguments: Any) -> C:
        """Return a part that is closed at the end."""
        part = await run_in_threadpool(make, *arguments)
        self._stack.push_async_callback(run_in_threadpool, part.close)
        return part

    async def start(self, part: _Startable, *arguments: Any) -> None:
        """Start a part that is stopped at the end."""
        await run_in_threadpool(part.start, *arguments)
        self._stack.push_async_callback(run_in_threadpool, part.stop)


@asynccontextmanager
async def running(
    settings: Settings, observers: Observers, substitutes: Substitutes, alone: bool
) -> AsyncIterator[Services]:
    """Yield the started parts; if a start fails, stop the parts that were started and raise the error.

    Raises
    ------
    StartRefused
        if the state of the home or the database does not allow a start.
    """
    async with AsyncExitStack() as stack:
        stack.push_async_callback(run_in_threadpool, observers.close)
        with refusing(settings):
            services = await _started(stack, settings, observers, substitutes, alone)
        await stack.enter_async_context(watched(services.sign_on))
        yield services


async def _started(
    stack: AsyncExitStack, settings: Settings, observers: Observers, substitutes: Substitutes, alone: bool
) -> Services:
    parts = _Parts(stack)
    os.umask(0o077)  # files written from here on are readable by the operator alone
    home = settings.make_home()
    await parts.open(lock_home, home, alone)
    calculators = substitutes.calculators or ForkedCalculators(settings.calculation_seconds)
    await parts.open(lambda: calculators)
    calculators.start()
    database = await parts.open(open_database, settings, substitutes.clock)
    keys = await run_in_threadpool(SigningKeys.of, home, database)
    checkpoints = Checkpoints(database, keys, lambda wrong: stop_spending(database, wrong))
    epoch = await run_in_threadpool(_verified_epoch, settings, database, checkpoints)
    await parts.start(checkpoints, lambda: _forget_ended_sessions(database, epoch))
    engine = substitutes.engine or await parts.open(StartingEngine, lambda: _cluster(settings))
    if settings.scheduler is not None and isinstance(engine, StartingEngine):
        await run_in_threadpool(engine.start)  # reports a wrong address of a remote scheduler at once
    await run_in_threadpool(_prepare_home, settings, home, database)
    lives = Lives(home, database.clock.boot)
    changes = Changes(database)
    dispatcher = Dispatcher(settings, database, keys, engine, lives.dead_holders, observers.job_ended, changes.announce)
    if settings.scheduler is None:  # attempts on a remote cluster may outlive their server
        await parts.start(lives, dispatcher.holder)
    await parts.start(dispatcher)
    await parts.start(changes, dispatcher.wake)
    courier = Courier(database, keys, settings.webhook_hosts)
    await parts.start(courier)
    threading.Thread(target=verify_quietly, args=(database, home), name="checksums", daemon=True).start()
    ready = threading.Event()
    readiness = Readiness(settings, database, keys, ready, lambda: _slots(engine))
    observers.metrics.watch(
        Watched(
            database,
            Holder(database.clock, settings.lease_seconds),
            waiting_for_disk=lambda: len(dispatcher.waiting_for_disk()),
            behind=lambda: epoch.behind,
            slots=lambda: _slots(engine) or 0,
            reasons=lambda: readiness.last_reasons,
        )
    )
    await parts.start(WarmUp(ready, calculators, lambda: _start_workers(engine, dispatcher)))
    stack.callback(readiness.drain)
    return Services(
        settings=settings,
        database=database,
        answers=BudgetAnswers(database),
        keys=keys,
        sign_on=None if settings.oidc_issuer is None else SignOn(settings, database.clock),
        dispatcher=dispatcher,
        changes=changes,
        courier=courier,
        calculators=calculators,
        pool=Pool(calculators.ask, settings.calculations, observers.metrics.priced),
        streams=ConcurrencyLimit("event streams", STREAMS_EACH, settings.max_streams),
        uploads=ConcurrencyLimit("uploads", datasets.UPLOADS_EACH, datasets.UPLOADS),
        twins=ConcurrencyLimit("twins", twins.TWINS_EACH, twins.TWINS),
        exchanges=ConcurrencyLimit("sign-ins", code_flow.EXCHANGES_EACH, code_flow.EXCHANGES),
        ready=ready,
        readiness=readiness,
    )


def _verified_epoch(settings: Settings, database: Database, checkpoints: Checkpoints) -> Epoch:
    """Verify the ledgers before the epoch: it would otherwise publish the heads of a ledger that does not hold."""
    checkpoints.verify(published(settings, database))
    return Epoch.open(settings, database)


def _forget_ended_sessions(database: Database, epoch: Epoch) -> None:
    """End the sessions that have expired, and remove the lines of ended ones from the epoch."""
    expire(database)
    epoch.forget_ended(database)


def _prepare_home(settings: Settings, home: Path, database: Database) -> None:
    """Remove abandoned folders, and make sure that a steward has a token."""
    with database.write(alone="names") as connection:
        sweep(home, connection)
    token_file = ensure_steward(database, settings)
    if token_file is None:
        return
    if settings.log_format == "json":  # logs are collected by machines, and the token must not be in them
        _LOG.warning("steward_token_kept_in %s", token_file)
    else:
        print(f"The first steward's token, kept in {token_file}:\n{token_file.read_text().strip()}", flush=True)


def stop_spending(database: Database, wrong: str) -> None:
    """Refuse every write from now on, as a start on these ledgers is refused; readiness reports it."""
    database.is_closed_to_writes = True
    _LOG.critical(
        "ledger_unsound: a ledger is not valid (%s), so all charges are blocked: stop every server, and restore "
        "home and database from one backup",
        wrong,
    )


def _cluster(settings: Settings) -> Engine:
    from app.worker.cluster import DaskEngine  # late: a server is ready before the seconds that loading Dask takes

    return DaskEngine(settings)


def _start_workers(engine: Engine, dispatcher: Dispatcher) -> None:
    if isinstance(engine, StartingEngine):
        engine.start()
        dispatcher.wake()


def _slots(engine: Engine) -> int | None:
    """Return how many attempts may run at once; None before the engine has started."""
    return None if isinstance(engine, StartingEngine) and not engine.has_started else engine.slots
