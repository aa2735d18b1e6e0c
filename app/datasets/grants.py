"""Grants: an analyst without a grant cannot see that a dataset exists.

Every query for an analyst contains the condition `store.granted`. A dataset without a grant and one that does not exist
are therefore the same case, in the answer and in its time.
"""

import sqlalchemy as sa

from app.datasets import store
from app.http.errors import ApiError, invalid_field
from app.http.lists import Paging
from app.identity import store as identity
from app.identity.store import Principal
from app.ledger import store as ledger
from app.persistence.session import Database
from app.persistence.tables import grants, identities
from purse.wire.base import Page
from purse.wire.grants import Grant


def give(database: Database, steward: Principal, dataset_id: str, name_or_id: str) -> Grant:
    """Grant a dataset to an analyst; an existing grant stays as it is. `ApiError` not_found, as `get`."""
    with database.write() as connection:
        ledger.lock(connection, store.whole(dataset_id))
        parts = _parts(connection, dataset_id)
        analyst = analyst_of(connection, name_or_id)
        if _stored_grant(connection, dataset_id, analyst) is None:
            by = {"granted_by": steward.name, "granted_at": database.timestamp()}
            for part in parts:
                connection.execute(sa.insert(grants).values(dataset_id=part, identity_id=analyst, **by))
        return _existing(connection, dataset_id, analyst)


def get(database: Database, dataset_id: str, name_or_id: str) -> Grant:
    """Return an analyst's grant. Raise `ApiError` not_found if the dataset, analyst or grant does not exist."""
    with database.read() as connection:
        _exists(connection, dataset_id)
        return _existing(connection, dataset_id, analyst_of(connection, name_or_id))


def page(database: Database, dataset_id: str, paging: Paging) -> Page[Grant]:
    """Return a page of a dataset's grants. Cursors are the analysts' identities, which are never deleted."""
    with database.read() as connection:
        _exists(connection, dataset_id)
        rows = connection.execute(paging.by_creation(_grants(dataset_id), identities)).all()
    return paging.page(Page[Grant], rows, lambda row: Grant(**row._mapping), lambda row: row.identity)


def revoke(database: Database, dataset_id: str, name_or_id: str) -> None:
    """Hide the dataset from the analyst, whose own jobs remain. Raise `ApiError` not_found, as `get`."""
    with database.write() as connection:
        ledger.lock(connection, store.whole(dataset_id))
        parts = _parts(connection, dataset_id)
        analyst = analyst_of(connection, name_or_id)
        _existing(connection, dataset_id, analyst)
        connection.execute(sa.delete(grants).where(grants.c.dataset_id.in_(parts), grants.c.identity_id == analyst))


def analyst_of(connection: sa.Connection, name_or_id: str) -> str:
    """Return the identity of the analyst with this name or id. Raise `ApiError` not_found."""
    analyst = identity.analyst(connection, name_or_id)
    if analyst is None:
        raise ApiError(
            "not_found",
            "No analyst has this name or id. First create a token for the analyst. Other roles need no grant.",
        )
    return analyst


def _exists(connection: sa.Connection, dataset_id: str) -> None:
    if store.get(connection, dataset_id) is None:
        raise store.absent()


def _parts(connection: sa.Connection, dataset_id: str) -> list[str]:
    """Return the ids of the dataset and its holdout set. Raise an `ApiError` for a holdout set."""
    row = store.get(connection, dataset_id)
    if row is None:
        raise store.absent()
    if row.holdout_of is not None:
        raise invalid_field("path.dataset_id", "is a holdout set. State its dataset, whose grants it has")
    return [part.id for part in store.parts(connection, row)]


def _existing(connection: sa.Connection, dataset_id: str, analyst: str) -> Grant:
    grant = _stored_grant(connection, dataset_id, analyst)
    if grant is None:
        raise ApiError("not_found", "This analyst has no grant on this dataset.")
    return grant


def _stored_grant(connection: sa.Connection, dataset_id: str, analyst: str) -> Grant | None:
    row = connection.execute(_grants(dataset_id).where(grants.c.identity_id == analyst)).one_or_none()
    return None if row is None else Grant(**row._mapping)


def _grants(dataset_id: str) -> sa.Select[tuple[str, str, str, str]]:
    analyst = (identities.c.name.label("analyst"), identities.c.id.label("identity"))
    query = sa.select(*analyst, grants.c.granted_by, grants.c.granted_at).join_from(grants, identities)
    return query.where(grants.c.dataset_id == dataset_id)
