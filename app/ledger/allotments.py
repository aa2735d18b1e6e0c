"""Allotments and spending in the database, and the state of a ledger for one analyst.

Every function works inside the caller's transaction.
"""

import json
from dataclasses import dataclass

import sqlalchemy as sa

from accounting.errors import LedgerInvalid
from accounting.filter import Cost, Filter
from accounting.privacy import Privacy
from accounting.records.allotments import Account, Allotment, Part, Standing, largest_part, standing
from accounting.records.documents import canonical_text
from accounting.records.filters import cost_from_json, cost_to_json
from accounting.records.ledger import LedgerState
from app.identity.store import Principal
from app.persistence.tables import allotments, analyst_spend
from purse.wire.allotments import Mode

_OF_LEDGER = sa.select(*(column for column in allotments.c if column.name != "ledger_id")).where(
    allotments.c.ledger_id == sa.bindparam("ledger")
)

# Statements of every charge, built once.
_OWN = (analyst_spend.c.ledger_id == sa.bindparam("ledger")) & (analyst_spend.c.owner_id == sa.bindparam("owner"))
_SPENT = sa.select(analyst_spend.c.charges, analyst_spend.c.spent).where(_OWN)
_SPENDS = sa.update(analyst_spend).where(_OWN).values(charges=sa.bindparam("charges"), spent=sa.bindparam("spent"))


@dataclass(frozen=True, slots=True)
class AllotmentRow:
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


def rows(connection: sa.Connection, ledger_id: str) -> dict[str, AllotmentRow]:
    """Return the allotments of a ledger, by identity."""
    return {
        row.identity_id: AllotmentRow(**row._mapping) for row in connection.execute(_OF_LEDGER, {"ledger": ledger_id})
    }


def accounts(connection: sa.Connection, ledger_id: str) -> dict[str, Account]:
    """Return the spending on a ledger, by identity."""
    query = sa.select(analyst_spend).where(analyst_spend.c.ledger_id == ledger_id)
    return {
        row.owner_id: Account(cost_from_json(json.loads(row.spent)), row.charges) for row in connection.execute(query)
    }


def stands(connection: sa.Connection, ledger_id: str, state: LedgerState, identity_id: str) -> Standing:
    """Return the state of the ledger for an identity; the whole ledger if nothing is allotted."""
    allotted = {name: row.of(state.filter) for name, row in rows(connection, ledger_id).items()}
    if not allotted:
        return Standing(state)
    return standing(state, accounts(connection, ledger_id), allotted, identity_id)


def seen_by(connection: sa.Connection, ledger_id: str, state: LedgerState, principal: Principal) -> Standing:
    """Return the ledger as a principal may see it: for stewards and auditors the whole ledger."""
    return stands(connection, ledger_id, state, principal.id) if principal.role == "analyst" else Standing(state)


def add_spending(connection: sa.Connection, ledger_id: str, owner_id: str | None, charges: int, cost: Cost) -> None:
    """Add a charge, or a refund as a negative cost, to the spending of its owner on a ledger.

    Parameters
    ----------
    charges : change of the number of charges
    """
    if owner_id is None:
        raise ValueError("owner_id is missing: a charge or refund needs the identity of its owner")
    mine = {"ledger": ledger_id, "owner": owner_id}
    row = connection.execute(_SPENT, mine).one_or_none()
    if row is None:
        if min(cost) < 0:
            raise LedgerInvalid("the refund does not match a live charge of this analyst")
        values = {"charges": charges, "spent": canonical_text(cost_to_json(cost))}
        connection.execute(sa.insert(analyst_spend).values(ledger_id=ledger_id, owner_id=owner_id, **values))
        return
    total = tuple(a + b for a, b in zip(cost_from_json(json.loads(row.spent)), cost, strict=True))
    if row.charges + charges == 0:  # the filter of a ledger without charges may change, and its currency with it
        connection.execute(sa.delete(analyst_spend).where(_OWN), mine)
        return
    sums = {"charges": row.charges + charges, "spent": canonical_text(cost_to_json(total))}
    connection.execute(_SPENDS, mine | sums)
