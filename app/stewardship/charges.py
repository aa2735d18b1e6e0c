"""Charges of mechanisms that ran elsewhere. The loss has happened; the ledger has to tell it."""

import sqlalchemy as sa

from accounting.errors import BudgetExhausted, FilterMismatch, OutOfRange
from accounting.filter import Cost, Filter
from accounting.records.chain import Entry
from accounting.records.events import External
from accounting.records.outside import Outside, event_to_json
from app.datasets import store
from app.datasets.service import described
from app.datasets.store import DatasetRow
from app.http.errors import ApiError
from app.identity.store import Principal
from app.ledger import allotments
from app.ledger import store as ledger
from app.persistence.session import Database
from app.quotes import pricing
from app.wire import ExternalCharge
from purse.wire.outside import ExternalCharged

_BEYOND = "This costs more than any ledger can hold."


def charge(database: Database, steward: Principal, dataset_id: str, asked: ExternalCharge) -> ExternalCharged:
    """One entry of the ledger, once for each label; and one of its kept-out part's, on whose people it ran as well.

    What does not fit is refused, so that a slip of the pen does not spend a budget for good; or, where the steward says
    so, recorded as exceeding it, which freezes the ledger.

    Raises
    ------
    ApiError
        not_found; budget_exhausted; idempotency_conflict if the label stands for another event; out_of_range if no
        ledger could hold it; method_filter_mismatch.
    """
    with database.read() as connection:  # a price may take a second, which no other writer should wait for
        row = store.visible(connection, dataset_id, steward)
        parts = [row, *(part for part in store.parts(connection, row) if part.ledger_id != row.ledger_id)]
        outside = Outside(asked.event, ledger.neighbors(connection, dataset_id))
    costs = [_cost(part.state.filter, outside) for part in parts]
    with database.write() as connection:
        ledger.lock(connection, store.whole(dataset_id))
        at = database.timestamp()
        entry, *_ = [
            _charged(connection, part, asked, cost, steward, at) for part, cost in zip(parts, costs, strict=True)
        ]
        row = store.visible(connection, dataset_id, steward)
        return ExternalCharged(
            dataset=entry.body["dataset"],
            label=asked.label,
            event=entry.body["event"],
            exceeds=entry.body["exceeds"],
            sequence=entry.sequence,
            hash=entry.hash,
            budget=described(connection, row, steward).budget,
        )


def _charged(
    connection: sa.Connection, priced: DatasetRow, asked: ExternalCharge, cost: Cost, steward: Principal, at: str
) -> Entry:
    """The entry of this label, which may be there already."""
    row = _unchanged(connection, priced, steward)
    entry = ledger.external(connection, row.id, asked.label)
    if entry is None:
        return _entered(connection, row, asked, cost, steward, at)
    if entry.body["event"] != event_to_json(asked.event):
        raise ApiError("idempotency_conflict", "This label stands for another event: use a new one.")
    return entry


def _unchanged(connection: sa.Connection, priced: DatasetRow, steward: Principal) -> DatasetRow:
    row = store.visible(connection, priced.id, steward)
    if row.state.filter != priced.state.filter:  # the cost would be one of other orders
        raise ApiError("dataset_changed")
    return row


def _entered(
    connection: sa.Connection, row: DatasetRow, asked: ExternalCharge, cost: Cost, steward: Principal, at: str
) -> Entry:
    fits = row.state.filter.admits(row.state.spent, cost) and not row.state.whole
    standing = allotments.stands(connection, row.ledger_id, row.state, steward.id)
    if not (fits and standing.holds(cost)) and not asked.exceeds:
        detail = "It does not fit the budget. If it has happened, record it with `exceeds`, or freeze the dataset now."
        raise ApiError("budget_exhausted", detail, remaining=pricing.remaining(standing))
    event = External(row.id, asked.label, event_to_json(asked.event), cost, not fits, steward.name)
    try:
        return ledger.apply(connection, row.id, event, at, steward.id)
    except OutOfRange:
        raise ApiError("out_of_range", _BEYOND) from None


def _cost(rule: Filter, outside: Outside) -> Cost:
    try:
        return rule.cost(outside)
    except FilterMismatch as error:
        raise ApiError("method_filter_mismatch", f"{str(error).capitalize()}.") from None
    except BudgetExhausted:
        raise ApiError("out_of_range", _BEYOND) from None
