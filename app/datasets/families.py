"""Families: the datasets of the same people spend one budget, on one ledger."""

import sqlalchemy as sa

from app.http.errors import ApiError
from app.ledger import store as ledger
from app.wire.datasets import DatasetSpec


def find(connection: sa.Connection, spec: DatasetSpec) -> str | None:
    """The ledger that a new dataset joins; None if it opens its own. `ApiError` family_mismatch if it says otherwise.

    What a family has promised is said again by each of its datasets, in the same words.
    """
    ledger_id = ledger.of_family(connection, spec.family)
    if ledger_id is None:
        return None
    state = ledger.load_state(connection, ledger_id)
    assert state is not None
    rule, asked = state.filter, spec.budget
    promised = (rule.kind, rule.privacy.epsilon, rule.privacy.delta, rule.slack)
    if promised != (asked.filter, asked.epsilon, asked.delta, rule.slack if asked.slack is None else asked.slack):
        raise ApiError("family_mismatch", f"The family's budget is {_said(*promised)}: state it as it is.")
    return ledger_id


def _said(kind: str, epsilon: float, delta: float, slack: float) -> str:
    return f"epsilon {epsilon!r}, delta {delta!r}, filter {kind!r}" + (f", slack {slack!r}" if slack else "")
