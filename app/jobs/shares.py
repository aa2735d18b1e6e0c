"""The share of the budget that each job uses now, as its reader may see the budget."""

import json
from collections.abc import Collection
from contextlib import suppress

import sqlalchemy as sa

from accounting.errors import AccountingError
from accounting.records.allotments import Standing
from accounting.records.filters import cost_from_json
from accounting.records.ledger import LedgerState
from app.datasets import store as datasets
from app.identity.store import Principal
from app.jobs.store import JobRow
from app.ledger import allotments
from app.persistence.tables import datasets as dataset_table
from app.persistence.tables import ledgers


def shares(connection: sa.Connection, rows: Collection[JobRow], principal: Principal) -> dict[str, float | None]:
    """Return the share of the budget that each job uses now, by job.

    All shares of one ledger are read at its present state. They add up, together with outside charges and with what
    remains, to 1. A refunded job has share 0. The share is None if the principal cannot see the dataset, if its ledger
    cannot be read, or if the row does not hold a charge of its ledger.
    """
    standings = _standings(connection, {row.dataset_id for row in rows}, principal)
    return {row.id: _share(row, standings.get(row.dataset_id)) for row in rows}


def _share(row: JobRow, standing: Standing | None) -> float | None:
    if standing is None:
        return None
    if row.is_refunded:
        return 0.0
    try:
        return standing.share(cost_from_json(json.loads(row.charge)["cost"]))
    except (AccountingError, LookupError, TypeError, ValueError):  # the row was changed: its job fails
        return None


def _standings(connection: sa.Connection, dataset_ids: Collection[str], principal: Principal) -> dict[str, Standing]:
    """Return the ledgers of these datasets that can be read, as the principal may see them, by dataset."""
    tables = sa.join(dataset_table, ledgers)
    visible = dataset_table.c.id.in_(dataset_ids) & datasets.THERE & datasets.granted(principal, dataset_table.c.id)
    query = sa.select(dataset_table.c.id, ledgers.c.id.label("ledger"), ledgers.c.state).select_from(tables)
    rows = connection.execute(query.where(visible)).all()
    by_ledger = {}
    for ledger, document in {row.ledger: row.state for row in rows}.items():
        with suppress(ValueError):  # also of the accounting
            state = LedgerState.from_json(json.loads(document))
            by_ledger[ledger] = allotments.seen_by(connection, ledger, state, principal)
    return {row.id: by_ledger[row.ledger] for row in rows if row.ledger in by_ledger}
