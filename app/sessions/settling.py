"""The end of a session: the entry `settled` of its ledger, and its row, inside the caller's transaction."""

import logging
from dataclasses import replace
from typing import Any, Literal

import sqlalchemy as sa

from accounting.errors import LedgerInvalid
from accounting.filter import Cost
from accounting.records.events import Reserved, Settled
from accounting.records.ledger import LedgerState
from accounting.records.sessions import Certificate, plan_epsilon
from app.calculation.questions import PricedRefund
from app.ledger import allotments
from app.ledger import store as ledger
from app.persistence.session import Database
from app.sessions import store
from app.sessions.store import Charge, SessionRow

_MOST_EXPIRED = 1000  # at once
_LOG = logging.getLogger("purse.sessions")


def reservation(connection: sa.Connection, row: SessionRow) -> tuple[Reserved, LedgerState]:
    """Return what the ledger charged for a session, and the state of the ledger.

    Raises
    ------
    LedgerInvalid
        if the ledger states no such charge, or that the session has ended.
    """
    state = ledger.load_state(connection, row.dataset_id)
    return ledger.reserved(connection, row.dataset_id, row.id, row.entry), state


def refund_of_unused(connection: sa.Connection, row: SessionRow) -> PricedRefund | None:
    """Return the refund of a session that has recorded nothing, which needs no calculation; None if there is none."""
    if any(row.counts) or row.refundable == "nothing":
        return None
    try:
        reserved, _ = reservation(connection, row)
    except LedgerInvalid:  # `settle` reports it
        return None
    nothing = row.planned().recorded(row.counts)
    return PricedRefund(reserved.cost, plan_epsilon(nothing, store.read_charge(row.charged).delta))


def settle(
    connection: sa.Connection,
    row: SessionRow,
    at: str,
    reason: Literal["closed", "expired"],
    refunded: PricedRefund | None = None,
) -> SessionRow:
    """End an open session under the lock of its ledger, and return it as it ended.

    Parameters
    ----------
    at : `Database.timestamp` of this transaction
    refunded : None if the whole reservation stays charged

    Returns
    -------
    The ended session. If the ledger does not state its reservation, the session ends without an entry and a refund.
    """
    values: dict[str, Any] = {"ended_at": min(at, row.expires_at) if reason == "expired" else at}
    try:
        reserved, state = reservation(connection, row)
    except LedgerInvalid:
        _LOG.error("session_differs_from_ledger %s", row.id)
    else:
        cost = state.filter.zero_cost if refunded is None or state.rolled_back else refunded.cost
        event = Settled(row.id, list(row.counts), cost, state.whole, reason)
        values["settled"] = ledger.apply(connection, row.dataset_id, event, at, row.owner_id).sequence
        if refunded is not None and any(cost):
            values["charged"] = _charged(connection, row, reserved, cost, refunded.certificate).to_text()
    store.end(connection, row, reason, **values)
    return replace(row, state=reason, **values)


def settle_expired(connection: sa.Connection, row: SessionRow, now: str) -> SessionRow:
    """End a session that has expired, and return it as it ended; return any other session as it is."""
    return settle(connection, row, now, "expired") if row.has_expired(now) else row


def expire(database: Database) -> None:
    """End at most 1000 sessions that have expired. A session may never get another request that would end it."""
    with database.read() as connection:
        overdue = store.overdue(connection, database.timestamp(), _MOST_EXPIRED)
    for session_id in overdue:
        with database.write() as connection:
            ledger.lock(connection, store.on(session_id, sa.true()))
            row = store.get(connection, session_id)
            if row is not None:
                settle_expired(connection, row, database.timestamp())


def _charged(
    connection: sa.Connection, row: SessionRow, reserved: Reserved, refunded: Cost, certificate: Certificate
) -> Charge:
    """Return the charge that remains after a refund, with the share that it takes right after it."""
    remaining = tuple(a - b for a, b in zip(reserved.cost, refunded, strict=True))
    state = ledger.load_state(connection, row.dataset_id)
    standing = allotments.stands(connection, ledger.id_of(connection, row.dataset_id), state, row.owner_id)
    whole = store.read_charge(row.reserved)
    if whole.epsilon < certificate.epsilon:  # the certificate of the whole plan holds for a part of it
        certificate = Certificate(whole.epsilon, whole.delta, whole.accountant, whole.accountant_version)
    return Charge.of(standing, remaining, certificate)
