"""Submission, cancellation and reading of jobs, each in one transaction with the ledger.

`app.jobs.attempts` runs jobs. Nothing here reveals that an attempt has ended before it is published.
"""

import hashlib
from dataclasses import replace
from typing import Literal

import sqlalchemy as sa

from accounting.errors import BudgetExhausted, LedgerInvalid
from accounting.records.documents import canonical_text
from accounting.records.events import Cancelled, Refunded
from accounting.records.filters import cost_to_json
from app.datasets import names, profiles
from app.datasets import store as datasets
from app.http.errors import ApiError
from app.http.lists import Paging
from app.http.middleware import REQUEST
from app.http.work import in_turn
from app.identity import store as identity
from app.identity.store import Principal
from app.jobs import queue, store
from app.jobs.filters import NO_FILTERS, JobFilters
from app.jobs.queue import NO_LIMITS, QueueLimits
from app.jobs.shares import shares
from app.jobs.store import JobRow
from app.ledger import allotments
from app.ledger import store as ledger
from app.ledger.service import refuse_frozen
from app.persistence.dialect import next_job_number
from app.persistence.session import Database, new_id
from app.persistence.tables import jobs
from app.quotes import pricing
from app.quotes.pricing import Priced
from app.wire import EvaluationRequest, Job, Requested, StatisticRequest
from purse.wire.base import Page
from purse.wire.jobs import JobKind

Release = Literal["model", "statistic", "evaluation", "profile", "receipt"]
"""The documents that a release can have."""


async def submitted(database: Database, owner: Principal, key: str, request: Requested) -> Job | None:
    """Return the job that this key and body submitted before; `ApiError` idempotency_conflict for another body."""
    row = await store.submitted(database, owner.id, key)
    if row is None:
        return None
    _refuse_other(row, _digest(request))
    return await in_turn(get, database, owner, row.id)


def submit(database: Database, owner: Principal, key: str, priced: Priced, limits: QueueLimits = NO_LIMITS) -> Job:
    """Charge and queue a job in one transaction; the same key and body again return the same job.

    Parameters
    ----------
    limits : largest numbers of waiting jobs

    Raises
    ------
    ApiError
        budget_exhausted with what remains; idempotency_conflict; dataset_frozen, dataset_deleted, dataset_damaged,
        dataset_changed; too_many_requests.
    """
    digest = _digest(priced.request)
    spec = priced.spec.to_json()
    with database.write() as connection:
        identity.lock(connection, owner.id)
        earlier = store.by_key(connection, owner.id, key)
        if earlier is not None:
            _refuse_other(earlier, digest)
            return _as_seen(connection, earlier, owner)
        datasets.lock(connection, priced.dataset.id, owner)
        queue.refuse_full(connection, owner.id, priced.dataset.id, limits)
        return _reserve(database, connection, owner, key, digest, priced, spec)


def cancel(database: Database, principal: Principal, job_id: str) -> Job:
    """Cancel a job. A queued job is refunded; a running job stays charged, and its attempt loses its claim.

    Raises
    ------
    ApiError
        not_found; already_finished.
    """
    with database.write() as connection:
        ledger.lock(connection, store.on(job_id, visible=_own(principal)))
        stop(connection, _visible(connection, job_id, _own(principal)), database.timestamp())
        return _as_seen(connection, _visible(connection, job_id, _own(principal)), principal)


def stop(connection: sa.Connection, row: JobRow, at: str) -> None:
    """Cancel a job under its ledger's lock. Raise `ApiError` already_finished."""
    match row.state:
        case "queued":
            try:
                charge = ledger.charged(connection, row.dataset_id, row.id)
            except LedgerInvalid:  # the row says queued, but the ledger has refunded or ended the job
                raise ApiError("already_finished") from None
            state = ledger.load_state(connection, row.dataset_id)
            ledger.apply(connection, row.dataset_id, Refunded(row.id, charge.cost, state.whole), at, row.owner_id)
        case "running":
            ledger.apply(connection, row.dataset_id, Cancelled(row.id, row.attempt), at)
        case _:
            raise ApiError("already_finished")
    store.end(connection, row, "cancelled", at)


def get(database: Database, principal: Principal, job_id: str) -> Job:
    """Return a job that the principal can see; `ApiError` not_found otherwise."""
    with database.read() as connection:
        return _as_seen(connection, _visible(connection, job_id, _own(principal)), principal)


