"""What `make quick` leaves out, and how laws are tried."""

import gc
import logging
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

from tests.support.postgres import Cluster, NoPostgres, begun

ROOT = Path(__file__).parent
# Real servers; browsers; statistics with power: by when in a run the last file of each is begun. Those that wait and
# those that compute are spread over it, so that neither core waits, and what takes a minute does not come last.
SLOW = {"e2e": 0.7, "pages": 0.7, "privacy": 0.8}

# The same examples on every machine, however slow it is; `--hypothesis-profile=explore` draws others.
settings.register_profile("explore", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("suite", settings.get_profile("explore"), derandomize=True)
settings.load_profile("suite")


# Each process that a test starts reads what another has compiled: without that, a second of CPU for each server.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

gc.disable()  # what is imported and collected stays: looking for garbage in it is a third of collecting the suite


def pytest_collection_finish() -> None:
    """From here on only what the tests themselves make is looked through, and seldom."""
    gc.freeze()
    gc.set_threshold(10_000, 20, 20)
    gc.enable()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """What is slow as a whole is not even imported where slow tests are left out."""
    left_out = config.option.markexpr == "not slow"
    return True if left_out and collection_path.parent == ROOT and collection_path.name in SLOW else None


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """One process more than cores where some wait for servers of their own; no more than gains anything."""
    return min((os.cpu_count() or 1) + (config.option.markexpr != "not slow"), 4)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Whole folders are slow; single tests elsewhere carry the mark themselves."""
    rooms: dict[str, dict[Path, None]] = {}
    for item in items:
        room = item.path.relative_to(ROOT).parts[0]
        rooms.setdefault(room, {})[item.path] = None
        if room in SLOW:
            item.add_marker(pytest.mark.slow)
    order = {
        path: place / len(paths) * SLOW.get(room, 1.0)
        for room, paths in rooms.items()
        for place, path in enumerate(paths)
    }
    items.sort(key=lambda item: order[item.path])


@pytest.fixture(autouse=True)
def _words_again() -> Iterator[None]:
    """What a worker does to its process, silence, ends with the test that started one here."""
    with np.errstate():
        yield
    logging.disable(logging.NOTSET)


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """A PostgreSQL server, begun by the first test of this process that asks for it."""
    try:
        made = begun()
    except NoPostgres as why:
        pytest.skip(f"no PostgreSQL: {why}")
    try:
        made.database()
        yield made
    finally:
        made.close()


@pytest.fixture
def on_postgres(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    """Every service that this test makes is on one fresh database there."""
    monkeypatch.setenv("PURSE_DATABASE_URL", cluster.emptied())
    return cluster
