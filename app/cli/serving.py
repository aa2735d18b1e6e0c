"""A server in this process, for one command."""

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing, contextmanager
from functools import partial

from anyio.from_thread import start_blocking_portal
from fastapi import FastAPI
from uvicorn.server import ServerState

from app.calculation.calculators import CalculatingProcess, ForkedCalculators
from app.http.protocol import BoundedProtocol, ConnectionLimits
from app.http.server import configured
from app.identity import service
from app.identity.home import open_database
from app.main import create_app
from app.persistence.files import StartRefused
from app.settings import Settings
from app.worker.forked import ForkedEngine
from app.worker.lives import check_free

_START_SECONDS = 120.0


@contextmanager
def serving(settings: Settings, process: CalculatingProcess, name: str) -> Iterator[tuple[str, str]]:
    """Yield the URL and a steward's token of a server in this process, on a port that only this machine reaches.

    Parameters
    ----------
    process : its children calculate prices and run jobs
    name : of the token, as receipts and budgets show it; the token is revoked at the end
    """
    check_free(settings)
    with closing(open_database(settings)) as database, socket.socket() as port:
        port.bind(("127.0.0.1", 0))
        service.ensure_steward(database, settings)  # so that a steward's token remains
        token = service.own(database, name, "steward")
        try:
            with _running(settings, process, port):
                yield f"http://127.0.0.1:{port.getsockname()[1]}", token.token
        finally:
            service.revoke(database, token.id)


@contextmanager
def _running(settings: Settings, process: CalculatingProcess, port: socket.socket) -> Iterator[None]:
    calculators = ForkedCalculators(settings.calculation_seconds, process)
    application = create_app(settings, engine=ForkedEngine(process), calculators=calculators, alone=True)
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(_served(application, port)):
        if not application.state.services.ready.wait(_START_SECONDS):
            raise StartRefused("The calculating process did not start. `purse serve` logs the reason.")
        yield


@asynccontextmanager
async def _served(application: FastAPI, port: socket.socket) -> AsyncIterator[None]:
    """Serve with uvicorn's protocol alone. Its server would need a tenth of a second to stop."""
    config = configured(application, ConnectionLimits(), log_level="critical")
    state = ServerState()
    config.load()
    state.default_headers = config.encoded_headers
    async with application.router.lifespan_context(application):
        protocol = partial(BoundedProtocol, ConnectionLimits(), config=config, server_state=state, app_state={})
        listening = await asyncio.get_running_loop().create_server(protocol, sock=port)
        try:
            yield
        finally:
            listening.close()
