"""Setting, reading and taking back what one analyst may spend of a dataset's budget, which its family shares."""

from collections.abc import Mapping

import sqlalchemy as sa

from accounting.records.allotments import Account, fit
from app.datasets import store
from app.datasets.grants import analyst_of, by_arrival
from app.datasets.store import DatasetRow
from app.http.errors import ApiError
from app.http.lists import Paging
from app.identity.store import Principal
from app.ledger import allotments as ledger
from app.ledger.allotments import Row
from app.persistence.session import Database
from app.persistence.tables import allotments, identities
from purse.wire.allotments import Allotment, AllotmentRequest
from purse.wire.base import Page
from purse.wire.problems import Violation


def put(database: Database, steward: Principal, dataset_id: str, named: str, asked: AllotmentRequest) -> Allotment:
    """The allotment from now on, in the place of the one that was there.

    Raises
    ------
    ApiError
        not_found; out_of_range if it is more than the budget, or nothing; overallotted if all that is reserved and
        spent would be more than the budget.
    """
    with database.write() as connection:
        store.lock(connection, dataset_id, steward)
        row = store.visible(connection, dataset_id, steward)
        analyst, budget = analyst_of(connection, named), row.state.filter.privacy
        delta = None if asked.epsilon is None else budget.delta if asked.delta is None else asked.delta
        if asked.epsilon is not None and (asked.epsilon > budget.epsilon or delta != min(delta or 0.0, budget.delta)):
            raise _wrong("must not promise more than the dataset's budget does")
        new = Row(analyst, asked.mode, asked.share, asked.epsilon, delta, steward.name, database.timestamp())
        if new.of(row.state.filter).part.top == 0:
            raise _wrong("is too little: the filter of this dataset has no such part; a share has no least epsilon")
        connection.execute(sa.delete(allotments).where(_of(row, analyst)))
        values = {name: getattr(new, name) for name in Row.__dataclass_fields__}
        connection.execute(sa.insert(allotments).values(ledger_id=row.ledger_id, **values))
        refuse_over(connection, row)
        return _found(connection, row, analyst)


def get(database: Database, steward: Principal, dataset_id: str, named: str) -> Allotment:
    """An analyst's allotment; `ApiError` not_found if there is no such dataset, analyst or allotment."""
    with database.read() as connection:
        row = store.visible(connection, dataset_id, steward)
        return _found(connection, row, analyst_of(connection, named))


def page(database: Database, steward: Principal, dataset_id: str, asked: Paging) -> Page[Allotment]:
    """The allotments of a dataset's budget, in the order in which analysts came."""
    with database.read() as connection:
        row = store.visible(connection, dataset_id, steward)
        told = described(connection, row)
        mine = sa.select(identities.c.id).where(identities.c.id.in_(told))
        found = connection.scalars(by_arrival(mine, asked)).all()
    return asked.page(Page[Allotment], found, told.__getitem__, str)


def delete(database: Database, steward: Principal, dataset_id: str, named: str) -> None:
    """From now on the analyst spends of what nobody has reserved; `ApiError` not_found, as `get`."""
    with database.write() as connection:
        store.lock(connection, dataset_id, steward)
        row = store.visible(connection, dataset_id, steward)
        analyst = analyst_of(connection, named)
        _found(connection, row, analyst)
        connection.execute(sa.delete(allotments).where(_of(row, analyst)))


def refuse_over(connection: sa.Connection, row: DatasetRow) -> None:
    """`ApiError` overallotted if what is reserved and what is spent beside it are more than the budget."""
    said = ledger.rows(connection, row.ledger_id)
    allotted = {name: one.of(row.state.filter) for name, one in said.items()}
    reserved = any(one.is_reserved for one in allotted.values())
    if reserved and not fit(row.state, ledger.accounts(connection, row.ledger_id), allotted):
        raise ApiError("overallotted")


def described(connection: sa.Connection, row: DatasetRow) -> Mapping[str, Allotment]:
    """The allotments of a dataset's budget as they stand, by identity."""
    said = ledger.rows(connection, row.ledger_id)
    if not said:
        return {}
    spent = ledger.accounts(connection, row.ledger_id)
    who = sa.select(identities.c.id, identities.c.name).where(identities.c.id.in_(said))
    names = {found.id: found.name for found in connection.execute(who)}
    nothing = Account(row.state.filter.zero_cost, 0)
    return {name: _told(row, names[name], one, spent.get(name, nothing)) for name, one in said.items()}


def _told(row: DatasetRow, name: str, said: Row, account: Account) -> Allotment:
    rule = row.state.filter
    part = said.of(rule).part
    delta = rule.privacy.delta if said.delta is None else said.delta
    return Allotment(
        analyst=name,
        identity=said.identity_id,
        mode=said.mode,
        share=part.share,
        epsilon=part.epsilon(delta),
        delta=delta,
        used=part.used(account.spent),
        set_by=said.set_by,
        set_at=said.set_at,
    )


def _found(connection: sa.Connection, row: DatasetRow, analyst: str) -> Allotment:
    found = described(connection, row).get(analyst)
    if found is None:
        raise ApiError("not_found", "This analyst has no allotment of this dataset's budget.")
    return found


def _of(row: DatasetRow, analyst: str) -> sa.ColumnElement[bool]:
    return (allotments.c.ledger_id == row.ledger_id) & (allotments.c.identity_id == analyst)


def _wrong(what: str) -> ApiError:
    return ApiError("out_of_range", "See `violations`.", violations=[Violation(where="body", what=what)])
