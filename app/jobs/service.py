"""The life of a job, one transaction a step; the ledger moves in the same transaction as the job.

    queued -> running(1) -> done | failed | cancelled        running(1) -> running(2) when its lease has run out

Every step of an attempt is a compare-and-set on (id, running, attempt): an attempt that lost its lease to another can
no longer renew, fail or be released. Proof of at most one release: docs/decisions/0004-job-engine.md.
"""

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from accounting.filter import cost_from_json, cost_to_json
from accounting.records.documents import canonical
from accounting.records.ledger import Cancelled, Charged, Failed, Refunded, Released, Started
from app.datasets import store as datasets
from app.datasets.store import DatasetRow
from app.http.errors import ApiError
from app.identity.store import Principal
from app.jobs import release, store
from app.jobs.store import JobRow
from app.ledger import store as ledger
from app.ledger.keys import SigningKeys
from app.persistence.session import Database, new_id
from app.quotes import pricing
from app.quotes.pricing import Priced
from app.wire.base import Page
from app.wire.jobs import Job, JobRequest, Quote

ATTEMPTS = 2


@dataclass(frozen=True, slots=True)
class Claim:
    """One attempt of one job, ours until its lease runs out."""

    job: JobRow
    dataset: DatasetRow

    @property
    def id(self) -> str:
        """The job."""
        return self.job.id

    @property
    def attempt(self) -> int:
        """The attempt: with the id, the fence."""
        return self.job.attempt


def known(database: Database, owner: Principal, key: str, request: JobRequest) -> Job | None:
    """The job that was submitted before with this key and body; `ApiError` idempotency_conflict with another body."""
    with database.read() as connection:
        return _same(store.by_key(connection, owner.id, key), _digest(request))


def submit(database: Database, owner: Principal, key: str, priced: Priced) -> Job:
    """Charge and job in one transaction; the same key and body again is the same job.

    Raises
    ------
    ApiError
        budget_exhausted with what remains; idempotency_conflict.
    """
    digest = _digest(priced.request)
    with database.write() as connection:
        before = _same(store.by_key(connection, owner.id, key), digest)
        return before or _reserve(database, connection, owner, key, digest, priced)


def claim(database: Database, lease_seconds: float) -> Claim | None:
    """The oldest job that waits for a slot, started in the ledger before anything of the data is read.

    A job whose second attempt's lease has run out fails on the way.
    """
    while True:
        with database.write() as connection:
            row = store.claimable(connection, database.now(connection))
            if row is None:
                return None
            at = database.timestamp(connection)
            if row.attempt >= ATTEMPTS:
                _fail(connection, row, "worker_lost", at)
                continue
            store.start(connection, row, database.now(connection) + lease_seconds, at)
            ledger.apply(connection, row.dataset_id, Started(row.id, row.attempt + 1), at)
            started = store.held(connection, row.id, row.attempt + 1)
            dataset = datasets.get(connection, row.dataset_id)
            assert started is not None
            assert dataset is not None
            return Claim(started, dataset)


def is_held(database: Database, job_id: str, attempt: int) -> bool:
    """Whether this attempt is the job's own at this moment."""
    with database.read() as connection:
        return store.held(connection, job_id, attempt) is not None


def renew(database: Database, claims: Iterable[tuple[Claim, int]], lease_seconds: float) -> list[Claim]:
    """Prolongs the leases and notes the step counts; returns the claims that are lost and must be abandoned."""
    with database.write() as connection:
        until = database.now(connection) + lease_seconds
        return [c for c, done in claims if not store.renew(connection, c.id, c.attempt, until, done)]


def commit(database: Database, keys: SigningKeys, claim: Claim, output: str) -> bool:
    """Model, receipt, ledger entry and state `done` in one transaction; False if the claim is lost.

    Raises
    ------
    release.Unreleasable
        if the output is not what the plan allows; nothing has changed then, and the caller fails the job.
    """
    result = release.read(claim.job, output)
    model = release.model(claim.job, claim.dataset, result)
    digest = hashlib.sha256(model.encode()).hexdigest()
    with database.write() as connection:
        row = store.held(connection, claim.id, claim.attempt)
        if row is None:
            return False
        at = database.timestamp(connection)
        entry = ledger.apply(connection, row.dataset_id, Released(row.id, row.attempt, digest), at)
        receipt = release.receipt(row, claim.dataset, result, digest, entry, at, keys)
        done = store.answers(Quote.model_validate_json(row.quote))
        store.release(connection, row.id, row.attempt, progress=done, model=model, receipt=receipt, at=at)
    return True


def fail(database: Database, claim: Claim) -> bool:
    """An attempt that raised: failed at once, charged, and no word of why; False if the claim is lost."""
    with database.write() as connection:
        row = store.held(connection, claim.id, claim.attempt)
        if row is None:
            return False
        _fail(connection, row, "job_failed", database.timestamp(connection))
    return True


