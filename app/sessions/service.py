"""Sessions: reserved in one transaction with their ledger, recorded step by step, and closed with a refund.

Jobs run on data of this service. The answers of a session are computed by a program elsewhere, which this service
cannot observe: it records an answer before it computes it. An open session that reaches its end of time has expired.
The first request that depends on it records the end. Servers also record it every few minutes (`settling`).
"""

import hashlib
import json
from dataclasses import dataclass, replace

import sqlalchemy as sa

from accounting.errors import BudgetExhausted, LedgerInvalid
from accounting.records.documents import canonical_text
from accounting.records.events import Reserved
from accounting.records.sessions import plan_to_json
from app.calculation.pool import Pool, accepted
from app.calculation.questions import PricedRefund, PriceRefund
from app.datasets import names
from app.datasets import store as datasets
from app.datasets.store import DatasetRow
from app.http.errors import ApiError, invalid_field
from app.http.lists import Paging
from app.identity import store as identity
from app.identity.store import Principal
from app.ledger import allotments
from app.ledger import store as ledger
from app.ledger.epoch import note_recorded
from app.ledger.service import refuse_frozen
from app.persistence.clock import stamp
from app.persistence.session import Database, new_id
from app.quotes import pricing
from app.sessions import settling, store
from app.sessions.pricing import PricedSession
from app.sessions.requests import SessionRequested, refuse
from app.sessions.store import Charge, Refundable, SessionRow
from purse.wire.base import Page
from purse.wire.sessions import Session, StepsRequest

_RETRY = {"Retry-After": "60"}


async def opened(
    database: Database, owner: Principal, key: str, dataset_id: str, request: SessionRequested
) -> Session | None:
    """Return the session that this key and request opened before; None if the key is new.

    Raises
    ------
    ApiError
        idempotency_conflict for another request.
    """
    return _repeated(database, await store.opened(database, owner.id, key), _digest_of(dataset_id, request))


def open_session(database: Database, owner: Principal, key: str, priced: PricedSession, limit: int) -> Session:
    """Reserve the budget for a session in one transaction; the same key and body again return the same session.

    Parameters
    ----------
    limit : largest number of open sessions of one analyst

    Raises
    ------
    ApiError
        budget_exhausted with what remains; idempotency_conflict; the errors of `requests.refuse`; dataset_changed;
        too_many_requests.
    """
    dataset_id = priced.dataset.id
    digest = _digest_of(dataset_id, priced.request)
    with database.write() as connection:
        identity.lock(connection, owner.id)
        earlier = _repeated(database, store.by_key(connection, owner.id, key), digest)
        if earlier is not None:
            return earlier
        datasets.lock(connection, dataset_id, owner)
        now = database.timestamp()
        if store.count_open(connection, owner.id, now, limit) == limit:
            detail = f"At most {limit} sessions of one analyst may be open. Nothing was charged. Close one of them."
            raise ApiError("too_many_requests", detail, headers=_RETRY)
        row = _reserved(database, connection, owner, priced, now)
        row = replace(row, idempotency_key=key, request_sha256=digest)
        store.insert(connection, row)
        return row.to_wire(now)


