"""Grants: to an analyst without one a dataset is as one that is not there.

Whatever an analyst asks of datasets is asked with `granted` in the same query, so that what is absent and what is not
granted are one case, in answers and in their times.
"""

from typing import Any

import sqlalchemy as sa

from app.datasets import store
from app.http.errors import ApiError, invalid
from app.http.lists import Paging
from app.identity import store as identity
from app.identity.store import Principal
from app.ledger import store as ledger
from app.persistence.session import Database
from app.persistence.tables import grants, identities
from purse.wire.base import Page
from purse.wire.grants import Grant


def give(database: Database, steward: Principal, dataset_id: str, named: str) -> Grant:
    """The grant, there from now on; one that was there stays as it was. `ApiError` not_found, as `get`."""
    with database.write() as connection:
        ledger.lock(connection, store.whole(dataset_id))
        parts, analyst = _parts(connection, dataset_id), analyst_of(connection, named)
        if _one(connection, dataset_id, analyst) is None:
            by = {"granted_by": steward.name, "granted_at": database.timestamp()}
            for part in parts:
                connection.execute(sa.insert(grants).values(dataset_id=part, identity_id=analyst, **by))
        return _found(connection, dataset_id, analyst)


def get(database: Database, dataset_id: str, named: str) -> Grant:
    """An analyst's grant; `ApiError` not_found if there is no such dataset, analyst or grant."""
    with database.read() as connection:
        _exists(connection, dataset_id)
        return _found(connection, dataset_id, analyst_of(connection, named))


def page(database: Database, dataset_id: str, asked: Paging) -> Page[Grant]:
    """A dataset's grants, in the order in which analysts came: cursors are their identities, which nobody deletes."""
    with database.read() as connection:
        _exists(connection, dataset_id)
        found = connection.execute(by_arrival(_grants(dataset_id), asked)).all()
    return asked.page(Page[Grant], found, lambda row: Grant(**row._mapping), lambda row: row.identity)


def by_arrival(query: sa.Select[Any], asked: Paging) -> sa.Select[Any]:
    """A page of what is selected with `identities`, in the order in which these came."""
    by = (identities.c.created_at, identities.c.id)
    return asked.of(query, *by, at=sa.select(*by).where(identities.c.id == asked.cursor))


def revoke(database: Database, dataset_id: str, named: str) -> None:
    """From now on the dataset is not there for the analyst, whose own jobs remain; `ApiError` not_found, as `get`."""
    with database.write() as connection:
        ledger.lock(connection, store.whole(dataset_id))
        parts, analyst = _parts(connection, dataset_id), analyst_of(connection, named)
        _found(connection, dataset_id, analyst)
        connection.execute(sa.delete(grants).where(grants.c.dataset_id.in_(parts), grants.c.identity_id == analyst))


def analyst_of(connection: sa.Connection, named: str) -> str:
    """The identity of the analyst of this name or id; `ApiError` not_found."""
    found = identity.analyst(connection, named)
    if found is None:
        raise ApiError("not_found", "There is no analyst of this name or id; stewards and auditors need no grant.")
    return found


def _exists(connection: sa.Connection, dataset_id: str) -> None:
    if store.get(connection, dataset_id) is None:
        raise ApiError("not_found", "There is no dataset of this id.")


def _parts(connection: sa.Connection, dataset_id: str) -> list[str]:
    """The dataset and its kept-out part, which go together; `ApiError` for that part alone."""
    row = store.get(connection, dataset_id)
    if row is None:
        raise ApiError("not_found", "There is no dataset of this id.")
    if row.holdout_of is not None:
        raise invalid(
            [{"type": "grant", "loc": ("dataset_id",), "msg": "is a kept-out part: name its dataset"}], "path"
        )
    return [part.id for part in store.parts(connection, row)]


def _found(connection: sa.Connection, dataset_id: str, analyst: str) -> Grant:
    found = _one(connection, dataset_id, analyst)
    if found is None:
        raise ApiError("not_found", "This analyst has no grant on this dataset.")
    return found


def _one(connection: sa.Connection, dataset_id: str, analyst: str) -> Grant | None:
    row = connection.execute(_grants(dataset_id).where(grants.c.identity_id == analyst)).one_or_none()
    return None if row is None else Grant(**row._mapping)


def _grants(dataset_id: str) -> sa.Select[tuple[str, str, str, str]]:
    who = (identities.c.name.label("analyst"), identities.c.id.label("identity"))
    query = sa.select(*who, grants.c.granted_by, grants.c.granted_at).join_from(grants, identities)
    return query.where(grants.c.dataset_id == dataset_id)
