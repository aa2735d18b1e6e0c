"""Two servers on one PostgreSQL and one scheduler; a worker has joined from elsewhere with a certificate alone."""

import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.support.machines import Installation
from tests.support.patience import PATIENCE, until
from tests.support.postgres import Cluster
from tests.support.running import LONG, SHORT
from tests.support.server import Server
from tests.support.service import JOB, SPEC, people
from tests.support.world import check_books


@pytest.fixture
def installation(tmp_path: Path, on_postgres: Cluster) -> Iterator[Installation]:  # noqa: ARG001
    # A busy machine may hold up a living server for seconds, and its jobs must not count as lost.
    new_installation = Installation(tmp_path, lease_seconds=15.0, renew_seconds=0.5)
    try:
        new_installation.start()
        yield new_installation
    finally:
        new_installation.close()


def test_jobs_survive_their_servers_and_orderly_stops_cost_nothing(installation: Installation) -> None:
    first, second = installation.servers
    dataset = first.upload(SPEC | {"budget": {"epsilon": 50.0, "delta": 1e-6}}, people(2000))

    def submit(server: Server, key: str, **changes: Any) -> str:
        return server.submit(JOB | {"dataset": dataset} | changes, key)

    jobs = [submit(first, "1", **SHORT), submit(second, "2", **SHORT)]
    assert [second.finished(jobs[0])["state"], first.finished(jobs[1])["state"]] == ["done", "done"]

    _has_no_secret(installation)
    long = submit(first, "3", **LONG)
    _holder_of(installation, long, 1)
    installation.processes["worker-1"].send_signal(signal.SIGTERM)
    installation.processes["worker-1"].wait(PATIENCE)
    installation.work()
    holder = _holder_of(installation, long, 2)
    holder.kill()
    [survivor] = [server for server in installation.servers if server is not holder]
    finished = survivor.finished(long)
    assert (finished["state"], finished["attempt"]) == ("done", 3), "the orderly stop is not a lost attempt"
    assert survivor.verifies(long)
    database = survivor.database()
    assert check_books(database, survivor.keys())["done"] == 3
    database.close()


def _holder_of(installation: Installation, job: str, attempt: int) -> Server:
    """Return the server that holds this attempt, as soon as a worker has started it."""
    until((installation.scratch("worker-1") / "slot-0" / f"{job}-{attempt}").exists)
    holder = installation.holder(job, attempt)
    assert holder is not None
    return holder


def _has_no_secret(installation: Installation) -> None:
    """Check that command lines and environments of a worker's processes name no database, key or token."""
    machine = psutil.Process(installation.processes["worker-1"].pid)
    for process in (machine, *machine.children(recursive=True)):
        environment = " ".join([*process.cmdline(), *(f"{n}={v}" for n, v in process.environ().items())])
        assert not re.search(r"PURSE_|sqlite|postgres|signing-key|token=", environment), environment
        opened = [file.path for file in process.open_files()]
        assert not [path for path in opened if "home" in path and "datasets" not in path]
