"""Fixtures with the whole application in the test's process: a temporary home, and one token of each role."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from pydantic import SecretStr

from app.ledger import checkpoints
from app.main import create_app
from app.operations import readiness
from app.persistence.clock import Clock
from app.settings import Settings
from tests.support import compiled
from tests.support.calculations import InlineCalculators
from tests.support.clocks import FastClock
from tests.support.inline_engine import InlineEngine
from tests.support.patience import PATIENCE
from tests.support.service import STEWARD, UNHURRIED, Service
from tests.support.world import World

compiled.share()

MakeService = Callable[..., AbstractContextManager[Service]]


@pytest.fixture(scope="session", autouse=True)
def _undisturbed() -> Iterator[None]:
    """Keep servers from settling expired sessions in the middle of a test, and from reporting a slow database."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checkpoints, "FIRST_SECONDS", 10 * PATIENCE)
        patch.setattr(readiness, "CHECK_TIMEOUT_SECONDS", PATIENCE)
        yield


@contextmanager
def running_service(home: Path, clock: Clock | None = None, **settings: Any) -> Iterator[Service]:
    """Run the application on a home, with one token of each role."""
    engine = InlineEngine()
    chosen = Settings(home=home, bootstrap_token=SecretStr(STEWARD), **UNHURRIED | settings)
    app = create_app(chosen, engine=engine, calculators=InlineCalculators(), clock=clock or FastClock())
    with TestClient(app, raise_server_exceptions=False) as client:
        service = Service(app, home, engine, client, {"steward": STEWARD})
        for role in ("analyst", "auditor"):
            service.tokens[role] = service.token(f"the {role}", role)["token"]
        service.analysts.append("the analyst")
        assert app.state.services.ready.wait(PATIENCE)
        yield service
        engine.close()


@pytest.fixture(scope="session")
def make_service() -> MakeService:
    """`with make_service(home, **settings) as service`; a second service on one home is a restart."""
    return running_service


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    """A fresh application for one test."""
    with running_service(tmp_path / "home") as service:
        yield service


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """The inside of a service without datasets, whose time stands still."""
    world = World.at(tmp_path / "home")
    yield world
    world.database.close()


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """One application for all tests of a file that may see the datasets and jobs of the others."""
    with running_service(tmp_path_factory.mktemp("shared") / "home") as service:
        yield service
