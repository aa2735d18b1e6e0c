"""Families: the datasets of the same people spend one budget, on one ledger."""

import sqlalchemy as sa

from accounting.privacy import Unit
from accounting.records.entries import event_of
from accounting.records.events import Opened
from app.http.errors import ApiError
from app.ledger import store as ledger
from purse.wire.datasets import DatasetSpec


def find(connection: sa.Connection, spec: DatasetSpec) -> str | None:
    """The ledger that a new dataset joins; None if it opens its own. `ApiError` family_mismatch if it says otherwise.

    What a family has promised is said again by each of its datasets, in the same words.
    """
    ledger_id = ledger.of_family(connection, spec.family)
    if ledger_id is None:
        return None
    state = ledger.load_state(connection, ledger_id)
    assert state is not None
    neighbors = ledger.neighbors(connection, ledger_id)
    if spec.neighbors != neighbors:
        raise ApiError("family_mismatch", f"The family's neighbors are those of {neighbors}: state them as they are.")
    rule, asked = state.filter, spec.budget
    promised = (rule.kind, rule.privacy.epsilon, rule.privacy.delta, rule.slack)
    if promised != (asked.filter, asked.epsilon, asked.delta, rule.slack if asked.slack is None else asked.slack):
        raise ApiError("family_mismatch", f"The family's budget is {_said(*promised)}: state it as it is.")
    opened = event_of(ledger.entries(connection, ledger_id, 0, 1)[0])
    unit = (opened.unit if isinstance(opened, Opened) else None) or Unit()
    if unit != spec.protected:
        raise ApiError("family_mismatch", f"The family's budget protects {unit}: state the unit as it is.")
    return ledger_id


def _said(kind: str, epsilon: float, delta: float, slack: float) -> str:
    return f"epsilon {epsilon!r}, delta {delta!r}, filter {kind!r}" + (f", slack {slack!r}" if slack else "")
