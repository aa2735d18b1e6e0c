"""A server in a process of its own, which tests may kill."""

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import httpx
import psutil

from app.demo.server import reserve_port
from app.ledger.keys import SigningKeys
from app.persistence.session import Database
from tests.support.patience import PATIENCE
from tests.support.service import STEWARD
from tests.support.world import check_books

_START = "from app.cli import main; main(['serve'])"
_ROOT = Path(__file__).resolve().parents[2]


def spawned(parent: int) -> list[int]:
    """Return the ids of the worker processes below a process."""
    try:
        children = psutil.Process(parent).children(recursive=True)
        return [child.pid for child in children if "spawn_main" in " ".join(child.cmdline())]
    except psutil.NoSuchProcess:
        return []


class Server:
    """A home, and a server on it that can be started, killed and started again.

    Parameters
    ----------
    home : folder of the server's data
    log : file that every start appends its output to; beside the home if None
    begin : a Python statement that its process runs first
    settings : PURSE_* settings by their lower-case names
    """

    def __init__(self, home: Path, log: Path | None = None, begin: str = "", **settings: Any) -> None:
        self.home, self._begin = home, begin
        self.port, self._reserved = reserve_port()
        chosen = {"home": home, "port": self.port, "bootstrap_token": STEWARD, "log_level": "info"} | settings
        self._environment = os.environ | {f"PURSE_{name.upper()}": str(value) for name, value in chosen.items()}
        self._process: subprocess.Popen[bytes] | None = None
        self._log = log or home.with_name(f"{home.name}.log")
        self.client = httpx.Client(
            base_url=f"http://127.0.0.1:{self.port}", headers={"Authorization": f"Bearer {STEWARD}"}, timeout=PATIENCE
        )

    def start(self, within: float = PATIENCE) -> None:
        """Start the process, and return when the server is ready."""
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-c", f"{self._begin}\n{_START}"],
                env=self._environment | {"PYTHONPATH": str(_ROOT)},
                cwd=self.home.parent,
                stdout=log,
                stderr=log,
            )
        deadline = time.monotonic() + within
        while True:
            try:
                if self.client.get("/health/ready").status_code == 200:
                    return
            except httpx.HTTPError:
                pass
            assert self._process.poll() is None, self.log()
            assert time.monotonic() < deadline, self.log()
            time.sleep(0.1)

    def kill(self) -> None:
        """Kill the server's process with SIGKILL, but none of its workers."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def stop(self, within: float = PATIENCE) -> None:
        """Send SIGTERM, and wait for the end of the process."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(within)

    def stop_or_kill(self) -> None:
        """Stop the server, or kill it if it does not stop in time."""
        if self.lives():
            try:
                self.stop()
            except subprocess.TimeoutExpired:
                self.kill()

    def lives(self) -> bool:
        """Return whether the process runs."""
        return self._process is not None and self._process.poll() is None

    def cpu_seconds(self) -> float:
        """Return the CPU time of the server's process without its children."""
        times = psutil.Process(self.pid).cpu_times()
        return float(times.user + times.system)

    def workers(self) -> list[int]:
        """Return the ids of the server's worker processes."""
        return spawned(self.pid)

    @property
    def pid(self) -> int:
        """Id of the server's process."""
        assert self._process is not None
        return self._process.pid

    def log(self, last: int | None = 5000) -> str:
        """Return the output of every start, or its last characters."""
        text = self._log.read_text(errors="replace") if self._log.exists() else ""
        return text if last is None else text[-last:]

    def upload(self, spec: dict[str, Any], file: bytes) -> str:
        """Register a dataset and return its id; raise `httpx.HTTPStatusError` as `submit` does."""
        answer = self.client.post("/v1/datasets", data={"spec": json.dumps(spec)}, files={"file": ("f.csv", file)})
        if answer.status_code in (503, 507):
            answer.raise_for_status()
        assert answer.status_code == 201, answer.text
        return str(answer.json()["id"])

    def submit(self, body: dict[str, Any], key: str) -> str:
        """Submit a job and return its id; raise `httpx.HTTPStatusError` after a 503 or 507."""
        answer = self.client.post("/v1/jobs", json=body, headers={"Idempotency-Key": key})
        if answer.status_code in (503, 507):
            answer.raise_for_status()
        assert answer.status_code == 202, answer.text
        return str(answer.json()["id"])

    def job(self, job_id: str) -> dict[str, Any]:
        """Return a job."""
        answer = self.client.get(f"/v1/jobs/{job_id}")
        assert answer.status_code == 200, answer.text
        job: dict[str, Any] = answer.json()
        return job

    def finished(self, job_id: str, within: float = PATIENCE) -> dict[str, Any]:
        """Return a job when it has ended."""
        deadline = time.monotonic() + within
        while (job := self.job(job_id))["state"] in ("queued", "running"):
            assert time.monotonic() < deadline, job
            time.sleep(0.4)  # a request costs more CPU than the wait is worth
        return job

    def verifies(self, job_id: str) -> bool:
        """Return whether the server verifies the job's receipt; the job must have a model."""
        assert self.client.get(f"/v1/jobs/{job_id}/model").status_code == 200
        receipt = self.client.get(f"/v1/jobs/{job_id}/receipt").json()
        return bool(self.client.post("/v1/receipts/verify", json=receipt).json()["valid"])

    def database(self) -> Database:
        """Open the server's database from this process."""
        return Database(self._environment.get("PURSE_DATABASE_URL") or f"sqlite:///{self.home / 'purse.sqlite3'}")

    def keys(self) -> dict[str, Any]:
        """Read the server's public keys from its home."""
        return SigningKeys(self.home).jwks()

    def books(self) -> Counter[str]:
        """Return the result of `check_books` for the home, whether the server runs or not."""
        database = self.database()
        try:
            return check_books(database, self.keys())
        finally:
            database.close()
