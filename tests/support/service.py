"""A running application as tests see it: its callers, a small dataset, a job."""

import itertools
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from fastapi import FastAPI
from fastapi.testclient import TestClient
from httpx import Response

from app.persistence.session import Database
from app.persistence.tables import holders, jobs, metadata
from tests.support.inline_engine import InlineEngine
from tests.support.patience import PATIENCE, until

STEWARD = "steward-" + "s" * 32
# Tests ask faster than anybody else; what bounds that has its own.
UNHURRIED: dict[str, Any] = {"caller_rate": 10**6, "stranger_rate": 10**6, "total_rate": 10**6}
# Headers that tell of the request itself, and of nothing that it asked for.
OF_THE_REQUEST = {"x-request-id", "ratelimit", "ratelimit-policy"}
SPEC: dict[str, Any] = {
    "name": "people",
    "columns": [
        {"name": "age", "type": "number", "lower": 0, "upper": 100},
        {"name": "sex", "type": "category", "categories": ["f", "m"]},
        {"name": "income", "type": "category", "categories": ["low", "high"]},
    ],
    "budget": {"epsilon": 3.0, "delta": 1e-6},
}
_STATE = sa.select(jobs.c.state).where(jobs.c.id == sa.bindparam("id"))
_numbers = itertools.count(1)
JOB: dict[str, Any] = {"target": "income", "privacy": {"epsilon": 0.5}}


def people(rows: int = 200, first: int = 0) -> bytes:
    """A small CSV file that suits SPEC; another for each number of rows and, modulo 60, of the first."""
    lines = (f"{20 + i % 60},{'fm'[i % 2]},{'high' if i % 60 > 30 else 'low'}" for i in range(first, first + rows))
    return ("age,sex,income\n" + "\n".join(lines) + "\n").encode()


@dataclass(slots=True)
class Service:
    """A running application and its callers.

    Parameters
    ----------
    app, home, engine : what runs
    client : sends requests; `call` adds a token
    tokens : by role
    analysts : who gets a grant on whatever is uploaded
    """

    app: FastAPI
    home: Path
    engine: InlineEngine
    client: TestClient
    tokens: dict[str, str] = field(default_factory=dict)
    analysts: list[str] = field(default_factory=list)

    @property
    def database(self) -> Database:
        """The application's own."""
        found: Database = self.app.state.services.database
        return found

    def call(self, role: str | None, method: str, path: str, **options: Any) -> Response:
        """One request, with the token of that role, or with none."""
        headers = dict(options.pop("headers", {}))
        if role is not None:
            headers["Authorization"] = f"Bearer {self.tokens[role]}"
        return self.client.request(method, path, headers=headers, **options)

    def upload(self, spec: Any = None, file: bytes | None = None, name: str = "people.csv") -> Response:
        """Register a dataset as the steward; `spec` may be raw text."""
        text = spec if isinstance(spec, str) else json.dumps(SPEC if spec is None else spec)
        files = {"file": (name, people() if file is None else file)}
        made = self.call("steward", "POST", "/v1/datasets", data={"spec": text}, files=files)
        if made.status_code == 201:
            for analyst in self.analysts:
                self.grant(made.json()["id"], analyst)
        return made

    def attach(self, dataset: str, file: bytes | None = None, published: str = "last year's file") -> Response:
        """A public sample of a dataset, from the steward."""
        sent = {"content": people(100) if file is None else file, "params": {"published": published}}
        headers = {"Content-Type": "application/octet-stream"}
        return self.call("steward", "PUT", f"/v1/datasets/{dataset}/sample", headers=headers, **sent)

    def grant(self, dataset: str, analyst: str) -> None:
        """From now on the dataset is there for the analyst."""
        given = self.call("steward", "PUT", f"/v1/datasets/{dataset}/grants/{analyst}")
        assert given.status_code == 200, given.text

    def analyst(self, name: str, *datasets: str) -> dict[str, Any]:
        """A new analyst of this name, who knows of these datasets and of those that come."""
        made = self.call("steward", "POST", "/v1/tokens", json={"name": name, "role": "analyst"})
        assert made.status_code == 201, made.text
        self.tokens[name] = made.json()["token"]
        self.analysts.append(name)
        for dataset in datasets:
            self.grant(dataset, name)
        found: dict[str, Any] = made.json()
        return found

    def dataset(self, **changes: Any) -> str:
        """The id of a fresh dataset, each with another file, and none that a test makes by `people(rows)`."""
        number = next(_numbers)
        made = self.upload(SPEC | {"name": f"people {number}"} | changes, people(200 + number, first=1))
        assert made.status_code == 201, made.text
        return str(made.json()["id"])

    def durable(self, dataset: str) -> tuple[list[Any], list[bytes], list[str]]:
        """Everything that lasts: every row of every table but heartbeats, budget and ledger as told, every folder."""
        lasting = [table for table in metadata.sorted_tables if table is not holders]
        with self.database.read() as connection:
            tables = [list(connection.execute(sa.select(t).order_by(*t.primary_key))) for t in lasting]
        told = [self.call("steward", "GET", f"/v1/datasets/{dataset}/{p}").content for p in ("budget", "ledger")]
        folders = sorted(str(path.relative_to(self.home)) for path in self.home.rglob("*") if path.is_dir())
        return tables, told, folders

    def started(self, job_id: str) -> dict[str, Any]:
        """The job, once it waits no more."""
        return self._past(job_id, ("queued",), PATIENCE)

    def finished(self, job_id: str, within: float = PATIENCE) -> dict[str, Any]:
        """The job, once it is over."""
        return self._past(job_id, ("queued", "running"), within)

    def _past(self, job_id: str, states: tuple[str, ...], within: float) -> dict[str, Any]:
        """Asked of the database until it is so, since a request costs ten times as much."""

        def is_past() -> bool:
            with self.database.read() as connection:
                return connection.scalar(_STATE, {"id": job_id}) not in states

        until(is_past, within)
        job: dict[str, Any] = self.call("steward", "GET", f"/v1/jobs/{job_id}").json()
        assert job["state"] not in states
        return job
