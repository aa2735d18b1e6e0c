"""A dataset's declaration, promise and values after registration: each change is an entry of its ledger, by name.

While nothing is charged, a declaration can be mended: another name, another budget; or it is withdrawn and registered
again. From the first charge on it stands: a budget may only grow, which is a new promise, and what is deleted is the
values, never the ledger.
"""

from dataclasses import replace

import sqlalchemy as sa

from accounting.errors import OutOfRange
from accounting.filter import Filter
from accounting.privacy import Privacy
from accounting.records.events import Emptied, Frozen, Promised, Renamed
from accounting.records.ledger import LedgerState
from app.datasets import allotments, folders, store
from app.datasets.service import described, opened
from app.datasets.store import DatasetRow
from app.http.errors import ApiError
from app.identity.store import Principal
from app.jobs import service as job_service
from app.jobs import store as jobs
from app.ledger import store as ledger
from app.persistence.session import Database
from app.settings import Settings
from app.sources.errors import Away
from purse.wire.datasets import Amendment, Budget, BudgetChange, Dataset
from purse.wire.problems import Violation


def amend(database: Database, steward: Principal, dataset_id: str, change: Amendment) -> Dataset:
    """Every change that is asked for, or none.

    Raises
    ------
    ApiError
        not_found; name_taken; already_charged for what only an uncharged ledger allows; out_of_range or overallotted
        for the budget.
    """
    with database.write(alone="names") as connection:
        ledger.lock(connection, store.whole(dataset_id))
        row, at = store.visible(connection, dataset_id, steward), database.timestamp()
        if change.name is not None and change.name != row.name:
            if row.state.is_charged:
                raise ApiError("already_charged", "A name stays from the first charge on: receipts tell it.")
            store.rename(connection, row, change.name)
            ledger.apply(connection, row.id, Renamed(row.id, change.name, steward.name), at)
        if change.budget is not None:
            rule = _promised(row, change.budget)
            if rule != row.state.filter:
                ledger.apply(connection, row.id, Promised(rule, steward.name), at)
                allotments.refuse_over(connection, store.visible(connection, dataset_id, steward))
        if change.frozen is not None:
            # A kept-out part that was frozen for itself, as one that was exceeded is, is not lifted with the other.
            for part in store.parts(connection, row) if change.frozen else [row]:
                _freeze(connection, part.id, Frozen(change.frozen, steward.name), at)
        return described(connection, store.visible(connection, dataset_id, steward), steward)


def erase(database: Database, settings: Settings, steward: Principal, dataset_id: str) -> Dataset:
    """Ends the dataset's jobs and deletes its values; withdraws it altogether if nothing is charged then.

    Queued jobs are refunded, running ones stay charged and release nothing. The order is committed before the first
    byte is deleted, and carried out at the next start if a crash comes between, or by asking again.

    Raises
    ------
    ApiError
        not_found; storage_unavailable: the order stands, and is carried out at a start that reaches it.
    """
    with database.write(alone="names") as connection:
        ledger.lock(connection, store.whole(dataset_id))
        row = store.visible(connection, dataset_id, steward)
        parts = store.parts(connection, row)
        if row.data == "stored":
            row = _emptied(connection, parts, steward, database.timestamp())
        told = described(connection, row, steward)
    try:
        for part in parts:
            folders.erase(settings.home, part.folder)
    except Away:
        raise ApiError("storage_unavailable") from None
    return told


def _freeze(connection: sa.Connection, dataset_id: str, event: Frozen, at: str) -> None:
    """A family's parts are on one ledger, which is frozen once."""
    if _state(connection, dataset_id).frozen != event.is_frozen:
        ledger.apply(connection, dataset_id, event, at)


def _state(connection: sa.Connection, dataset_id: str) -> LedgerState:
    found = ledger.load_state(connection, dataset_id)
    assert found is not None
    return found


def _emptied(connection: sa.Connection, parts: list[DatasetRow], steward: Principal, at: str) -> DatasetRow:
    """The first part's row. Withdrawn, its values may come again under a new budget: so only if no part was charged."""
    for job in (job for part in parts for job in jobs.unfinished(connection, part.id)):
        job_service.stop(connection, job, at)
    states = [_state(connection, part.id) for part in parts]
    data: store.Data = "deleted" if any(state.is_charged for state in states) else "withdrawn"
    for part in parts:
        if part.data == "stored":
            ledger.apply(connection, part.id, Emptied(part.id, data == "withdrawn", steward.name), at)
            store.empty(connection, part.id, data)
    return replace(parts[0], state=states[0], data=data)


def _promised(row: DatasetRow, change: BudgetChange) -> Filter:
    """The filter that is to be in force; the present one if that is what was asked for."""
    rule, asked = row.state.filter, change.model_dump(exclude_none=True)
    if not row.state.is_charged:
        return opened(Budget.model_validate({"filter": rule.kind} | asked), "body.budget")
    if asked.get("filter", rule.kind) != rule.kind or asked.get("slack", rule.slack) != rule.slack:
        raise ApiError("already_charged", "Filter and slack were fixed before the first charge: leave them out.")
    privacy = Privacy(change.epsilon, change.delta)
    try:
        return rule if privacy == rule.privacy else rule.raised(privacy)
    except OutOfRange as error:
        wrong = Violation(where="body.budget", what=str(error))
        raise ApiError("out_of_range", "See `violations`.", violations=[wrong]) from None
