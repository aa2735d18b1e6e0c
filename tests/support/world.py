"""Jobs without HTTP: a database, keys, an analyst and datasets; and checks of ledgers and jobs."""

import asyncio
import hashlib
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from accounting.records.chain import Entry
from accounting.records.codec import plan_to_json
from accounting.records.filters import cost_from_json
from accounting.records.offline import verify_ledger, verify_receipt
from accounting.records.outside import GaussianDpEvent
from accounting.records.replay import replay
from accounting.records.signing import Jwks
from app.datasets import grants
from app.datasets import service as datasets
from app.datasets import store as dataset_store
from app.datasets.upload import Upload
from app.identity import store as tokens
from app.identity.home import open_database
from app.identity.store import Principal
from app.jobs import attempts, service, store
from app.jobs.attempts import Claim
from app.jobs.leases import Holder
from app.jobs.queue import NO_LIMITS, QueueLimits
from app.jobs.release import Unreleasable
from app.ledger import store as ledger
from app.ledger.keys import SigningKeys
from app.persistence.clock import Clock
from app.persistence.session import Database, new_id
from app.persistence.tables import analyst_spend, ledger_entries, ledgers
from app.persistence.tables import datasets as dataset_table
from app.persistence.tables import holders as holder_table
from app.persistence.tables import jobs as job_table
from app.persistence.tables import sessions as session_table
from app.quotes.pricing import Priced
from app.settings import Settings
from app.sources.spec import JobSpec
from app.stewardship import charges
from app.stewardship import service as stewardship
from app.wire import ExternalCharge, Job, JobRequest
from app.worker.dispatcher import Dispatcher
from purse.wire.datasets import Amendment, Dataset, DatasetSpec
from purse.wire.outside import ExternalCharged
from tests.support.calculations import price
from tests.support.clocks import SetClock
from tests.support.patience import until
from tests.support.service import JOB, SPEC, people

STEWARD = Principal("idn_steward", "the steward", "steward")