def vanish(database: Database, claim: Claim) -> bool:
    """An attempt whose worker is gone: up for its second attempt, or failed after it; False if the claim is lost."""
    with database.write() as connection:
        row = store.held(connection, claim.id, claim.attempt)
        if row is None:
            return False
        if row.attempt >= ATTEMPTS:
            _fail(connection, row, "worker_lost", database.timestamp(connection))
        else:
            store.expire(connection, row.id, row.attempt, database.now(connection))
    return True


def cancel(database: Database, principal: Principal, job_id: str) -> Job:
    """queued -> cancelled and refunded; running -> cancelled, still charged, and its attempt has lost its claim.

    Raises
    ------
    ApiError
        not_found; already_finished.
    """
    with database.write() as connection:
        row = _visible(store.get(connection, job_id), principal)
        at = database.timestamp(connection)
        match row.state:
            case "queued":
                charge = json.loads(row.charge)
                refund = Refunded(row.id, cost_from_json(charge["cost"]), charge["whole"])
                ledger.apply(connection, row.dataset_id, refund, at, row.owner_id)
            case "running":
                ledger.apply(connection, row.dataset_id, Cancelled(row.id, row.attempt), at)
            case _:
                raise ApiError("already_finished")
        store.end(connection, row, "cancelled", at)
        return _visible(store.get(connection, job_id), principal).to_wire()


def get(database: Database, principal: Principal, job_id: str) -> Job:
    """A job that the principal may see; ApiError not_found otherwise."""
    with database.read() as connection:
        return _visible(store.get(connection, job_id), principal).to_wire()


def page(database: Database, principal: Principal, after: int, limit: int) -> Page[Job]:
    """Jobs in the order of submission: all to a steward, own ones to an analyst."""
    owner = None if principal.role == "steward" else principal.id
    with database.read() as connection:
        rows = store.page(connection, owner, after, limit + 1)
    items = [row.to_wire() for row in rows[:limit]]
    return Page[Job](items=items, next=str(rows[limit - 1].number) if len(rows) > limit else None)


def model(database: Database, principal: Principal, job_id: str) -> str:
    """The released model's canonical JSON; ApiError not_found or not_released."""
    with database.read() as connection:
        _visible(store.get(connection, job_id), principal)
        return _released(store.model(connection, job_id))


def receipt(database: Database, principal: Principal, job_id: str) -> str:
    """The release's signed receipt; ApiError not_found or not_released. An auditor sees every receipt."""
    with database.read() as connection:
        _visible(store.get(connection, job_id), principal)
        return _released(store.receipt(connection, job_id))


def _digest(request: JobRequest) -> str:
    return hashlib.sha256(request.model_dump_json().encode()).hexdigest()


def _same(row: JobRow | None, digest: str) -> Job | None:
    """The job that was submitted before under this key; `ApiError` if it was another request."""
    if row is not None and row.request_sha256 != digest:
        raise ApiError("idempotency_conflict")
    return None if row is None else row.to_wire()


def _reserve(
    database: Database,
    connection: sa.Connection,
    owner: Principal,
    key: str,
    digest: str,
    priced: Priced,
) -> Job:
    request, dataset = priced.request, priced.dataset
    state = ledger.load_state(connection, dataset.id)
    assert state is not None
    quote = priced.quote(state)
    if priced.cost is None or not quote.fits:
        raise ApiError("budget_exhausted", remaining=pricing.remaining(state))
    job_id, at = new_id("job"), database.timestamp(connection)
    entry = ledger.apply(connection, dataset.id, Charged(job_id, priced.cost, priced.guarantee), at, owner.id)
    charge = {"cost": cost_to_json(priced.cost), "whole": entry.body["whole"]}
    row = JobRow(
        id=job_id,
        number=store.next_number(connection),
        dataset_id=dataset.id,
        owner_id=owner.id,
        analyst=owner.name,
        idempotency_key=key,
        request_sha256=digest,
        request=_text(request.model_dump(mode="json")),
        quote=_text(quote.model_dump(mode="json")),
        plan=_text(priced.plan_document()),
        charge=_text(charge),
        state="queued",
        attempt=0,
        lease_until=None,
        progress=0,
        error=None,
        created_at=at,
        started_at=None,
        finished_at=None,
    )
    store.insert(connection, row)
    return row.to_wire()


def _fail(connection: sa.Connection, row: JobRow, error: str, at: str) -> None:
    ledger.apply(connection, row.dataset_id, Failed(row.id, row.attempt), at)
    store.end(connection, row, "failed", at, error)


def _visible(row: JobRow | None, principal: Principal) -> JobRow:
    if row is None or (principal.role == "analyst" and row.owner_id != principal.id):
        raise ApiError("not_found")
    return row


def _released(text: str | None) -> str:
    if text is None:
        raise ApiError("not_released")
    return text


def _text(document: Any) -> str:
    return canonical(document).decode()
