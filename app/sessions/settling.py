"""The end of a session: entries `settled` on its ledgers, and its row, inside the caller's transaction."""

import logging
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

import sqlalchemy as sa

from accounting.errors import LedgerInvalid
from accounting.filter import Cost
from accounting.records.events import Reserved, Settled
from accounting.records.ledger import LedgerState
from accounting.records.sessions import Certificate, plan_epsilon
from app.ledger import allotments
from app.ledger import store as ledger
from app.sessions import store
from app.sessions.store import Charge, SessionRow

_LOG = logging.getLogger("purse.sessions")


@dataclass(frozen=True, slots=True)
class Refund:
    """The refund of a session that is closed, by dataset, and the guarantee of its recorded answers."""

    costs: Mapping[str, Cost]
    certificate: Certificate


def reservations(connection: sa.Connection, row: SessionRow) -> dict[str, tuple[Reserved, LedgerState]]:
    """Return by dataset what each ledger of a session charged for it, and the state of that ledger.

    Raises
    ------
    LedgerInvalid
        if a ledger states no such charge, or that the session has ended.
    """
    found = {}
    for dataset, entry in row.ledger_entries.items():
        state = ledger.load_state(connection, dataset)
        if state is None:
            raise LedgerInvalid("the ledger is not open")
        found[dataset] = ledger.reserved(connection, dataset, row.id, entry), state
    return found


def refund_of_unused(connection: sa.Connection, row: SessionRow) -> Refund | None:
    """Return the refund of a session that has recorded nothing, which needs no calculation; None if there is none."""
    if any(row.counts) or row.refundable == "nothing":
        return None
    try:
        charges = reservations(connection, row)
    except LedgerInvalid:  # `settle` reports it
        return None
    costs = {dataset: reserved.cost for dataset, (reserved, _) in charges.items()}
    nothing = row.planned().recorded(row.counts)
    return Refund(costs, plan_epsilon(nothing, store.read_charge(row.charged).delta))


def settle(
    connection: sa.Connection,
    row: SessionRow,
    at: str,
    reason: Literal["closed", "expired"],
    refunded: Refund | None = None,
) -> SessionRow:
    """End an open session under the locks of its ledgers, and return it as it ended.

    Parameters
    ----------
    at : `Database.timestamp` of this transaction
    refunded : None if the whole reservation stays charged

    Returns
    -------
    The ended session. If a ledger does not state its reservation, the session ends without an entry and a refund.
    """
    ended_at = min(at, row.expires_at) if reason == "expired" else at
    try:
        charges = reservations(connection, row)
    except LedgerInvalid:
        _LOG.error("session_differs_from_ledger %s", row.id)
        store.end(connection, row, reason, ended_at=ended_at)
        return replace(row, state=reason, ended_at=ended_at)
    charged, settled = store.read_charge(row.charged), None
    for dataset, (reserved, state) in charges.items():
        nothing = state.filter.zero_cost
        cost = nothing if refunded is None or state.rolled_back else refunded.costs[dataset]
        event = Settled(row.id, list(row.counts), cost, state.whole, reason)
        entry = ledger.apply(connection, dataset, event, at, row.owner_id)
        if dataset == row.dataset_id:
            settled = entry.sequence
            if refunded is not None and any(cost):
                charged = _charged(connection, row, reserved, cost, refunded.certificate)
    values: dict[str, Any] = {"charged": charged.to_text(), "settled": settled, "ended_at": ended_at}
    store.end(connection, row, reason, **values)
    return replace(row, state=reason, **values)


def _charged(
    connection: sa.Connection, row: SessionRow, reserved: Reserved, refunded: Cost, certificate: Certificate
) -> Charge:
    """Return the charge that remains after a refund, with the share that it takes right after it."""
    remaining = tuple(a - b for a, b in zip(reserved.cost, refunded, strict=True))
    state = ledger.load_state(connection, row.dataset_id)
    assert state is not None
    ledger_id = ledger.id_of(connection, row.dataset_id)
    standing = allotments.stands(connection, ledger_id, state, row.owner_id)
    whole = store.read_charge(row.reserved)
    if whole.epsilon < certificate.epsilon:  # the certificate of the whole plan holds for a part of it
        certificate = Certificate(whole.epsilon, whole.delta, whole.accountant, whole.accountant_version)
    share = standing.share(remaining)
    stated = None if standing.sees_parts_only else share
    return Charge(share if share <= 1 else None, stated, **asdict(certificate))
