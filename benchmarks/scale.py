"""A service with very many datasets, analysts and charges on PostgreSQL, and two servers.

The database is filled directly, while no server runs: half of the charges are spread over all datasets, and half belong
to ten of them. Each job was charged, started and failed, so each has three entries. Heavy: it takes about half an hour
and 10 GB of disk.
"""

import json
import math
import secrets
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from accounting.privacy import Privacy
from accounting.records.documents import canonical
from accounting.records.entries import event_of
from accounting.records.events import Charged, Failed, Opened, Started
from accounting.records.filters import cost_from_json, cost_to_json
from accounting.records.ledger import advance
from app.ledger import store as ledger
from app.persistence.session import Database, new_id
from app.persistence.tables import (
    JOB_NUMBERS,
    analyst_spend,
    datasets,
    grants,
    identities,
    jobs,
    ledger_entries,
    ledgers,
)
from benchmarks import served
from benchmarks.load import Callers, Server, callers, seconds_of_each, serving
from tests.support.postgres import start_cluster

DATASETS, ANALYSTS = 10_000, 1_000
LARGE = 10  # datasets that have half of the charges
ANALYSTS_PER_DATASET = 10
_ROWS = 2_000  # per statement
_IDLE_SECONDS = 10
_OPTIONS = {"shared_buffers": "1GB", "autovacuum": "on", "fsync": "on", "full_page_writes": "on"}


def report(charges: int) -> None:
    """Print the seconds of a start and of frequent requests, with one dataset and with all of them."""
    measure(DATASETS, ANALYSTS, charges)


def measure(datasets: int, analysts: int, charges: int) -> None:
    """Print the figures of `report` for these numbers."""
    cluster = start_cluster(None, **_OPTIONS)
    with closing(cluster), tempfile.TemporaryDirectory() as name:
        folder, url, token = Path(name), cluster.database(), secrets.token_urlsafe(32)
        _migrate(folder, url)
        with serving(folder, token, database_url=url) as server:
            tokens = callers(server, token)
        before = _medians(folder, token, url, tokens)
        begin = time.monotonic()
        with closing(Database(url)) as database:
            fill(database, tokens.dataset, datasets, analysts, charges)
        print(f"filled in {time.monotonic() - begin:.0f} s", flush=True)
        for kind in ("first start, every entry verified", "second start", "third start"):
            print(f"{kind:36s}{_started(folder, token, url)}", flush=True)
        after = _medians(folder, token, url, tokens)
        for kind in before:
            one, all_ = (", ".join(f"{ms:5.1f}" for ms in medians[kind]) for medians in (before, after))
            print(f"  {kind:28s}{one} ms with one dataset; {all_} ms with all", flush=True)


def _medians(folder: Path, token: str, url: str, tokens: Callers) -> dict[str, list[float]]:
    """Return the milliseconds of each request at each of two servers, once both have verified their ledgers.

    They are the smaller of two medians, because other work on the machine can only make a median larger.
    """
    with ExitStack() as stack:
        both = [stack.enter_context(serving(folder, token, number, database_url=url)) for number in range(2)]
        for server in both:
            _wait_until_idle(server)
        medians = [[seconds_of_each(server, tokens) for _ in range(2)] for server in both]
    return {kind: [min(each[kind] for each in rounds) * 1e3 for rounds in medians] for kind in medians[0][0]}


def _wait_until_idle(server: Server) -> None:
    """Wait until the server has used less than a twentieth of a core for ten seconds."""
    used = -math.inf
    while (now := served.cpu_seconds(server.process)) - used > _IDLE_SECONDS / 20:
        used = now
        time.sleep(_IDLE_SECONDS)


def _migrate(folder: Path, url: str) -> None:
    environment = served.environment(home=folder / "home", database_url=url)
    subprocess.run([sys.executable, "-m", "app.cli", "server", "migrate"], env=environment, check=True)


