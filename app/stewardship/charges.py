"""Charges of mechanisms that ran elsewhere. Their privacy loss has happened, and the ledger must record it."""

import sqlalchemy as sa

from accounting.errors import BudgetExhausted, FilterMismatch, OutOfRange
from accounting.filter import Cost, Filter
from accounting.records.chain import Entry
from accounting.records.events import External
from accounting.records.outside import event_to_json
from accounting.records.sessions import SessionPlan
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

_MISFIT = (
    "This event does not fit the dataset's {n} {unit}s: it draws its batches from more of them, or a batch or slot "
    "holds less than one. Check source_dataset_size, sampling_probability, rate and slots."
)
_BEYOND = "This event costs more than any ledger can record. Check its parameters, or freeze the dataset."


def charge(database: Database, steward: Principal, dataset_id: str, request: ExternalCharge) -> ExternalCharged:
    """Record a charge once for each label, on the dataset's ledger and on that of its holdout set.

    A charge that does not fit is refused, so that a typing error does not spend a budget forever. With `exceeds` it is
    recorded as exceeding the budget, which freezes the ledger.

    Raises
    ------
    ApiError
        not_found; budget_exhausted; idempotency_conflict if the label was used for another event, for another dataset
        of the family, or for only one of a dataset and its holdout set; out_of_range if no ledger could record it or it
        does not fit the number of records; method_filter_mismatch; dataset_damaged.
    """
    with database.read() as connection:  # pricing may take a second, for which no writer should wait
        row = store.visible(connection, dataset_id, steward)
        parts = [row, *(part for part in store.parts(connection, row) if part.ledger_id != row.ledger_id)]
        for part in parts:
            store.refuse_changed(connection, part)
        registered = ledger.registration(connection, dataset_id)
        outside = SessionPlan.of([request.event], registered.neighbors)
        n = sum(part.n for part in store.parts(connection, row))
    if outside.misfit(n, registered.unit) is not None:
        raise ApiError("out_of_range", _MISFIT.format(n=n, unit=registered.unit.name))
    costs = [_cost(part.state.filter, outside) for part in parts]
    with database.write() as connection:
        ledger.lock(connection, store.whole(dataset_id))
        _refuse_other_release(connection, parts, request.label)
        at = database.timestamp()
        entry, *_ = [
            _charged(connection, part, request, cost, steward, at) for part, cost in zip(parts, costs, strict=True)
        ]
        row = store.visible(connection, dataset_id, steward)
        return ExternalCharged(
            dataset=entry.body["dataset"],
            label=request.label,
            event=entry.body["event"],
            exceeds=entry.body["exceeds"],
            sequence=entry.sequence,
            hash=entry.hash,
            budget=described(connection, row, steward).budget,
        )


def _refuse_other_release(connection: sa.Connection, parts: list[DatasetRow], label: str) -> None:
    """Raise an `ApiError` idempotency_conflict if the label names a release about more or fewer records.

    A release about a dataset is on the ledgers of the dataset and of its holdout set; one about the holdout set is on
    its own ledger only.
    """
    is_charged = {ledger.external(connection, part.id, label) is not None for part in parts}
    dataset = parts[0].holdout_of
    entry = None if dataset is None else ledger.external(connection, dataset, label)
    if len(is_charged) > 1 or (entry is not None and entry.body["dataset"] == dataset):
        detail = "This label was used for a release about the dataset or about its holdout set alone. Use a new label."
        raise ApiError("idempotency_conflict", f"Nothing was charged. {detail}")


def _charged(
    connection: sa.Connection, priced: DatasetRow, request: ExternalCharge, cost: Cost, steward: Principal, at: str
) -> Entry:
    """Return the entry of this label, which may exist already."""
    row = store.visible(connection, priced.id, steward)
    if row.state.filter != priced.state.filter:  # the cost would be in another currency
        raise ApiError("dataset_changed")
    entry = ledger.external(connection, row.id, request.label)
    if entry is None:
        return _entered(connection, row, request, cost, steward, at)
    if (entry.body["dataset"], entry.body["event"]) != (row.id, event_to_json(request.event)):
        detail = "This label was used for another event, or for another dataset of the family. Use a new label."
        raise ApiError("idempotency_conflict", f"Nothing was charged. {detail}")
    return entry


def _entered(
    connection: sa.Connection, row: DatasetRow, request: ExternalCharge, cost: Cost, steward: Principal, at: str
) -> Entry:
    fits = row.state.fits(cost)
    standing = allotments.stands(connection, row.ledger_id, row.state, steward.id)
    if not (fits and standing.holds(cost)) and not request.exceeds:
        detail = "This does not fit the budget. If the release has happened, send `exceeds`, or freeze the dataset."
        raise ApiError("budget_exhausted", detail, remaining=pricing.remaining(standing))
    event = External(row.id, request.label, event_to_json(request.event), cost, not fits, steward.name)
    try:
        return ledger.apply(connection, row.id, event, at, steward.id)
    except OutOfRange:
        raise ApiError("out_of_range", _BEYOND) from None


def _cost(rule: Filter, outside: SessionPlan) -> Cost:
    try:
        return rule.cost(outside)
    except FilterMismatch as error:
        raise ApiError("method_filter_mismatch", f"{str(error).capitalize()}.") from None
    except BudgetExhausted:
        raise ApiError("out_of_range", _BEYOND) from None
