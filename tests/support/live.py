"""A service on a port of this machine, with an engine inside the test's process: for commands and clients."""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import uvicorn
from fastapi import FastAPI
from pydantic import SecretStr

from app.calculation.calculators import Calculators
from app.http.protocol import BoundedProtocol, ConnectionLimits
from app.http.server import configured
from app.main import create_app
from app.settings import Settings
from tests.support.calculations import InlineCalculators
from tests.support.inline_engine import InlineEngine
from tests.support.patience import PATIENCE
from tests.support.service import STEWARD, UNHURRIED


@dataclass(frozen=True)
class Live:
    """A running server, with its address and its steward's token."""

    url: str
    token: str
    home: Path
    app: FastAPI
    engine: InlineEngine
    server: uvicorn.Server

    def connections(self) -> int:
        """Return the number of open connections."""
        return len(self.server.server_state.connections)

    def working(self) -> int:
        """Return the number of connections whose request is being answered."""
        open_ = list(self.server.server_state.connections)
        return sum(isinstance(each, BoundedProtocol) and not each.is_idle for each in open_)


@contextmanager
def live(
    home: Path, calculators: Calculators | None = None, limits: ConnectionLimits | None = None, root_path: str = ""
) -> Iterator[Live]:
    """A service that is ready; stopped at the end."""
    engine = InlineEngine()
    settings = Settings(home=home, bootstrap_token=SecretStr(STEWARD), root_path=root_path, **UNHURRIED)
    app = create_app(settings, engine=engine, calculators=calculators or InlineCalculators())
    server = uvicorn.Server(configured(app, limits or ConnectionLimits(), timeout_graceful_shutdown=2))
    with socket.socket() as port:
        port.bind(("127.0.0.1", 0))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [port]})
        thread.start()
        try:
            deadline = time.monotonic() + PATIENCE
            while not server.started and thread.is_alive() and time.monotonic() < deadline:
                time.sleep(0.02)
            assert server.started
            assert app.state.services.ready.wait(PATIENCE)
            yield Live(f"http://127.0.0.1:{port.getsockname()[1]}", STEWARD, home, app, engine, server)
        finally:
            engine.close()
            server.should_exit = True
            thread.join()