def _reserved(
    database: Database, connection: sa.Connection, owner: Principal, priced: PricedSession, now: str
) -> SessionRow:
    """Charge a new session; return its row, which has no key yet."""
    dataset = _unchanged(connection, owner, priced.dataset)
    standing = allotments.stands(connection, dataset.ledger_id, dataset.state, owner.id)
    session_id = new_id("sess")
    plan = plan_to_json(priced.plan)
    expires_at = stamp(database.clock.wall() + priced.request.lifetime)
    if priced.cost is None:
        raise ApiError("budget_exhausted", remaining=pricing.remaining(standing))
    event = Reserved(session_id, dataset.id, owner.name, plan, priced.cost, priced.guarantee, expires_at)
    try:
        charged = ledger.charge(connection, dataset.ledger_id, standing, event, now, owner.id)
    except BudgetExhausted:
        raise ApiError("budget_exhausted", remaining=pricing.remaining(standing)) from None
    reserved = Charge.of(charged, priced.cost, priced.certificate).to_text()
    usual: Refundable = "untouched" if charged.state.whole else "unused"
    return SessionRow(
        id=session_id,
        dataset_id=dataset.id,
        owner_id=owner.id,
        analyst=owner.name,
        title=priced.request.title,
        idempotency_key="",
        request_sha256="",
        plan=canonical_text(plan),
        recorded=canonical_text([0] * len(plan)),
        refundable="nothing" if dataset.spec.sessions == "no_refund" else usual,
        noise_multiplier=priced.noise_multiplier,
        reserved=reserved,
        charged=reserved,
        entry=charged.state.sequence,
        settled=None,
        state="open",
        created_at=now,
        expires_at=expires_at,
        ended_at=None,
        dataset_name=dataset.name,
    )


def _unchanged(connection: sa.Connection, owner: Principal, priced: DatasetRow) -> DatasetRow:
    """Return a priced dataset as it is now, under its ledger's lock; raise an `ApiError` if nothing may be charged."""
    now = datasets.visible(connection, priced.id, owner)
    refuse(now)
    datasets.refuse_changed(connection, now)
    if now.state.filter != priced.state.filter:  # the cost would be in another currency
        raise ApiError("dataset_changed")
    return now


@dataclass(frozen=True, slots=True)
class Recorded:
    """A session, and the number of answers that a request recorded in it; 0 if the request was a repeated one."""

    session: Session
    answers: int


def record(database: Database, principal: Principal, session_id: str, key: str | None, body: StepsRequest) -> Recorded:
    """Record answers of an open session; the same key and body again return the same session and record nothing.

    Raises
    ------
    ApiError
        not_found; session_ended; session_exhausted; out_of_range for the event; dataset_frozen; idempotency_conflict.
    """
    digest = hashlib.sha256(body.model_dump_json().encode()).hexdigest()
    with database.write() as connection:
        row = locked(connection, principal, session_id)
        now = database.timestamp()
        earlier = None if key is None else store.step(connection, row.id, key)
        if earlier is not None:
            if earlier[0] != digest:
                raise ApiError("idempotency_conflict")
            note_recorded(connection, row.id, row.counts)  # the server that recorded may have stopped before it did so
            return Recorded(replace(row, recorded=earlier[1]).to_wire(row.created_at), 0)
        row = settling.settle_expired(connection, row, now)
        if row.state == "open":
            recorded = _with_steps(connection, row, body)
            store.set_recorded(connection, row, recorded)
            note_recorded(connection, row.id, recorded)
            if key is not None:
                store.insert_step(connection, row.id, key, digest, recorded)
            return Recorded(replace(row, recorded=canonical_text(recorded)).to_wire(now), body.steps)
    raise ApiError("session_ended")  # after the commit of an expiry


def _with_steps(connection: sa.Connection, row: SessionRow, body: StepsRequest) -> list[int]:
    """Return the numbers of recorded answers after these; raise an `ApiError` if they may not be recorded."""
    recorded = list(row.counts)
    counts = [each["count"] for each in json.loads(row.plan)]
    if body.event >= len(counts):
        raise invalid_field("body.event", f"must be below {len(counts)}, the number of events", "out_of_range")
    refuse_frozen(ledger.load_state(connection, row.dataset_id))
    recorded[body.event] += body.steps
    if recorded[body.event] > counts[body.event]:
        raise ApiError("session_exhausted")
    return recorded


@dataclass(frozen=True, slots=True)
class Closing:
    """An open session that is to be closed, and the question for its refund; None if it needs no calculation."""

    row: SessionRow
    question: PriceRefund | None

    async def refund(self, pool: Pool, caller: str) -> PricedRefund | None:
        """Return the calculated refund."""
        if self.question is None:
            return None
        return accepted(await pool.answer(caller, self.question), PricedRefund)


