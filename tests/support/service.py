"""A running application in the test's process, its callers, and a small dataset and job."""

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
# No limits on the rate of requests, because tests send them fast.
UNHURRIED: dict[str, Any] = {"caller_rate": 10**6, "stranger_rate": 10**6, "total_rate": 10**6}
# Headers about the request itself.
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
    """Return a small CSV file that fits SPEC, different for each row count and each first row modulo 60."""
    lines = (f"{20 + i % 60},{'fm'[i % 2]},{'high' if i % 60 > 30 else 'low'}" for i in range(first, first + rows))
    return ("age,sex,income\n" + "\n".join(lines) + "\n").encode()


@dataclass(slots=True)
class Service:
    """A running application and its callers.

    Parameters
    ----------
    app, home, engine : the application, its data folder and its engine
    client : HTTP client; `call` adds a token
    tokens : tokens by role
    analysts : names of the analysts who are granted access to every upload
    """

    app: FastAPI
    home: Path
    engine: InlineEngine
    client: TestClient
    tokens: dict[str, str] = field(default_factory=dict)
    analysts: list[str] = field(default_factory=list)

    @property
    def database(self) -> Database:
        """The application's database."""
        database: Database = self.app.state.services.database
        return database

    def call(self, role: str | None, method: str, path: str, **options: Any) -> Response:
        """Send a request with the token of the role; without a token if the role is None."""
        headers = dict(options.pop("headers", {}))
        if role is not None:
            headers["Authorization"] = f"Bearer {self.tokens[role]}"
        return self.client.request(method, path, headers=headers, **options)

    def upload(self, spec: Any = None, file: bytes | None = None, name: str = "people.csv") -> Response:
        """Register a dataset as the steward, and grant it to the analysts; `spec` may be raw text."""
        text = spec if isinstance(spec, str) else json.dumps(SPEC if spec is None else spec)
        files = {"file": (name, people() if file is None else file)}
        response = self.call("steward", "POST", "/v1/datasets", data={"spec": text}, files=files)
        if response.status_code == 201:
            for analyst in self.analysts:
                self.grant(response.json()["id"], analyst)
        return response

    def registered(self, spec: Any = None, file: bytes | None = None) -> dict[str, Any]:
        """Return the dataset of an upload, which must be accepted."""
        response = self.upload(spec, file)
        assert response.status_code == 201, response.text
        dataset: dict[str, Any] = response.json()
        return dataset

    def attach(self, dataset: str, file: bytes | None = None, published: str = "last year's file") -> Response:
        """Attach a public sample to a dataset as the steward."""
        options = {"content": people(100) if file is None else file, "params": {"published": published}}
        headers = {"Content-Type": "application/octet-stream"}
        return self.call("steward", "PUT", f"/v1/datasets/{dataset}/sample", headers=headers, **options)

    def grant(self, dataset: str, analyst: str) -> None:
        """Grant the dataset to the analyst."""
        response = self.call("steward", "PUT", f"/v1/datasets/{dataset}/grants/{analyst}")
        assert response.status_code == 200, response.text

    def analyst(self, name: str, *datasets: str) -> dict[str, Any]:
        """Create an analyst's token, and grant these datasets and all later ones to the analyst."""
        token = self.token(name)
        self.tokens[name] = token["token"]
        self.analysts.append(name)
        for dataset in datasets:
            self.grant(dataset, name)
        return token

    def token(self, name: str, role: str = "analyst", **more: Any) -> dict[str, Any]:
        """Create a token as the steward, and return its document."""
        response = self.call("steward", "POST", "/v1/tokens", json={"name": name, "role": role, **more})
        assert response.status_code == 201, response.text
        token: dict[str, Any] = response.json()
        return token

    def dataset(self, **changes: Any) -> str:
        """Register a dataset with a file that no other has, and return its id."""
        number = next(_numbers)
        spec = SPEC | {"name": f"people {number}"} | changes
        return str(self.registered(spec, people(200 + number, first=1))["id"])

    def read(self, path: str, role: str = "analyst") -> Any:
        """Return the document at an address below `/v1`."""
        return self.call(role, "GET", f"/v1/{path}").json()

    def budget(self, dataset: str, role: str = "steward") -> dict[str, Any]:
        """Return the budget of a dataset."""
        budget: dict[str, Any] = self.read(f"datasets/{dataset}/budget", role)
        return budget

    def entries(self, dataset: str) -> list[dict[str, Any]]:
        """Return the entries of a dataset's ledger."""
        entries: list[dict[str, Any]] = self.read(f"datasets/{dataset}/ledger", "auditor")["items"]
        return entries

    def submitted(self, body: dict[str, Any], path: str = "jobs", role: str = "analyst") -> dict[str, Any]:
        """Submit a request that is accepted, and return its job."""
        response = self.call(role, "POST", f"/v1/{path}", json=body)
        assert response.status_code == 202, response.text
        job: dict[str, Any] = response.json()
        return job

    def done(self, body: dict[str, Any], path: str = "jobs", role: str = "analyst") -> dict[str, Any]:
        """Submit a request, and return its job when it has succeeded."""
        job = self.finished(self.submitted(body, path, role)["id"])
        assert (job["state"], job["error"]) == ("done", None)
        return job

    def receipt(self, job_id: str, role: str = "analyst") -> dict[str, Any]:
        """Return the signed receipt of a job, which the server verifies."""
        document: dict[str, Any] = self.read(f"jobs/{job_id}/receipt", role)
        report = self.call(None, "POST", "/v1/receipts/verify", json=document).json()
        assert report["valid"], report
        return document

    def durable(self, dataset: str) -> tuple[list[Any], list[bytes], list[str]]:
        """Return all durable state: rows of all tables except heartbeats, answers of budget and ledger, and folders."""
        lasting = [table for table in metadata.sorted_tables if table is not holders]
        with self.database.read() as connection:
            tables = [list(connection.execute(sa.select(t).order_by(*t.primary_key))) for t in lasting]
        answers = [self.call("steward", "GET", f"/v1/datasets/{dataset}/{p}").content for p in ("budget", "ledger")]
        folders = sorted(str(path.relative_to(self.home)) for path in self.home.rglob("*") if path.is_dir())
        return tables, answers, folders

    def started(self, job_id: str) -> dict[str, Any]:
        """Return the job when it is no longer queued."""
        return self._past(job_id, ("queued",), PATIENCE)

    def finished(self, job_id: str, within: float = PATIENCE) -> dict[str, Any]:
        """Return the job when it has ended."""
        return self._past(job_id, ("queued", "running"), within)

    def _past(self, job_id: str, states: tuple[str, ...], within: float) -> dict[str, Any]:
        """Poll the database, because a request costs ten times as much."""

        def is_past() -> bool:
            with self.database.read() as connection:
                return connection.scalar(_STATE, {"id": job_id}) not in states

        until(is_past, within)
        job: dict[str, Any] = self.call("steward", "GET", f"/v1/jobs/{job_id}").json()
        assert job["state"] not in states
        return job
