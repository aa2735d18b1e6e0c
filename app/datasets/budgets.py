"""The state of a dataset's budget, with a cache for callers who poll it.

Cached answers are never shared between callers. An answer is reused if all stored facts that it was computed from are
unchanged; nothing else of the ledger is compared, so that the time of an answer reveals no more than the answer. If a
part of the budget is reserved, an analyst's answer is always computed again.
"""

import json
from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from accounting.records.allotments import Account, Standing
from accounting.records.ledger import spent_epsilon
from app.datasets import allotments as parts
from app.datasets import store
from app.datasets.store import DatasetRow
from app.http.rates import Recent
from app.http.work import in_turn
from app.identity import store as identity
from app.identity.store import Principal
from app.ledger import allotments as allotted
from app.ledger import store as ledger
from app.persistence.session import Database
from app.persistence.tables import PROMISES, allotments, analyst_spend, datasets, ledger_entries, ledgers
from purse.wire.allotments import Allotment
from purse.wire.budgets import AnalystSpend, BudgetStatus, PrivacyLoss, Promise
from purse.wire.neighbors import between

_MOST_CACHED_ANSWERS = 4096
_ANALYST, _MODE = 4, 5  # positions in a row of `_FACTS`: an allotment begins with its analyst and its mode
_NOT_SHOWN = ("sequence", "head")  # fields of a ledger's state that change with other analysts' jobs


class BudgetAnswers:
    """The last answer to each caller about each dataset."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._recent = Recent[tuple[object, bytes]](_MOST_CACHED_ANSWERS)

    async def budget(self, dataset_id: str, principal: Principal) -> bytes:
        """Return the present state of the budget as JSON; `ApiError` not_found. Each call checks the grant."""
        key = f"{principal.id} {principal.role} {dataset_id}"
        cached = self._recent.get(key)
        if cached is not None:
            rows = await self._database.ask(*_query(dataset_id, principal))
            if cached[0] == _facts(rows, principal):
                return cached[1]
        facts, answer = await in_turn(_answer, self._database, dataset_id, principal)
        if facts is not None:
            self._recent.put(key, (facts, answer))
        return answer


def _statement() -> sa.Select[Any]:
    """Return the query of a row for each allotment of a dataset's ledger, or of one row without allotments."""
    owner = analyst_spend.c.owner_id == sa.bindparam("principal")
    entries = ledger_entries.c.ledger_id == ledgers.c.id
    promised = sa.select(sa.func.max(ledger_entries.c.sequence)).where(entries, PROMISES)
    allotment = [column for column in allotments.c if column.name != "ledger_id"]
    columns = (ledgers.c.state, analyst_spend.c.spent, analyst_spend.c.charges, promised.scalar_subquery(), *allotment)
    own = (analyst_spend.c.ledger_id == ledgers.c.id) & owner
    tables = sa.join(datasets, ledgers).outerjoin(analyst_spend, own)
    tables = tables.outerjoin(allotments, allotments.c.ledger_id == ledgers.c.id)
    query = sa.select(*columns).select_from(tables).order_by(allotments.c.identity_id)
    return query.where(datasets.c.id == sa.bindparam("dataset"), store.THERE)


_FACTS = _statement()
_GRANTED_FACTS = _FACTS.where(store.by_grant(sa.bindparam("principal"), datasets.c.id))


def _query(dataset_id: str, principal: Principal) -> tuple[sa.Select[Any], dict[str, str]]:
    query = _GRANTED_FACTS if principal.role == "analyst" and not principal.datasets else _FACTS
    return query, {"dataset": dataset_id, "principal": principal.id}


def _answer(database: Database, dataset_id: str, principal: Principal) -> tuple[object, bytes]:
    """Return an answer and the facts that it was computed from, of one snapshot."""
    with database.read() as connection:
        facts = _facts(connection.execute(*_query(dataset_id, principal)).all(), principal)
        budget = status(connection, store.visible(connection, dataset_id, principal), principal)
    return facts, budget.model_dump_json().encode()


def _facts(rows: Sequence[Sequence[Any]], principal: Principal) -> object:
    """Return the stored facts that an answer is computed from; None if it may not be cached. `ApiError` not_found."""
    if principal.datasets:  # granted by groups, which only `visible` checks
        return None
    if not rows:
        raise store.absent()
    if principal.role != "analyst":
        return [tuple(row) for row in rows]
    if any(row[_MODE] == "reserved" for row in rows):
        return None
    state, *own = rows[0][:_ANALYST]
    allotment = [row[_ANALYST:] for row in rows if row[_ANALYST] == principal.id]
    return _shown(state), own, allotment


def _shown(state: str) -> object:
    """Return what an analyst's answer shows of a stored state; the text itself if it cannot be read."""
    try:
        return {name: value for name, value in json.loads(state).items() if name not in _NOT_SHOWN}
    except (AttributeError, ValueError):
        return state


def status(connection: sa.Connection, row: DatasetRow, principal: Principal) -> BudgetStatus:
    """Return the state of the budget as the principal may see it: an analyst does not see other analysts' parts."""
    state = row.state
    promise = state.filter.privacy
    standing = allotted.seen_by(connection, row.ledger_id, state, principal)
    return BudgetStatus(
        epsilon=standing.epsilon,
        delta=promise.delta,
        **between(row.spec.neighbors, standing.epsilon, promise.delta),
        unit=row.spec.protected,
        filter=state.filter.kind,
        share=standing.share(standing.account.spent),
        spent=PrivacyLoss(epsilon=standing.spent_epsilon(), delta=promise.delta),
        remaining=PrivacyLoss(epsilon=standing.remaining_epsilon(), delta=promise.delta),
        jobs=standing.account.charges,
        promises=[
            Promise(epsilon=made.epsilon, delta=made.delta, since=since)
            for made, since in ledger.promises(connection, row.id)
        ],
        frozen=state.frozen,
        exceeded=state.is_exceeded,
        analysts=_analysts(connection, row, principal, standing),
    )


def _analysts(
    connection: sa.Connection, row: DatasetRow, principal: Principal, standing: Standing
) -> list[AnalystSpend]:
    """Return the spending and allotment of each analyst; to an analyst, of that analyst alone."""
    spent = allotted.accounts(connection, row.ledger_id)
    accounts = {id_: account for id_, account in spent.items() if account.charges}
    limits = parts.described(connection, row)
    nothing = Account(row.state.filter.zero_cost, 0)
    return [
        _spent(standing, name, accounts.get(id_, nothing), limits.get(id_))
        for id_, name in identity.names(connection, {*accounts, *limits}).items()
        if principal.role != "analyst" or id_ == principal.id
    ]


def _spent(standing: Standing, analyst: str, account: Account, allotment: Allotment | None) -> AnalystSpend:
    """Return one analyst's spending. A charge that took the whole budget is the only charge of the ledger."""
    state, part = standing.state, standing.share(account.spent)
    epsilon = spent_epsilon(state) if state.whole else state.filter.spent_epsilon(account.spent)
    loss = PrivacyLoss(epsilon=min(epsilon, standing.epsilon), delta=state.filter.privacy.delta)
    return AnalystSpend(analyst=analyst, jobs=account.charges, share=part, spent=loss, allotment=allotment)
