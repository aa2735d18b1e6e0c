"""Allotments in the database, and the state of a ledger for one analyst.

Every function works inside the caller's transaction.
"""

import json
from dataclasses import dataclass

import sqlalchemy as sa

from accounting.filter import Filter
from accounting.privacy import Privacy
from accounting.records.allotments import Account, Allotment, Part, Standing, largest_part, standing
from accounting.records.filters import cost_from_json
from accounting.records.ledger import LedgerState
from app.persistence.tables import allotments, analyst_spend
from purse.wire.allotments import Mode

_OF_LEDGER = sa.select(*(column for column in allotments.c if column.name != "ledger_id")).where(
    allotments.c.ledger_id == sa.bindparam("ledger")
)


@dataclass(frozen=True, slots=True)
class Row:
    """An allotment as a steward set it: a share of the budget, or an epsilon and delta."""

    identity_id: str
    mode: Mode
    share: float | None
    epsilon: float | None
    delta: float | None
    set_by: str
    set_at: str

    def of(self, rule: Filter) -> Allotment:
        """Return the allotment in the currency of a filter."""
        if self.epsilon is not None and self.delta is not None:
            part = largest_part(rule, Privacy(self.epsilon, self.delta))
        else:
            part = Part.of(rule, self.share or 0.0)
        return Allotment(part, self.mode == "reserved")


def rows(connection: sa.Connection, ledger_id: str) -> dict[str, Row]:
    """Return the allotments of a ledger, by identity."""
    return {row.identity_id: Row(**row._mapping) for row in connection.execute(_OF_LEDGER, {"ledger": ledger_id})}


def accounts(connection: sa.Connection, ledger_id: str) -> dict[str, Account]:
    """Return the spending on a ledger, by identity."""
    query = sa.select(analyst_spend).where(analyst_spend.c.ledger_id == ledger_id)
    return {
        row.owner_id: Account(cost_from_json(json.loads(row.spent)), row.charges) for row in connection.execute(query)
    }


def stands(connection: sa.Connection, ledger_id: str, state: LedgerState, who: str | None) -> Standing:
    """Return the state of the ledger for an identity; the whole ledger if nothing is allotted."""
    allotted = {name: row.of(state.filter) for name, row in rows(connection, ledger_id).items()}
    if not allotted:
        return Standing(state)
    return standing(state, accounts(connection, ledger_id), allotted, who or "")