@dataclass(slots=True)
class World:
    """The inside of a service; `World.at` makes one."""

    settings: Settings
    database: Database
    keys: SigningKeys
    analyst: Principal
    steward: Principal
    number_of_datasets: int = 0
    holders: dict[tuple[str, int], Holder] = field(default_factory=dict)
    limits: QueueLimits = NO_LIMITS

    @staticmethod
    def at(home: Path, clock: Clock | None = None, **chosen: Any) -> "World":
        """Open the home in this folder, or create it; without a clock, time stands still."""
        settings = Settings(home=home, **chosen)
        database = open_database(settings, clock or SetClock())
        with database.write() as connection:
            at = database.timestamp()
            if not tokens.was_issued(connection, "secret of ada"):
                tokens.add(connection, "ada", "analyst", "secret of ada", at)
            steward = replace(STEWARD, id=tokens.identity(connection, STEWARD.name, STEWARD.role, at))
        analyst = asyncio.run(tokens.find(database, "secret of ada"))
        assert analyst is not None
        return World(settings, database, SigningKeys(home), analyst, steward)

    def dataset(self, rows: int = 200, **changes: Any) -> str:
        """Register a dataset with the columns of SPEC, grant it to the analyst, and return its id."""
        dataset = self.register(rows, **changes)
        self.grant(dataset, self.analyst)
        return dataset

    def register(self, rows: int = 200, **changes: Any) -> str:
        """Register a dataset with the columns of SPEC, and return its id."""
        self.number_of_datasets += 1
        name = f"people {self.number_of_datasets}"
        folder = self.settings.home / f"upload {self.number_of_datasets}"
        folder.mkdir()
        file = folder / "upload"
        file.write_bytes(people(rows + self.number_of_datasets))
        spec = DatasetSpec.model_validate_json(json.dumps(SPEC | {"name": name} | changes))
        upload = Upload(spec, file, folder, self.settings.max_upload_bytes)
        return datasets.create(self.database, self.settings, STEWARD, upload).id

    def grant(self, dataset: str, analyst: Principal) -> None:
        """Grant the dataset to the analyst."""
        grants.give(self.database, STEWARD, dataset, analyst.id)

    def join(self, name: str, *datasets: str) -> Principal:
        """Create an analyst, and grant these datasets to the analyst."""
        with self.database.write() as connection:
            tokens.add(connection, name, "analyst", f"secret of {name}", self.database.timestamp())
        analyst = asyncio.run(tokens.find(self.database, f"secret of {name}"))
        assert analyst is not None
        for dataset in datasets:
            self.grant(dataset, analyst)
        return analyst

    def amend(self, dataset: str, change: Amendment) -> Dataset:
        """As a steward asks."""
        return stewardship.amend(self.database, STEWARD, dataset, change)

    def charge(self, dataset: str, label: str, noise_multiplier: float) -> ExternalCharged:
        """Charge a Gaussian mechanism that ran elsewhere, even beyond the budget."""
        request_body = ExternalCharge(label=label, event=GaussianDpEvent(noise_multiplier), exceeds=True)
        return charges.charge(self.database, self.steward, dataset, request_body)

    def erase(self, dataset: str) -> Dataset:
        """As a steward asks."""
        return stewardship.erase(self.database, self.settings, STEWARD, dataset)

    def submit(self, dataset: str, key: str | None = None, owner: Principal | None = None, **changes: Any) -> Job:
        """Submit JOB with changes; its owner is ada by default."""
        owner = owner or self.analyst
        job_request, key = request(dataset, **changes), key or new_id("key")
        earlier_job = asyncio.run(service.submitted(self.database, owner, key, job_request))
        if earlier_job is not None:
            return earlier_job
        return service.submit(self.database, owner, key, self.priced(dataset, **changes), self.limits)

    def priced(self, dataset: str, **changes: Any) -> Priced:
        """Return the price of JOB with changes."""
        with self.database.read() as connection:
            row = dataset_store.get(connection, dataset)
        assert row is not None
        return price(row, request(dataset, **changes), self.settings)

    @property
    def clock(self) -> SetClock:
        """The clock that stands still."""
        assert isinstance(self.database.clock, SetClock)
        return self.database.clock

    def claim(self) -> Claim | None:
        """Claim the next attempt for a holder of its own, which never declares other holders dead."""
        holder = Holder(self.database.clock, float("inf"))
        claim = attempts.claim(self.database, holder)
        if claim is not None:
            self.holders[claim.id, claim.attempt] = holder
        return claim

    def claimed(self) -> Claim:
        """Claim the next attempt, which must exist."""
        claim = self.claim()
        assert claim is not None
        return claim

    def end(self, claim: Claim, how: str | None = None) -> bool:
        """End the attempt with an output or as `how` says, and publish it at once."""
        if not attempts.end(self.database, claim, how or output(claim), self.database.clock.ticks()):
            return False
        return how == attempts.VANISHED or self.tell() > 0

    def release(self, dataset: str) -> str:
        """Run and publish a job of epsilon 0.2, and return its id."""
        job = self.submit(dataset, privacy={"epsilon": 0.2})
        self.end(self.claimed())
        return job.id

    def tell(self) -> int:
        """Advance the clock until every end is published, and return their number."""
        count, teller = 0, Holder(self.database.clock, float("inf"))
        while True:
            ready, soon = attempts.due(self.database, teller)
            for claim in ready:
                try:
                    attempts.publish(self.database, self.keys, claim)
                except Unreleasable:
                    attempts.fail(self.database, claim)
            count += len(ready)
            if soon == float("inf"):
                return count
            self.clock.pass_(soon)

    def expire(self) -> None:
        """Remove every holder, as if all servers had died."""
        with self.database.write() as connection:
            connection.execute(sa.delete(holder_table))

    def job(self, job_id: str) -> Job:
        """Return the job as its owner sees it."""
        return service.get(self.database, self.analyst, job_id)

    def kinds(self, dataset: str) -> list[str]:
        """The kinds of the dataset's ledger entries, in order."""
        with self.database.read() as connection:
            return [entry.kind for entry in ledger.entries(connection, dataset, 0, 100_000)]

    def dump(self) -> list[Any]:
        """Everything that is stored."""
        with self.database.read() as connection:
            tables = ("ledgers", "datasets", "ledger_entries", "analyst_spend", "jobs", "holders", "sessions")
            return [connection.execute(sa.text(f"select * from {table} order by 1, 2")).all() for table in tables]

    def check(self) -> Counter[str]:
        """`check_books` of this world."""
        return check_books(self.database, self.keys.jwks())


