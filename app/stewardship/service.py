"""Changes to a dataset after its registration. Every change is an entry of its ledger that names the steward.

While nothing is charged, the name and the budget can change, or the dataset can be withdrawn and registered again.
After the first charge a budget may only grow, which is a new promise. Values can be deleted, but never the ledger. The
rule for sessions may change at any time, and open sessions keep theirs.
"""

from dataclasses import replace

import sqlalchemy as sa

from accounting.errors import OutOfRange
from accounting.filter import Filter
from accounting.privacy import Privacy
from accounting.records.events import Emptied, Frozen, Promised, Renamed, SessionRule
from app.datasets import allotments, folders, store
from app.datasets.service import described, opened
from app.datasets.store import DatasetRow
from app.http.errors import ApiError, invalid_field
from app.identity.store import Principal
from app.jobs import service as job_service
from app.jobs import store as jobs
from app.ledger import store as ledger
from app.persistence.session import Database
from app.sessions import service as sessions
from app.settings import Settings
from app.sources.errors import StorageUnreachable
from purse.wire.budgets import Budget, BudgetChange
from purse.wire.datasets import Amendment, Dataset

_PRESENT = ("stored", "elsewhere")  # datasets that are neither deleted nor withdrawn


def amend(database: Database, steward: Principal, dataset_id: str, change: Amendment) -> Dataset:
    """Make all requested changes, or none.

    Raises
    ------
    ApiError
        not_found; name_taken; already_charged for changes that need an uncharged ledger; out_of_range or overallotted
        for the budget.
    """
    with database.write(alone="names") as connection:
        ledger.lock(connection, store.whole(dataset_id))
        row = store.visible(connection, dataset_id, steward)
        at = database.timestamp()
        if change.name is not None and change.name != row.name:
            if row.state.is_charged:
                raise ApiError("already_charged", "Receipts state the name: it cannot change after the first charge.")
            store.rename(connection, row, change.name)
            ledger.apply(connection, row.id, Renamed(row.id, change.name, steward.name), at)
        if change.budget is not None:
            rule = _promised(row, change.budget)
            if rule != row.state.filter:
                ledger.apply(connection, row.id, Promised(rule, steward.name), at)
                allotments.refuse_over(connection, store.visible(connection, dataset_id, steward))
        if change.sessions is not None:
            for part in store.parts(connection, row):
                if part.spec.sessions != change.sessions:
                    store.amend(connection, part.id, "sessions", change.sessions)
                    ledger.apply(connection, part.id, SessionRule(part.id, change.sessions, steward.name), at)
        if change.frozen is not None:
            # Lifting a freeze does not apply to a holdout set, which may be frozen because its budget is exceeded.
            # Datasets of one family share a ledger, which changes once.
            for part in store.parts(connection, row) if change.frozen else [row]:
                if ledger.load_state(connection, part.id).frozen != change.frozen:
                    ledger.apply(connection, part.id, Frozen(change.frozen, steward.name), at)
        return described(connection, store.visible(connection, dataset_id, steward), steward)


def erase(database: Database, settings: Settings, steward: Principal, dataset_id: str) -> Dataset:
    """End the dataset's jobs and sessions, and delete its values; withdraw the dataset if nothing is charged then.

    Queued jobs, and sessions that recorded nothing, are refunded. Others stay charged, and running jobs release
    nothing. The order is committed before the first byte is deleted. After a crash the next start completes it, or a
    repeated request.

    Raises
    ------
    ApiError
        not_found; data_elsewhere if the ledger is charged and there are no values to delete; storage_unavailable: the
        order remains, and a later start completes it.
    """
    with database.write(alone="names") as connection:
        ledger.lock(connection, store.whole(dataset_id))
        row = store.visible(connection, dataset_id, steward)
        parts = store.parts(connection, row)
        if row.data == "elsewhere" and row.state.is_charged:
            raise ApiError(
                "data_elsewhere", "The ledger is charged, so it remains. To stop spending, freeze the dataset."
            )
        if row.data in _PRESENT:
            row = _emptied(connection, parts, steward, database.timestamp())
        dataset = described(connection, row, steward)
    try:
        for part in parts:
            folders.erase(settings.home, part.folder)
    except StorageUnreachable:
        raise ApiError("storage_unavailable") from None
    return dataset


def _emptied(connection: sa.Connection, parts: list[DatasetRow], steward: Principal, at: str) -> DatasetRow:
    """Record the deletion of all parts; return the row of the first.

    The values of a withdrawn dataset may be registered again under a new budget, so no part may have been charged.
    """
    for job in (job for part in parts for job in jobs.unfinished(connection, part.id)):
        job_service.stop(connection, job, at)
    for part in parts:
        sessions.end_on(connection, part.id, at)
    states = [ledger.load_state(connection, part.id) for part in parts]
    data: store.Data = "deleted" if any(state.is_charged for state in states) else "withdrawn"
    for part in parts:
        if part.data in _PRESENT:
            ledger.apply(connection, part.id, Emptied(part.id, data == "withdrawn", steward.name), at)
            store.record_deletion(connection, part.id, data)
    return replace(parts[0], state=states[0], data=data)


def _promised(row: DatasetRow, change: BudgetChange) -> Filter:
    """Return the requested filter; the present one if nothing changes."""
    rule, requested = row.state.filter, change.model_dump(exclude_none=True)
    if not row.state.is_charged:
        return opened(Budget.model_validate({"filter": rule.kind} | requested), "body.budget")
    if requested.get("filter", rule.kind) != rule.kind or requested.get("slack", rule.slack) != rule.slack:
        raise ApiError("already_charged", "`filter` and `slack` cannot change after the first charge. Leave them out.")
    privacy = Privacy(change.epsilon, change.delta)
    try:
        return rule if privacy == rule.privacy else rule.raised(privacy)
    except OutOfRange as error:
        raise invalid_field("body.budget", str(error), "out_of_range") from None
