"""Two servers on one PostgreSQL and one scheduler; a worker has joined from elsewhere with a certificate alone."""

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from app.worker.certificates import issue
from tests.support.patience import until
from tests.support.postgres import Cluster
from tests.support.running import SHORT
from tests.support.server import Server
from tests.support.service import JOB, SPEC, people
from tests.support.world import check_books

_PURSE = [sys.executable, "-P", "-c", "import sys; from app.cli import main; main()"]
LONG: dict[str, Any] = {"method": {"name": "dp_gd", "steps": 40_000}, "privacy": {"epsilon": 0.2}}
_ROOT = Path(__file__).resolve().parents[2]


class Installation:
    """A home, its servers, their scheduler, and the workers of one other machine."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.processes = folder, dict[str, subprocess.Popen[bytes]]()
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        for name in ("scheduler", "server", "worker"):
            issue(folder / "certificates", name, 2)
        ca, certificate, key = self.channel("server")
        times = {"lease_seconds": 4.0, "renew_seconds": 0.5}
        where = {"scheduler": self.address, "scheduler_ca": ca, "scheduler_cert": certificate, "scheduler_key": key}
        self.servers = [Server(folder / "home", **where, **times) for _ in range(2)]

    @property
    def address(self) -> str:
        """The scheduler's."""
        return f"tls://127.0.0.1:{self.port}"

    def channel(self, name: str) -> tuple[Path, Path, Path]:
        """The authority, and the certificate of this name with its key."""
        certificates = self.folder / "certificates"
        return certificates / "ca.pem", certificates / f"{name}.pem", certificates / f"{name}-key.pem"

    def run(self, name: str, *options: str) -> None:
        """`purse scheduler` or `purse worker`, with what its command line says and nothing else of ours."""
        ca, certificate, key = self.channel(name)
        given = [name, "--ca", str(ca), "--cert", str(certificate), "--key", str(key), *options]
        clean = {n: v for n, v in os.environ.items() if not n.startswith("PURSE_")} | {"PYTHONPATH": str(_ROOT)}
        with (self.folder / f"{name}.log").open("ab") as log:
            self.processes[name] = subprocess.Popen(_PURSE + given, env=clean, cwd=self.folder, stdout=log, stderr=log)

    def work(self) -> None:
        """A worker with no patience: what runs when it is told to stop is handed back at its next answer."""
        data, scratch = str(self.folder / "home" / "datasets"), str(self.folder / "scratch")
        self.run("worker", "--scheduler", self.address, "--data", data, "--scratch", scratch, "--patience", "0")

    def holder(self, job: str, attempt: int) -> Server:
        """The server that has this attempt, once it has begun on the worker."""
        until((self.folder / "scratch" / f"{job}-{attempt}").exists)
        [found] = [server for server in self.servers if f"attempt_started {job} {attempt}" in server.log()]
        return found

    def close(self) -> None:
        """Everything."""
        for server in self.servers:
            server.stop_or_kill()
        for process in self.processes.values():
            process.send_signal(signal.SIGTERM)
        for process in self.processes.values():
            process.wait(60)


@pytest.fixture
def installation(tmp_path: Path, on_postgres: Cluster) -> Iterator[Installation]:  # noqa: ARG001
    made = Installation(tmp_path)
    made.servers[1]._log = tmp_path / "other.log"
    made.servers[1]._log.touch()
    try:
        made.run("scheduler", "--port", str(made.port))
        (tmp_path / "home" / "datasets").mkdir(parents=True)
        made.work()
        for server in made.servers:
            server.start()
        yield made
    finally:
        made.close()


def test_jobs_outlive_their_servers_and_orderly_stops_cost_nothing(installation: Installation) -> None:
    first, second = installation.servers
    dataset = first.upload(SPEC | {"budget": {"epsilon": 50.0, "delta": 1e-6}}, people(2000))

    def submit(server: Server, key: str, **changes: Any) -> str:
        return server.submit(JOB | {"dataset": dataset} | changes, key)

    jobs = [submit(first, "1", **SHORT), submit(second, "2", **SHORT)]
    assert [second.finished(jobs[0])["state"], first.finished(jobs[1])["state"]] == ["done", "done"]

    _is_poor(installation)
    long = submit(first, "3", **LONG)
    installation.holder(long, 1)
    installation.processes["worker"].send_signal(signal.SIGTERM)
    installation.processes["worker"].wait(60)
    installation.work()
    holder = installation.holder(long, 2)
    holder.kill()
    [other] = [server for server in installation.servers if server is not holder]
    found = other.finished(long)
    assert (found["state"], found["attempt"]) == ("done", 3), "one loss: the orderly stop was none"
    assert other.verifies(long)
    database = other.database()
    assert check_books(database, other.keys())["done"] == 3
    database.close()


def _is_poor(installation: Installation) -> None:
    """Nothing that a worker's processes were told names a database, a key of ours or a token."""
    machine = psutil.Process(installation.processes["worker"].pid)
    for process in (machine, *machine.children(recursive=True)):
        told = " ".join([*process.cmdline(), *(f"{n}={v}" for n, v in process.environ().items())])
        assert not re.search(r"PURSE_|sqlite|postgres|signing-key|token=", told), told
        opened = [file.path for file in process.open_files()]
        assert not [path for path in opened if "home" in path and "datasets" not in path]