def request(dataset: str, **changes: Any) -> JobRequest:
    """A job request as the server reads it."""
    return JobRequest.model_validate_json(json.dumps(JOB | {"dataset": dataset} | changes))


def output(claim: Claim) -> str:
    """Return the output of a worker: some coefficients, and a transcript of the whole plan."""
    return _output(claim.spec)


def output_of(world: World, job_id: str) -> str:
    """The same of a job by its id."""
    with world.database.read() as connection:
        return _output(store.document(connection, job_id, "spec") or "")


def _output(stored: str) -> str:
    spec = JobSpec.model_validate_json(stored)
    transcript = plan_to_json(spec.release_plan.plan)
    return json.dumps({"coefficients": [0.25] * spec.problem.size, "transcript": transcript})


def finish_attempts(dispatcher: Dispatcher) -> None:
    """Wait until all attempts that the dispatcher holds have ended. An open attempt would have no release later."""
    for running in dispatcher.running:
        until(running.handle.done)


def run_out(world: World, dispatcher: Dispatcher, seconds: float = 1000.0) -> None:
    """Let the attempts that the dispatcher holds run to their ends, advance the clock, and make one more step."""
    finish_attempts(dispatcher)
    world.clock.pass_(seconds)
    dispatcher.step()


def check_books(
    database: Database, keys: Jwks, recompute: bool = True, balanced: dict[str, Any] | None = None
) -> Counter[str]:
    """Check that no budget is lost or spent twice, and that exactly the done jobs have one release and one receipt.

    Each session is reserved once, and settled once when it has ended.

    Parameters
    ----------
    recompute : also verify each receipt by its ledger, its epsilon recomputed from its events
    balanced : rows that earlier calls checked, by ledger; equal rows are not checked again

    Returns
    -------
    How many jobs are in which state.
    """
    balanced = {} if balanced is None else balanced
    with database.read() as connection:
        of_jobs = sa.select(job_table, dataset_table.c.ledger_id).join(dataset_table)
        jobs = _by_ledger(connection, of_jobs)
        of_sessions = sa.select(session_table, dataset_table.c.ledger_id).join(dataset_table)
        sessions = _by_ledger(connection, of_sessions)
        other_rows = [_by_ledger(connection, sa.select(t)) for t in (dataset_table, ledger_entries, analyst_spend)]
        for book in connection.execute(sa.select(ledgers)).all():
            mine = jobs.get(book.id, [])
            session_rows = sessions.get(book.id, [])
            rows = (keys, recompute, book, mine, session_rows, [rows_of.get(book.id) for rows_of in other_rows])
            if balanced.get(book.id) == rows:
                continue
            entries = ledger.entries(connection, book.id, 0, 1_000_000)
            _check_ledger(connection, book.id, entries, [job.id for job in mine])
            for job in mine:
                _check_job(entries, job, keys, recompute)
            assert {session.id for session in session_rows} == {
                e.body["session"] for e in entries if e.kind == "reserved"
            }
            for session in session_rows:
                _check_session(entries, session)
            if session_rows and recompute:
                verify_ledger(entries)
            balanced[book.id] = rows
    return Counter(job.state for of_one in jobs.values() for job in of_one)


def _by_ledger(connection: sa.Connection, query: sa.Select[Any]) -> dict[str, list[Any]]:
    rows_by_ledger: dict[str, list[Any]] = {}
    for row in connection.execute(query):
        rows_by_ledger.setdefault(row.ledger_id, []).append(row)
    return rows_by_ledger