def _started(folder: Path, token: str, url: str) -> str:
    """Return a line on the time until a server is ready. It then stops in an orderly way."""
    begin = time.monotonic()
    with serving(folder, token, database_url=url) as server:
        seconds = time.monotonic() - begin
        return f"{seconds:6.1f} s, of which {served.cpu_seconds(server.process):.1f} CPU s of the server"


def fill(database: Database, template: str, number: int, analysts: int, charges: int) -> None:
    """Copy a dataset, and add analysts with grants and charges."""
    with database.read() as connection:
        row = connection.execute(sa.select(datasets).where(datasets.c.id == template)).one()._mapping
        job = connection.execute(sa.select(jobs).where(jobs.c.dataset_id == template).limit(1)).one()
        opened = event_of(ledger.entries(connection, template, limit=1)[0])
        last = connection.scalar(sa.select(sa.func.max(jobs.c.number)))
    assert isinstance(opened, Opened)
    owners = [new_id("id") for _ in range(analysts)]
    people = [
        {"id": owner, "name": f"researcher {i}", "role": "analyst", "created_at": job.created_at}
        for i, owner in enumerate(owners)
    ]
    with database.write() as connection:
        connection.execute(sa.insert(identities), people)
    numbers = iter(range(last + 1, last + charges + 2))
    with database.write() as connection:
        connection.execute(sa.text(f"alter sequence {JOB_NUMBERS.name} restart with {last + charges + 2}"))
    for i in range(number):
        each = charges // 2 // number + (charges // 2 // LARGE if i < LARGE else 0)
        mine = [owners[(i * ANALYSTS_PER_DATASET + j) % analysts] for j in range(ANALYSTS_PER_DATASET)]
        _add(database, dict(row), opened, job, mine, [next(numbers) for _ in range(each)])


def _add(
    database: Database, row: dict[str, Any], opened: Opened, job: Any, owners: list[str], numbers: list[int]
) -> None:
    """Add one dataset with its ledger, its grants and its ended jobs."""
    dataset = new_id("ds")
    spec = json.loads(row["spec"]) | {"name": dataset}
    row |= {"id": dataset, "ledger_id": dataset, "name": dataset, "folder": dataset, "spec": canonical(spec).decode()}
    cost = cost_from_json(json.loads(job.charge)["cost"])
    state, entry = advance(None, replace(opened, dataset=dataset), job.created_at)
    entries, added, counts = [_entry_row(dataset, entry)], [], dict.fromkeys(owners, 0)
    for number in numbers:
        id_, owner = new_id("job"), owners[number % len(owners)]
        charged = Charged(id_, cost, Privacy(0.01, 1e-6), owner, dataset, "dp_gd")
        for event in (charged, Started(id_, 1), Failed(id_, 1)):
            state, entry = advance(state, event, job.created_at)
            entries.append(_entry_row(dataset, entry))
        own = {"id": id_, "number": number, "dataset_id": dataset, "owner_id": owner, "idempotency_key": id_}
        ended = {"state": "failed", "error": "job_failed", "finished_at": job.created_at, "holder": None}
        added.append(dict(job._mapping) | own | ended)
        counts[owner] += 1
    text = canonical(state.to_json()).decode()
    spent = [
        {
            "ledger_id": dataset,
            "owner_id": owner,
            "charges": n,
            "spent": canonical(cost_to_json(tuple(n * c for c in cost))).decode(),
        }
        for owner, n in counts.items()
        if n
    ]
    granted = [
        {"dataset_id": dataset, "identity_id": owner, "granted_by": "steward", "granted_at": job.created_at}
        for owner in owners
    ]
    with database.write() as connection:
        connection.execute(sa.insert(ledgers).values(id=dataset, family=None, state=text))
        connection.execute(sa.insert(datasets).values(**row))
        for table, rows in ((ledger_entries, entries), (jobs, added), (grants, granted), (analyst_spend, spent)):
            for start in range(0, len(rows), _ROWS):
                connection.execute(sa.insert(table), rows[start : start + _ROWS])


def _entry_row(dataset: str, entry: Any) -> dict[str, Any]:
    return entry.to_json() | {"ledger_id": dataset, "body": canonical(entry.body).decode()}