def closing(database: Database, principal: Principal, session_id: str) -> Closing:
    """Return a session that is to be closed, as it is now; `ApiError` not_found."""
    with database.read() as connection:
        row = visible(connection, principal, session_id)
        is_priced = row.state == "open" and row.refundable == "unused" and any(row.counts)
        if not is_priced or row.has_expired(database.timestamp()):
            return Closing(row, None)
        try:
            event, state = settling.reservation(connection, row)
        except LedgerInvalid:  # `close` ends it without a refund
            return Closing(row, None)
        plan = row.planned(ledger.neighbors(connection, row.dataset_id))
    delta = store.read_charge(row.reserved).delta
    return Closing(row, PriceRefund(plan, row.counts, state.filter, event.cost, state.whole, delta))


def close(database: Database, principal: Principal, priced: Closing, refunded: PricedRefund | None) -> Session | None:
    """Close a session, or return it as it ended; None if it recorded more answers after its refund was calculated.

    Parameters
    ----------
    refunded : refund of the recorded answers; None if nothing or everything is refunded
    """
    with database.write() as connection:
        row = locked(connection, principal, priced.row.id)
        now = database.timestamp()
        row = settling.settle_expired(connection, row, now)
        if row.state != "open":
            return row.to_wire(now)
        if row.recorded != priced.row.recorded:
            return None
        refunded = refunded or settling.refund_of_unused(connection, row)
        return settling.settle(connection, row, now, "closed", refunded).to_wire(now)


def end_on(connection: sa.Connection, dataset_id: str, at: str) -> None:
    """End the open sessions on a dataset whose values are deleted, under its ledger's lock.

    As with jobs, a session that has recorded nothing is refunded, and any other stays charged.
    """
    for row in store.open_on(connection, dataset_id):
        if settling.settle_expired(connection, row, at).state == "open":
            settling.settle(connection, row, at, "closed", settling.refund_of_unused(connection, row))


def get(database: Database, principal: Principal, session_id: str) -> Session:
    """Return a session that the principal can see; `ApiError` not_found otherwise."""
    with database.read() as connection:
        return visible(connection, principal, session_id).to_wire(database.timestamp())


def page(database: Database, principal: Principal, paging: Paging, dataset: str | None) -> Page[Session]:
    """Return a page of sessions by the time of their opening: an analyst's own; all to stewards and auditors.

    Parameters
    ----------
    dataset : id or name of the dataset of the listed sessions; None for all
    """
    with database.read() as connection:
        dataset_id = None if dataset is None else names.identify(connection, dataset, principal)
        rows = store.page(connection, paging, store.visible_to(principal), dataset_id)
    now = database.timestamp()
    return paging.page(Page[Session], rows, lambda row: row.to_wire(now), lambda row: row.id)


def _digest_of(dataset_id: str, request: SessionRequested) -> str:
    """Return the digest of a request for a session on a dataset, which a repeated request must have."""
    return hashlib.sha256(f"{dataset_id} {request.model_dump_json()}".encode()).hexdigest()


def _repeated(database: Database, row: SessionRow | None, digest: str) -> Session | None:
    if row is not None and row.request_sha256 != digest:
        raise ApiError("idempotency_conflict")
    return None if row is None else row.to_wire(database.timestamp())


def locked(connection: sa.Connection, principal: Principal, session_id: str) -> SessionRow:
    """Return a session, and lock its ledger until the end of the transaction; raise as `visible`."""
    ledger.lock(connection, store.on(session_id, store.visible_to(principal)))
    return visible(connection, principal, session_id)


def visible(connection: sa.Connection, principal: Principal, session_id: str) -> SessionRow:
    """Return a session that the principal can see; `ApiError` not_found otherwise."""
    row = store.get(connection, session_id, store.visible_to(principal))
    if row is None:
        raise ApiError("not_found", "You can see no session with this id. Choose one from the list of sessions.")
    return row