def _check_ledger(connection: sa.Connection, ledger_id: str, entries: Sequence[Entry], jobs: Sequence[str]) -> None:
    state = ledger.load_state(connection, ledger_id)
    assert replay(entries) == state, "the cached state is what the chain leads to"
    charged = {e.body["job"]: cost_from_json(e.body["cost"]) for e in entries if e.kind == "charged"}
    refunded = {e.body["job"] for e in entries if e.kind == "refunded"}
    live = [cost for job, cost in charged.items() if job not in refunded]
    live += filter(any, _of_sessions(entries).values())
    live += [cost_from_json(e.body["cost"]) for e in entries if e.kind == "external"]
    total = tuple(map(sum, zip(*live, strict=True))) if live else state.filter.zero_cost
    assert state.spent == total, "the cached sum is the sum of the live charges"
    assert state.charges == len(live)
    mine = connection.execute(sa.select(analyst_spend).where(analyst_spend.c.ledger_id == ledger_id)).all()
    parts = [cost_from_json(json.loads(row.spent)) for row in mine]
    assert (tuple(map(sum, zip(*parts, strict=True))) if parts else state.filter.zero_cost) == total
    assert sum(row.charges for row in mine) == len(live)
    assert sorted(jobs) == sorted(charged), "every charge has its job, and every job its charge"
    if not state.whole and live and not any(e.kind == "external" and e.body["exceeds"] for e in entries):
        assert any(s <= t for s, t in zip(state.spent, state.filter.thresholds, strict=True)), "overspent"


def _of_sessions(entries: Sequence[Entry]) -> dict[str, tuple[int, ...]]:
    """Return the cost that each session is charged now."""
    charged = {e.body["session"]: cost_from_json(e.body["cost"]) for e in entries if e.kind == "reserved"}
    for entry in entries:
        if entry.kind == "settled":
            cost, refund = charged[entry.body["session"]], cost_from_json(entry.body["refund"])
            charged[entry.body["session"]] = tuple(a - b for a, b in zip(cost, refund, strict=True))
    return charged


def _check_session(entries: Sequence[Entry], session: Any) -> None:
    mine = [e for e in entries if e.body.get("session") == session.id]
    last_kinds = [] if session.state == "open" else ["settled"]
    assert [e.kind for e in mine] == ["reserved", *last_kinds], (session.id, session.state)
    recorded, counts = json.loads(session.recorded), [each["count"] for each in json.loads(session.plan)]
    assert len(recorded) == len(counts)
    assert all(0 <= k <= n for k, n in zip(recorded, counts, strict=True)), "no more answers than planned"
    assert (session.ended_at is None) == (session.state == "open")
    if last_kinds:
        assert (mine[1].sequence, mine[1].body["recorded"]) == (session.settled, recorded)
        assert mine[1].body["reason"] == session.state
    if session.state != "closed":
        assert session.charged == session.reserved, "an open or expired session is charged as a whole"


def _check_job(entries: Sequence[Entry], job: Any, keys: Jwks, recompute: bool) -> None:
    mine = [e for e in entries if e.body.get("job") == job.id]
    kinds = [e.kind for e in mine]
    assert kinds.count("charged") == 1
    assert [e.body["attempt"] for e in mine if e.kind == "started"] == list(range(1, job.attempt + 1))
    assert job.lost <= 2
    ends = [kind for kind in kinds if kind not in ("charged", "started")]
    expected = {
        "queued": [],
        "running": [],
        "done": ["released"],
        "failed": ["failed"],
        "cancelled": ["refunded"] if job.attempt == 0 else ["cancelled"],
    }
    assert ends == expected[job.state], (job.id, job.state, kinds)
    assert (job.state == "queued") <= (job.attempt == 0)
    assert (job.model is not None) == (job.receipt is not None) == (job.state == "done"), "no model without its receipt"
    assert (job.error is not None) == (job.state == "failed")
    if job.state != "done":
        return
    document = json.loads(job.receipt)
    [release] = [e for e in mine if e.kind == "released"]
    assert document["receipt"]["job"] == job.id
    assert document["receipt"]["model_sha256"] == hashlib.sha256(job.model.encode()).hexdigest()
    assert release.body["attempt"] == job.attempt
    if recompute:
        verification = verify_receipt(document, keys, entries)
        assert verification.holds, verification.reason
