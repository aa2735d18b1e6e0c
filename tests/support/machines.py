"""One home, its servers, and where their workers are not their own: a scheduler, and machines that joined it."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil

from app.demo.server import reserve_port
from app.worker.certificates import issue
from tests.support.patience import PATIENCE
from tests.support.server import Server, spawned

_PURSE = [sys.executable, "-P", "-c", "import sys; from app.cli import main; main()"]
_ROOT = Path(__file__).resolve().parents[2]
SCHEDULER = "scheduler"


class Installation:
    """Real processes on one home, each with its own log in the folder.

    Parameters
    ----------
    folder : of logs, certificates and the machines' scratch folders
    home : of the servers; `home` in the folder if None
    servers, machines : how many; without a machine that joins a scheduler, each server has its own workers
    begin : see `Server`
    settings : of every server
    """

    def __init__(
        self,
        folder: Path,
        home: Path | None = None,
        servers: int = 2,
        machines: int = 1,
        begin: str = "",
        **settings: Any,
    ) -> None:
        self.folder, self.home, self.processes = folder, home or folder / "home", dict[str, subprocess.Popen[bytes]]()
        self.machines = [f"worker-{number}" for number in range(1, machines + 1)]
        self.port, self._reserved = reserve_port()
        if self.machines:
            for name in (SCHEDULER, "server", "worker"):
                issue(folder / "certificates", name, 2)
            ca, certificate, key = self.channel("server")
            settings |= {"scheduler": self.address, "scheduler_ca": ca}
            settings |= {"scheduler_cert": certificate, "scheduler_key": key}
        logs = [folder / f"server-{number}.log" for number in range(1, servers + 1)]
        self.servers = [Server(self.home, log=log, begin=begin, **settings) for log in logs]

    @property
    def address(self) -> str:
        """The scheduler's."""
        return f"tls://127.0.0.1:{self.port}"

    def channel(self, name: str) -> tuple[Path, Path, Path]:
        """The authority, and the certificate of this name with its key."""
        certificates = self.folder / "certificates"
        return certificates / "ca.pem", certificates / f"{name}.pem", certificates / f"{name}-key.pem"

    def scratch(self, machine: str) -> Path:
        """Return the working folder of a machine."""
        return self.folder / f"scratch-{machine}"

    def start(self) -> None:
        """Start all processes that do not run, and wait until every server is ready."""
        if self.machines and not self.lives(SCHEDULER):
            self._run(SCHEDULER, "server scheduler", "--port", str(self.port))
        for machine in self.machines:
            if not self.lives(machine):
                self.work(machine)
        for server in self.servers:
            if not server.lives():
                server.start()

    def work(self, machine: str = "worker-1") -> None:
        """Start a machine without a grace period: at its stop, a running job is returned at its next answer."""
        (self.home / "datasets").mkdir(parents=True, exist_ok=True)
        places = ("--data", str(self.home / "datasets"), "--scratch", str(self.scratch(machine)))
        self._run(machine, "worker", "--scheduler", self.address, *places, "--patience", "0")

    def _run(self, name: str, command: str, *options: str) -> None:
        """Start a command without settings in its environment."""
        words = command.split()
        ca, certificate, key = self.channel(words[-1])
        arguments = [*words, "--ca", str(ca), "--cert", str(certificate), "--key", str(key), *options]
        clean = {n: v for n, v in os.environ.items() if not n.startswith("PURSE_")} | {"PYTHONPATH": str(_ROOT)}
        with (self.folder / f"{name}.log").open("ab") as log:
            self.processes[name] = subprocess.Popen(
                _PURSE + arguments, env=clean, cwd=self.folder, stdout=log, stderr=log
            )

    def lives(self, name: str) -> bool:
        """Return whether this scheduler or machine runs."""
        return name in self.processes and self.processes[name].poll() is None

    def workers(self) -> list[int]:
        """The processes that run attempts, wherever they are."""
        own = [pid for server in self.servers if server.lives() for pid in server.workers()]
        return own + [pid for name in self.machines if self.lives(name) for pid in spawned(self.processes[name].pid)]

    def holder(self, job: str, attempt: int) -> Server | None:
        """Return the server that logged the start of this attempt, if any."""
        message = f"attempt_started {job} {attempt}"
        return next((server for server in self.servers if message in server.log()), None)

    def logs(self) -> dict[str, str]:
        """All that every life of every process has printed."""
        return {path.stem: path.read_text(errors="replace") for path in sorted(self.folder.glob("*.log"))}

    def close(self) -> None:
        """Everything."""
        for server in self.servers:
            server.stop_or_kill()
        for process in self.processes.values():
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
        for process in self.processes.values():
            try:
                process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                process.kill()


def runs(pid: int) -> bool:
    """Return whether the process exists and is not a zombie."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
