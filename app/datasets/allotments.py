"""Allotments: the part of a dataset's budget, which its family shares, that one analyst may spend."""

from collections.abc import Mapping

import sqlalchemy as sa

from accounting.records.allotments import Account, reservations_fit
from app.datasets import store
from app.datasets.grants import analyst_of
from app.datasets.store import DatasetRow
from app.http.errors import ApiError, invalid_field
from app.http.lists import Paging
from app.identity import store as identity
from app.identity.store import Principal
from app.ledger import allotments as ledger
from app.ledger.allotments import AllotmentRow
from app.persistence.session import Database
from app.persistence.tables import allotments, identities
from purse.wire.allotments import Allotment, AllotmentRequest
from purse.wire.base import Page


def put(database: Database, steward: Principal, dataset_id: str, name_or_id: str, body: AllotmentRequest) -> Allotment:
    """Set an analyst's allotment, instead of an earlier one.

    Raises
    ------
    ApiError
        not_found; out_of_range if it exceeds the budget or is empty; overallotted if all reservations and spending
        would exceed the budget.
    """
    with database.write() as connection:
        store.lock(connection, dataset_id, steward)
        row = store.visible(connection, dataset_id, steward)
        analyst, budget = analyst_of(connection, name_or_id), row.state.filter.privacy
        delta = None if body.epsilon is None else budget.delta if body.delta is None else body.delta
        if body.epsilon is not None and (body.epsilon > budget.epsilon or delta != min(delta or 0.0, budget.delta)):
            raise invalid_field("body", "must not exceed the dataset's budget in epsilon or delta", "out_of_range")
        new = AllotmentRow(analyst, body.mode, body.share, body.epsilon, delta, steward.name, database.timestamp())
        if new.of(row.state.filter).part.top == 0:
            reason = "is too small for the filter of this dataset: state a `share`, or a larger epsilon"
            raise invalid_field("body", reason, "out_of_range")
        connection.execute(sa.delete(allotments).where(_of(row, analyst)))
        values = {name: getattr(new, name) for name in AllotmentRow.__dataclass_fields__}
        connection.execute(sa.insert(allotments).values(ledger_id=row.ledger_id, **values))
        refuse_over(connection, row)
        return _existing(connection, row, analyst)


def get(database: Database, steward: Principal, dataset_id: str, name_or_id: str) -> Allotment:
    """Return an analyst's allotment. Raise `ApiError` not_found if the dataset, analyst or allotment does not exist."""
    with database.read() as connection:
        row = store.visible(connection, dataset_id, steward)
        return _existing(connection, row, analyst_of(connection, name_or_id))


def page(database: Database, steward: Principal, dataset_id: str, paging: Paging) -> Page[Allotment]:
    """Return a page of the allotments of a dataset's budget, ordered by the creation of the analysts."""
    with database.read() as connection:
        row = store.visible(connection, dataset_id, steward)
        allotted = described(connection, row)
        analysts = sa.select(identities.c.id).where(identities.c.id.in_(allotted))
        ids = connection.scalars(paging.by_creation(analysts, identities)).all()
    return paging.page(Page[Allotment], ids, allotted.__getitem__, str)


def delete(database: Database, steward: Principal, dataset_id: str, name_or_id: str) -> None:
    """Remove an analyst's allotment. Raise `ApiError` not_found, as `get`."""
    with database.write() as connection:
        store.lock(connection, dataset_id, steward)
        row = store.visible(connection, dataset_id, steward)
        analyst = analyst_of(connection, name_or_id)
        _existing(connection, row, analyst)
        connection.execute(sa.delete(allotments).where(_of(row, analyst)))


def refuse_over(connection: sa.Connection, row: DatasetRow) -> None:
    """Raise an `ApiError` overallotted if reservations and the spending outside them exceed the budget."""
    stored = ledger.rows(connection, row.ledger_id)
    allotted = {name: allotment.of(row.state.filter) for name, allotment in stored.items()}
    has_reservations = any(allotment.is_reserved for allotment in allotted.values())
    if has_reservations and not reservations_fit(row.state, ledger.accounts(connection, row.ledger_id), allotted):
        raise ApiError("overallotted")


def described(connection: sa.Connection, row: DatasetRow) -> Mapping[str, Allotment]:
    """Return the allotments of a dataset's budget, with their use, by identity."""
    stored = ledger.rows(connection, row.ledger_id)
    if not stored:
        return {}
    spent = ledger.accounts(connection, row.ledger_id)
    names = identity.names(connection, stored)
    nothing = Account(row.state.filter.zero_cost, 0)
    return {id_: _described(row, names[id_], allotment, spent.get(id_, nothing)) for id_, allotment in stored.items()}


def _described(row: DatasetRow, name: str, stored: AllotmentRow, account: Account) -> Allotment:
    rule = row.state.filter
    part = stored.of(rule).part
    delta = rule.privacy.delta if stored.delta is None else stored.delta
    return Allotment(
        analyst=name,
        identity=stored.identity_id,
        mode=stored.mode,
        share=part.share,
        epsilon=part.epsilon(delta),
        delta=delta,
        used=part.used(account.spent),
        set_by=stored.set_by,
        set_at=stored.set_at,
    )


def _existing(connection: sa.Connection, row: DatasetRow, analyst: str) -> Allotment:
    allotment = described(connection, row).get(analyst)
    if allotment is None:
        raise ApiError("not_found", "This analyst has no allotment of this dataset's budget.")
    return allotment


def _of(row: DatasetRow, analyst: str) -> sa.ColumnElement[bool]:
    return (allotments.c.ledger_id == row.ledger_id) & (allotments.c.identity_id == analyst)
