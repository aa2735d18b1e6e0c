"""How a dataset's budget stands, and the same again and again: who asks often is told from what they were told last.

Nobody is told from what another was told, and whether there is a last answer to tell again follows from the answer: it
is looked up by all that this caller's answer is made of and by nothing else of the ledger, so that its time tells what
the answer tells. Where a part of the budget is reserved, an analyst's answer is made anew each time.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from fastapi.concurrency import run_in_threadpool

from accounting.records.allotments import Standing
from accounting.records.ledger import spent_epsilon
from app.datasets import allotments as parts
from app.datasets import store
from app.datasets.store import DatasetRow, Spend
from app.http.conditional import tag_of
from app.http.errors import ApiError
from app.http.rates import Recent
from app.identity.store import Principal
from app.ledger import allotments as allotted
from app.ledger import store as ledger
from app.persistence.session import Database
from app.persistence.tables import PROMISES, allotments, analyst_spend, datasets, ledger_entries, ledgers
from purse.wire.allotments import Allotment
from purse.wire.datasets import AnalystSpend, BudgetStatus, PrivacyLoss, Promise
from purse.wire.neighbors import between

_MOST = 4096  # answers that are kept
_WHO, _MODE = 4, 5  # places in a row of the question: an allotment begins with whose it is, and its mode
_UNSEEN = ("sequence", "head")  # of a ledger's state: they move with others' jobs, where no charge does


@dataclass(frozen=True, slots=True)
class Answer:
    """A budget's JSON, and a digest of it: the same tag is the same bytes."""

    body: bytes
    tag: str


class Answers:
    """The last answer to each caller about each dataset of a database."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._known = Recent[tuple[object, Answer]](_MOST)

    async def budget(self, dataset_id: str, principal: Principal) -> Answer:
        """How the budget stands now; `ApiError` not_found, and whether it is one is looked up each time."""
        who = f"{principal.id} {principal.role} {dataset_id}"
        known = self._known.get(who)
        if known is not None and known[0] == _seen(await self._database.ask(*_asked(dataset_id, principal)), principal):
            return known[1]
        seen, answer = await run_in_threadpool(_made, self._database, dataset_id, principal)
        if seen is not None:
            self._known.put(who, (seen, answer))
        return answer


def _statement() -> sa.Select[Any]:
    """A row for each allotment of the ledger's, or one where nothing is allotted; none if there is no dataset."""
    asked, who = datasets.c.id == sa.bindparam("dataset"), analyst_spend.c.owner_id == sa.bindparam("who")
    of_it = ledger_entries.c.ledger_id == ledgers.c.id
    promised = sa.select(sa.func.max(ledger_entries.c.sequence)).where(of_it, PROMISES)
    part = [column for column in allotments.c if column.name != "ledger_id"]
    columns = (ledgers.c.state, analyst_spend.c.spent, analyst_spend.c.charges, promised.scalar_subquery(), *part)
    own = (analyst_spend.c.ledger_id == ledgers.c.id) & who
    found = sa.join(datasets, ledgers).outerjoin(analyst_spend, own)
    found = found.outerjoin(allotments, allotments.c.ledger_id == ledgers.c.id)
    return sa.select(*columns).select_from(found).where(asked, store.THERE).order_by(allotments.c.identity_id)


_ASKED = _statement()
_GRANTED = _ASKED.where(store.by_grant(sa.bindparam("who"), datasets.c.id))


def _asked(dataset_id: str, principal: Principal) -> tuple[sa.Select[Any], dict[str, str]]:
    question = _GRANTED if principal.role == "analyst" and not principal.datasets else _ASKED
    return question, {"dataset": dataset_id, "who": principal.id}


def _made(database: Database, dataset_id: str, principal: Principal) -> tuple[object, Answer]:
    """An answer, and all that it is made of, of one snapshot."""
    with database.read() as connection:
        seen = _seen(connection.execute(*_asked(dataset_id, principal)).all(), principal)
        found = status(connection, store.visible(connection, dataset_id, principal), principal)
    body = found.model_dump_json().encode()
    return seen, Answer(body, tag_of(body))


def _seen(rows: Sequence[Sequence[Any]], principal: Principal) -> object:
    """All that the answer is made of, as it is stored; None if the answer is to be made anew. `ApiError` not_found."""
    if principal.datasets:  # by its groups, which `visible` asks for
        return None
    if not rows:
        raise ApiError("not_found", "There is no dataset of this id.")
    if principal.role != "analyst":
        return [tuple(row) for row in rows]
    if any(row[_MODE] == "reserved" for row in rows):
        return None
    state, *own = rows[0][:_WHO]
    part = [row[_WHO:] for row in rows if row[_WHO] == principal.id]
    told = {name: part for name, part in json.loads(state).items() if name not in _UNSEEN}
    return told, own, part


def status(connection: sa.Connection, row: DatasetRow, principal: Principal) -> BudgetStatus:
    """How the budget stands, as far as the principal may know it: an analyst sees the total and no other's part."""
    state = row.state
    promise = state.filter.privacy
    standing = Standing(state)  # to who watches over it, the whole
    if principal.role == "analyst":
        standing = allotted.stands(connection, row.ledger_id, state, principal.id)
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
    """Who has spent, or may spend so much; to an analyst, the own part."""
    spent = {spend.owner_id: spend for spend in store.spends(connection, row.ledger_id)}
    said = parts.described(connection, row)
    names = {who: spend.analyst for who, spend in spent.items()} | {who: part.analyst for who, part in said.items()}
    shown = [who for who in sorted(names, key=names.__getitem__) if principal.role != "analyst" or who == principal.id]
    nothing = row.state.filter.zero_cost
    return [_spent(standing, spent.get(who) or Spend(who, names[who], 0, nothing), said.get(who)) for who in shown]


def _spent(standing: Standing, spend: Spend, allotment: Allotment | None) -> AnalystSpend:
    """One analyst's part. If one charge took the whole budget, it is the only one there is."""
    state, part = standing.state, standing.share(spend.spent)
    epsilon = spent_epsilon(state) if state.whole else state.filter.spent_epsilon(spend.spent)
    loss = PrivacyLoss(epsilon=min(epsilon, standing.epsilon), delta=state.filter.privacy.delta)
    return AnalystSpend(analyst=spend.analyst, jobs=spend.charges, share=part, spent=loss, allotment=allotment)
