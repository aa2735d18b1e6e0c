"""Order and selection of tests, Hypothesis profiles, and fixtures for PostgreSQL."""

import gc
import itertools
import logging
import math
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

from accounting.noise import Noise
from app.persistence import postgres
from solvers.solve import release
from tests.support.patience import PATIENCE
from tests.support.postgres import Cluster, NoPostgres, start_cluster
from tests.support.seeded import SeededBits

ROOT = Path(__file__).parent
# Folders whose tests are all slow: servers, browsers, audits. Of two folders, files alternate in this proportion.
SLOW = {"e2e": 1, "pages": 1, "privacy": 2}

# The suite tries the same examples on every machine; `--hypothesis-profile=explore` draws new ones.
settings.register_profile("explore", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("suite", settings.get_profile("explore"), derandomize=True)
settings.load_profile("suite")


# Processes that tests start read bytecode that others have written, which saves a second of CPU for each server.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

gc.disable()  # imported modules and collected tests are no garbage; searching them takes a third of the collection


def pytest_collection_finish() -> None:
    """Exempt everything that exists from garbage collection, and collect the rest rarely."""
    gc.freeze()
    gc.set_threshold(10_000, 20, 20)
    gc.enable()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Skip the import of slow folders if slow tests are not selected."""
    is_quick = config.option.markexpr == "not slow"
    return True if is_quick and collection_path.parent == ROOT and collection_path.name in SLOW else None


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Return one process more than there are cores if some tests wait for servers, and at most four."""
    return min((os.cpu_count() or 1) + (config.option.markexpr != "not slow"), 4)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of slow folders, and put their files first: one that waits for servers for two that compute."""
    files: dict[str, list[Path]] = {name: [] for name in SLOW}
    for item in items:
        if (folder := item.path.relative_to(ROOT).parts[0]) in SLOW:
            item.add_marker(pytest.mark.slow)
            if item.path not in files[folder]:
                files[folder].append(item.path)
    order = {path: place / share for folder, share in SLOW.items() for place, path in enumerate(files[folder])}
    items.sort(key=lambda item: order.get(item.path, math.inf))


@pytest.fixture(autouse=True)
def _restore_process() -> Iterator[None]:
    """Undo what a worker that a test starts in this process does to it: no log and no warnings of NumPy.

    A lower priority cannot be undone without rights, and would slow down all later tests of this process.
    """
    priority = os.getpriority(os.PRIO_PROCESS, 0)
    with np.errstate():
        yield
    logging.disable(logging.NOTSET)
    assert os.getpriority(os.PRIO_PROCESS, 0) == priority, "an attempt lowers the priority of its thread: start one"


@pytest.fixture
def seeded_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each run of the test draws the same noise, and each release of the test has noise of its own."""
    seeds = itertools.count(1)
    monkeypatch.setitem(release.__globals__, "Noise", lambda: Noise(SeededBits(next(seeds))))


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """Run asynchronous tests on the event loop that the server uses."""
    return "asyncio"


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """A PostgreSQL server, which the first test of this process that uses it starts."""
    try:
        server = start_cluster()
    except NoPostgres as error:
        pytest.skip(f"no PostgreSQL: {error}")
    try:
        server.database()
        yield server
    finally:
        server.close()


@pytest.fixture
def on_postgres(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    """PostgreSQL with one fresh database, which every service of the test uses, however slow the machine is."""
    monkeypatch.setitem(postgres.POOL, "pool_timeout", PATIENCE)
    monkeypatch.setitem(postgres.CONNECTION, "connect_timeout", round(PATIENCE))
    monkeypatch.setitem(postgres.WRITER_TIMEOUTS, "lock_timeout", f"{PATIENCE:.0f}s")
    monkeypatch.setenv("PURSE_DATABASE_URL", cluster.emptied())
    return cluster


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)])
def each_database(request: pytest.FixtureRequest) -> str:
    """Run a test once on SQLite and once on a fresh PostgreSQL database."""
    if request.param == "postgresql":
        request.getfixturevalue("on_postgres")
    return str(request.param)
