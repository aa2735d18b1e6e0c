"""The state under PURSE_HOME, without a server or with one in this process."""

import asyncio
import difflib
import os
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from anyio.from_thread import start_blocking_portal
from fastapi import FastAPI
from pydantic import ValidationError
from uvicorn.server import ServerState

from app.calculation.calculators import CalculatingProcess, ForkedCalculators
from app.cli.output import Refusal
from app.http.protocol import BoundedProtocol, ConnectionLimits
from app.http.server import configured
from app.identity import service
from app.identity.home import IDENTITY_FILE, open_database
from app.main import create_app
from app.persistence.files import StartRefused
from app.services import check_free
from app.settings import Settings
from app.worker.forked import ForkedEngine
from purse.errors import fault

_START_SECONDS = 120.0
_SIMILARITY = 0.9  # of names, as difflib measures it


def settings_of(
    home: Path | None = None, host: str | None = None, port: int | None = None, workers: int | None = None
) -> Settings:
    """Return the settings of the environment, replaced by those of the command line."""
    _refuse_misspelt()
    options = {"home": home, "host": host, "port": port, "workers": workers}
    try:
        chosen: dict[str, Any] = {name: value for name, value in options.items() if value is not None}
        return Settings(**chosen | {"_secrets_dir": os.environ.get("PURSE_SECRETS_DIR")})
    except ValidationError as error:
        faults = "; ".join(f"PURSE_{'.'.join(map(str, e['loc'])).upper()}: {fault(e)}" for e in error.errors())
        raise Refusal(f"Invalid setting: {faults}. Correct the environment variable or the option.") from None


def _refuse_misspelt() -> None:
    """Raise `Refusal` if a variable has almost the name of a setting. Other programs may have variables of PURSE_."""
    names = [f"PURSE_{name.upper()}" for name in Settings.model_fields]
    for variable in os.environ:
        if variable.upper().startswith("PURSE_") and variable.upper() not in names:
            similar = difflib.get_close_matches(variable.upper(), names, n=1, cutoff=_SIMILARITY)
            if similar:
                raise Refusal(f"{variable} is not a setting. Rename the variable to {similar[0]}, or remove it.")


def settings_of_home(home: Path | None = None) -> Settings:
    """Return the settings for an existing home. Raise `Refusal` if no server has created the home yet."""
    settings = settings_of(home)
    if not (settings.home / IDENTITY_FILE).is_file():
        raise Refusal(
            f"{settings.home} is not the data folder of a server. Name the folder with --home or in PURSE_HOME."
        )
    return settings


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
