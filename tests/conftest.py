"""What `make quick` leaves out, and how laws are tried."""

import gc
import logging
import math
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

from tests.support.postgres import Cluster, NoPostgres, begun

ROOT = Path(__file__).parent
# Real servers; browsers; statistics with power: of how many files of each one another take turns.
SLOW = {"e2e": 1, "pages": 1, "privacy": 2}

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
    """Whole folders are slow; single tests elsewhere carry the mark themselves. The slow files come first, one that
    waits for servers beside two that compute.
    """
    places: dict[str, list[Path]] = {name: [] for name in SLOW}
    for item in items:
        if (room := item.path.relative_to(ROOT).parts[0]) in SLOW:
            item.add_marker(pytest.mark.slow)
            if item.path not in places[room]:
                places[room].append(item.path)
    order = {path: place / share for room, share in SLOW.items() for place, path in enumerate(places[room])}
    items.sort(key=lambda item: order.get(item.path, math.inf))


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


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)])
def each_database(request: pytest.FixtureRequest) -> str:
    """Run a test once on SQLite and once on a fresh PostgreSQL database."""
    if request.param == "postgresql":
        request.getfixturevalue("on_postgres")
    return str(request.param)