def page(database: Database, principal: Principal, paging: Paging, filters: JobFilters = NO_FILTERS) -> Page[Job]:
    """Return a page of jobs in the order of submission: an analyst's own; all jobs to stewards and auditors."""
    with database.read() as connection:
        if filters.dataset is not None:
            filters = replace(filters, dataset=names.identify(connection, filters.dataset, principal))
        rows = store.page(connection, paging, _own(principal), *filters.conditions())
        by_job = shares(connection, rows, principal)
    return paging.page(Page[Job], rows, lambda row: row.to_wire(by_job[row.id]), lambda row: row.id)


def released(database: Database, principal: Principal, job_id: str, name: Release) -> str:
    """Return one document of a job's release as canonical JSON; `ApiError` not_found or not_released.

    An analyst reads own releases, and the profiles of datasets with a grant. An auditor reads every receipt.
    """
    visible = _readable(principal) if name in ("profile", "receipt") else _own(principal)
    with database.read() as connection:
        kind = _visible(connection, job_id, visible).kind
        if name not in ("receipt", kind):
            raise ApiError("not_found", f"This job has no {name}. Read its {kind} at /v1/jobs/{{id}}/{kind}.")
        document = store.document(connection, job_id, "receipt" if name == "receipt" else "model")
    if document is None:
        raise ApiError("not_released")
    return document


def _digest(request: Requested) -> str:
    return hashlib.sha256(request.model_dump_json().encode()).hexdigest()


def _refuse_other(row: JobRow, digest: str) -> None:
    """Raise an `ApiError` idempotency_conflict if the earlier submission of the job had another body."""
    if row.request_sha256 != digest:
        raise ApiError("idempotency_conflict")


def _as_seen(connection: sa.Connection, row: JobRow, principal: Principal) -> Job:
    """Return a job with the share that it uses of the budget now."""
    return row.to_wire(shares(connection, [row], principal)[row.id])


def _reserve(
    database: Database,
    connection: sa.Connection,
    owner: Principal,
    key: str,
    digest: str,
    priced: Priced,
    spec: str,
) -> Job:
    request, dataset = priced.request, priced.dataset
    now = datasets.usable(connection, dataset.id, owner)
    if now.is_damaged:
        raise ApiError("dataset_damaged")
    refuse_frozen(now.state)
    standing = allotments.stands(connection, now.ledger_id, now.state, owner.id)
    job_id = new_id("job")
    at = database.timestamp()
    try:
        charge = replace(priced.charge(standing, job_id, owner.name), spec_sha256=store.spec_sha256(spec))
        charged = ledger.charge(connection, now.ledger_id, standing, charge, at, owner.id)
    except BudgetExhausted:
        raise ApiError("budget_exhausted", remaining=pricing.remaining(standing)) from None
    quote = priced.quote(standing, charged)
    used = charged.share(charge.cost)
    share = None if charged.sees_parts_only else used  # of the whole budget, for the receipt
    row = JobRow(
        id=job_id,
        number=next_job_number(connection),
        kind=_kind(request),
        dataset_id=dataset.id,
        owner_id=owner.id,
        analyst=owner.name,
        idempotency_key=key,
        request_sha256=digest,
        quote=canonical_text(quote.model_dump(mode="json")),
        charge=canonical_text({"cost": cost_to_json(charge.cost), "share": share, "entry": charged.state.sequence}),
        state="queued",
        attempt=0,
        lost=0,
        holder=None,
        boot=database.clock.boot,
        ticks=database.clock.ticks(),
        due=None,
        error=None,
        created_at=at,
        started_at=None,
        finished_at=None,
        request_id=REQUEST.get(),
        method=quote.method.name,
    )
    store.insert(connection, row, request=canonical_text(request.model_dump(mode="json")), spec=spec)
    return row.to_wire(used)


def _kind(request: Requested) -> JobKind:
    if isinstance(request, EvaluationRequest):
        return "evaluation"
    if isinstance(request, StatisticRequest):
        return "profile" if request.method.name == "profile" else "statistic"
    return "model"


def _visible(connection: sa.Connection, job_id: str, visible: sa.ColumnElement[bool]) -> JobRow:
    row = store.get(connection, job_id, visible)
    if row is None:
        raise ApiError("not_found", "You can see no job with this id. Choose one from the list of jobs.")
    return row


def _own(principal: Principal) -> sa.ColumnElement[bool]:
    """Return the condition for an analyst's own jobs, also on datasets without a grant now; for others, all jobs."""
    return jobs.c.owner_id == principal.id if principal.role == "analyst" else sa.true()


def _readable(principal: Principal) -> sa.ColumnElement[bool]:
    """Return `_own`, extended by the released profiles of visible datasets."""
    return _own(principal) | (profiles.RELEASED & datasets.granted(principal, jobs.c.dataset_id))
