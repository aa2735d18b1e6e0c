"""The state under PURSE_HOME, without a server and with one inside this process."""

import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import uvicorn
from pydantic import ValidationError

from app.calculation.calculators import Begun, ForkedCalculators
from app.cli.common import Refusal
from app.http.protocol import Limits
from app.http.server import configured
from app.identity import service
from app.identity.home import open_database
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
    server = uvicorn.Server(configured(application, Limits(), log_level="critical"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [port]}, name="server")
    thread.start()
    try:
        deadline = time.monotonic() + _STARTS_WITHIN
        while not server.started or not application.state.services.ready.is_set():
            if not thread.is_alive() or time.monotonic() > deadline:
                raise Refusal(f"the server does not start on the state in {settings.home}; see `purse serve`")
            time.sleep(0.01)
        yield
    finally:
        server.should_exit = True
        thread.join()
