"""What `make quick` leaves out, and how laws are tried."""

import gc
import logging
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

from tests.support.postgres import Cluster, NoPostgres, begun

ROOT = Path(__file__).parent
SLOW = ("e2e", "pages", "privacy")  # real servers; browsers; statistics with power

# The same examples on every machine, however slow it is; `--hypothesis-profile=explore` draws others.
settings.register_profile("explore", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("suite", settings.get_profile("explore"), derandomize=True)
settings.load_profile("suite")


gc.disable()  # what is imported and collected stays: looking for garbage in it is a third of collecting the suite


def pytest_collection_finish() -> None:
    """From here on only what the tests themselves make is looked through."""
    gc.freeze()
    gc.enable()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """What is slow as a whole is not even imported where slow tests are left out."""
    left_out = config.option.markexpr == "not slow"
    return True if left_out and collection_path.parent == ROOT and collection_path.name in SLOW else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Whole folders are slow; single tests elsewhere carry the mark themselves."""
    for item in items:
        if item.path.relative_to(ROOT).parts[0] in SLOW:
            item.add_marker(pytest.mark.slow)


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
