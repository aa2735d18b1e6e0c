"""Families: datasets about the same people, which share one budget on one ledger."""

import sqlalchemy as sa

from app.http.errors import ApiError
from app.ledger import store as ledger
from purse.wire.datasets import DatasetSpec


def find(connection: sa.Connection, spec: DatasetSpec) -> str | None:
    """Return the id of the ledger that a new dataset joins, or None if it opens its own.

    Raises
    ------
    ApiError
        family_mismatch if the declaration does not state the family's neighbors, budget and unit.
    """
    ledger_id = ledger.of_family(connection, spec.family)
    if ledger_id is None:
        return None
    opened = ledger.registration(connection, ledger_id)
    if spec.neighbors != opened.neighbors:
        raise ApiError("family_mismatch", f"This family has neighbors {opened.neighbors!r}. Declare the same.")
    rule, budget = ledger.load_state(connection, ledger_id).filter, spec.budget
    promised = (rule.kind, rule.privacy.epsilon, rule.privacy.delta, rule.slack)
    if promised != (budget.filter, budget.epsilon, budget.delta, rule.slack if budget.slack is None else budget.slack):
        raise ApiError("family_mismatch", f"This family's budget is {_stated(*promised)}. Declare the same.")
    if spec.protected != opened.unit:
        raise ApiError("family_mismatch", f"This family's budget protects {opened.unit}. Declare the same unit.")
    return ledger_id


def _stated(kind: str, epsilon: float, delta: float, slack: float) -> str:
    return f"epsilon {epsilon!r}, delta {delta!r}, filter {kind!r}" + (f", slack {slack!r}" if slack else "")
