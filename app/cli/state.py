"""The state under PURSE_HOME, without a server and with one inside this process."""

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from anyio.from_thread import start_blocking_portal
from fastapi import FastAPI
from pydantic import ValidationError
from uvicorn.server import ServerState

from app.calculation.calculators import Begun, ForkedCalculators
from app.cli.common import Refusal
from app.http.protocol import BoundedProtocol, Limits
from app.http.server import configured
from app.identity import service
from app.identity.home import IDENTITY_FILE, open_database
from app.main import check_free, create_app
from app.persistence.files import StartRefused
from app.persistence.session import Database
from app.settings import Settings
from app.worker.forked import ForkedEngine

_STARTS_WITHIN = 120.0


def settings_of(
    home: Path | None = None, host: str | None = None, port: int | None = None, workers: int | None = None
) -> Settings:
    """The settings of the environment, less what the command line says otherwise."""
    given = {"home": home, "host": host, "port": port, "workers": workers}
    try:
        chosen: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
        return Settings(**chosen | {"_secrets_dir": os.environ.get("PURSE_SECRETS_DIR")})
    except ValidationError as error:
        wrong = "; ".join(f"PURSE_{'.'.join(map(str, e['loc'])).upper()}: {e['msg']}" for e in error.errors())
        raise Refusal(f"a setting is wrong: {wrong}") from None


def settings_of_home(home: Path | None = None) -> Settings:
    """The settings, for a home that is there; `Refusal` if a service never began one, which opening it would do."""
    settings = settings_of(home)
    if not (settings.home / IDENTITY_FILE).is_file():
        raise Refusal(f"{settings.home} is no home of a service: name it with --home or in PURSE_HOME")
    return settings


@contextmanager
def opened(settings: Settings, *, upgrade: bool = False) -> Iterator[Database]:
    """The database of a home, as `open_database` leaves it; `Refusal` if it is another one's, or does not answer."""
    try:
        database = open_database(settings, upgrade=upgrade)
    except StartRefused as error:
        raise Refusal(str(error)) from None
    try:
        yield database
    finally:
        database.close()


def refuse_second(settings: Settings, alone: bool = True) -> None:
    """`Refusal` if another server runs on this home, whose queue is not ours to take; or, as `check_free`, alone."""
    try:
        check_free(settings, alone)
    except RuntimeError as error:
        raise Refusal(str(error)) from None


@contextmanager
def serving(settings: Settings, begun: Begun, name: str) -> Iterator[tuple[str, str]]:
    """A server inside this process, on a port of its own that only this machine reaches; (url, a steward's token).

    Parameters
    ----------
    begun : the process whose children calculate its prices and run its jobs; ended with it
    name : the token's, as receipts and budgets will show it; the token is revoked at the end
    """
    refuse_second(settings)
    with opened(settings) as database:
        service.ensure_steward(database, settings)  # so that the home has one who can come back
        token = service.own(database, name, "steward")
        try:
            with _listening() as port, _running(settings, begun, port):
                yield f"http://127.0.0.1:{port.getsockname()[1]}", token.token
        finally:
            service.revoke(database, token.id)


@contextmanager
def _listening() -> Iterator[socket.socket]:
    with socket.socket() as port:
        port.bind(("127.0.0.1", 0))
        yield port


@contextmanager
def _running(settings: Settings, begun: Begun, port: socket.socket) -> Iterator[None]:
    calculators = ForkedCalculators(settings.calculation_seconds, begun)
    application = create_app(settings, engine=ForkedEngine(begun), calculators=calculators, alone=True)
    with start_blocking_portal() as portal:
        try:
            with portal.wrap_async_context_manager(_served(application, port)):
                if not application.state.services.ready.wait(_STARTS_WITHIN):
                    raise StartRefused("the calculating process did not start: `purse serve` logs why")
                yield
        except StartRefused as error:
            raise Refusal(str(error)) from None


@asynccontextmanager
async def _served(application: FastAPI, port: socket.socket) -> AsyncIterator[None]:
    """By uvicorn's protocol alone: its server looks ten times a second whether it is to end, and then waits as long."""
    config, state = configured(application, Limits(), log_level="critical"), ServerState()
    config.load()
    state.default_headers = config.encoded_headers
    async with application.router.lifespan_context(application):
        protocol = partial(BoundedProtocol, Limits(), config=config, server_state=state, app_state={})
        listening = await asyncio.get_running_loop().create_server(protocol, sock=port)
        try:
            yield
        finally:
            listening.close()
