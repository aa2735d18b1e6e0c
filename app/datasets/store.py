"""Datasets in the database. Every function runs inside the caller's transaction."""

import json
import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Annotated, Any, Literal

import sqlalchemy as sa
from fastapi import Query

from accounting.errors import AccountingError
from accounting.records.documents import canonical_text, parse
from accounting.records.events import Joined, Opened
from accounting.records.ledger import LedgerState
from app.http.errors import ApiError
from app.http.lists import Paging
from app.identity.store import Principal
from app.ledger import store as ledger
from app.ledger.registrations import RegistrationRow, declaration_sha256, declared
from app.persistence.tables import datasets, grants, ledgers, samples, stored_values
from purse.wire.base import Name
from purse.wire.datasets import DatasetSpec, DatasetState
from purse.wire.tokens import Role

Data = Literal["stored", "elsewhere", "deleted", "withdrawn"]
# Written as a literal: for a bound value SQLite would not use the partial index on this column.
THERE = datasets.c.data != sa.literal_column("'withdrawn'")
_NAMED = datasets.alias()
_PART = datasets.alias()
_confirmed: set[tuple[object, ...]] = set()  # states of rows that were compared with the ledger
_LOG = logging.getLogger("purse.datasets")


@dataclass(frozen=True, slots=True)
class DatasetRow:
    """A dataset: its public facts, and the state of its ledger.

    Parameters
    ----------
    n : number of records, rows or persons; public
    ledger_id : the dataset that opened its ledger: itself, or another one of its family
    folder : name of its folder, see `app.datasets.folders.path`
    data : whether the values are stored here, were never sent here, or are deleted
    checksum, is_damaged : checksum of the values as they were stored, and whether they have another one now
    holdout_of : the dataset whose holdout set this is, if it is one
    declaration : the text of `spec` as it is stored
    """

    id: str
    ledger_id: str
    name: str
    n: int
    spec: DatasetSpec
    folder: str
    state: LedgerState
    created_at: str
    data: Data = "stored"
    checksum: str | None = None
    is_damaged: bool = False
    holdout_of: str | None = None
    declaration: str = ""


def get(connection: sa.Connection, dataset_id: str) -> DatasetRow | None:
    """Return a dataset by its id, without a check of grants."""
    row = connection.execute(_statements("steward", ())[0], {"dataset": dataset_id}).one_or_none()
    return None if row is None else _dataset(row)


def visible(connection: sa.Connection, dataset_id: str, principal: Principal) -> DatasetRow:
    """Return a dataset by its id.

    Raises
    ------
    ApiError
        the same not_found if it does not exist or is not granted; dataset_damaged if it cannot be read.
    """
    query, _ = _statements(principal.role, principal.datasets)
    row = connection.execute(query, {"dataset": dataset_id, "principal": principal.id}).one_or_none()
    if row is None:
        raise absent()
    return readable(row)


def readable(row: sa.Row[Any]) -> DatasetRow:
    """Return the dataset in a row; `ApiError` dataset_damaged if its declaration or its ledger cannot be read."""
    try:
        return _dataset(row)
    except (AccountingError, ValueError):
        _LOG.error("dataset_unreadable %s", row.id)
        raise ApiError(
            "dataset_damaged",
            "The stored declaration or ledger of this dataset cannot be read. The operator must restore the database.",
        ) from None


def absent() -> ApiError:
    """Return the error of a dataset that does not exist, or is not granted."""
    return ApiError("not_found", "You can see no dataset with this id or name. Choose one from the list of datasets.")


def usable(connection: sa.Connection, dataset_id: str, principal: Principal) -> DatasetRow:
    """Return a visible dataset on which jobs may run; raise as `visible`, `refuse_without_values`, `refuse_changed`."""
    row = visible(connection, dataset_id, principal)
    refuse_without_values(row)
    refuse_changed(connection, row)
    return row


def refuse_without_values(row: DatasetRow) -> None:
    """Raise an `ApiError` data_elsewhere or dataset_deleted if the dataset's values are not stored."""
    if row.data == "elsewhere":
        raise ApiError("data_elsewhere")
    if row.data != "stored":
        raise ApiError("dataset_deleted")


def refuse_changed(connection: sa.Connection, row: DatasetRow) -> None:
    """Raise an `ApiError` dataset_damaged if a dataset's row differs from its registration in the ledger.

    An entry never changes, so it is read once for each state of the row.
    """
    try:
        digest = declaration_sha256(row.declaration, row.holdout_of)
        key = (row.id, row.ledger_id, row.folder, row.n, row.data, digest)
        if key in _confirmed:
            return
        stated = ledger.registration(connection, row.id)
        wrong = RegistrationRow(row.id, row.folder, row.n, row.declaration, row.holdout_of, row.data).differs(stated)
    except (AccountingError, ValueError) as error:
        wrong = str(error) if isinstance(error, AccountingError) else "a stored row or entry cannot be read"
    if wrong is not None:
        _LOG.error("dataset_differs_from_ledger %s", row.id)
        raise ApiError("dataset_damaged", f"Nothing was charged: {wrong}. The operator must restore the database.")
    _confirmed.add(key)


def lock(connection: sa.Connection, dataset_id: str, principal: Principal) -> None:
    """Lock the ledger of a dataset; `ApiError` not_found as `visible`.

    Nobody waits for a dataset without a grant. A grant that arrives after the lock was refused does not count.
    """
    _, locking = _statements(principal.role, principal.datasets)
    if not connection.execute(locking, {"dataset": dataset_id, "principal": principal.id}).all():
        raise absent()


def granted(principal: Principal, dataset_id: sa.ColumnElement[str]) -> sa.ColumnElement[bool]:
    """Return the condition that the principal can see this dataset.

    Stewards and auditors see every dataset. An analyst needs a grant, of the analyst or of a group. The condition
    starts from the analyst's grants, so that its time does not depend on the number of other datasets.
    """
    return _granted(principal.role, principal.datasets, sa.literal(principal.id), dataset_id)


def _granted(
    role: Role, groups: tuple[str, ...], analyst: sa.ColumnElement[str], dataset_id: sa.ColumnElement[str]
) -> sa.ColumnElement[bool]:
    if role != "analyst":
        return sa.true()
    own = by_grant(analyst, dataset_id)
    if not groups:
        return own
    named = sa.select(_NAMED.c.id).where(_NAMED.c.name.in_(groups) & (_NAMED.c.data != "withdrawn"))
    parts = sa.select(_PART.c.id).where(_PART.c.holdout_of.in_(groups) | _PART.c.holdout_of.in_(named))
    return own | dataset_id.in_(groups) | dataset_id.in_(named) | dataset_id.in_(parts)


def by_grant(analyst: sa.ColumnElement[str], dataset_id: sa.ColumnElement[str]) -> sa.ColumnElement[bool]:
    """Return the condition that the analyst has a grant of their own."""
    return dataset_id.in_(sa.select(grants.c.dataset_id).where(grants.c.identity_id == analyst))


def named(principal: Principal, name: str) -> sa.ScalarSelect[str]:
    """Return the id of the dataset with this name as a subquery; null unless the principal can see it.

    The grants are read for an unknown name too. Otherwise the name of a dataset without a grant would take longer.
    """
    is_named = (datasets.c.name == name) & THERE
    dataset_id = sa.func.coalesce(sa.select(datasets.c.id).where(is_named).scalar_subquery(), "")
    return sa.select(dataset_id).where(granted(principal, dataset_id)).scalar_subquery()


def whole(dataset_id: str) -> sa.ColumnElement[bool]:
    """Return the condition that selects a dataset and its holdout set."""
    return (datasets.c.id == dataset_id) | (datasets.c.holdout_of == dataset_id)


def holdout(connection: sa.Connection, dataset_id: str) -> str | None:
    """Return the id of a dataset's holdout set; None if it has none."""
    return connection.scalar(sa.select(datasets.c.id).where(datasets.c.holdout_of == dataset_id, THERE))


def parts(connection: sa.Connection, row: DatasetRow) -> list[DatasetRow]:
    """Return the dataset and, if it has one, its holdout set."""
    return [row, *map(_dataset, connection.execute(_rows().where(datasets.c.holdout_of == row.id)))]


@dataclass(frozen=True, slots=True)
class DatasetFilters:
    """Filters of a list of datasets. They use only facts that the reader of the list can see."""

    name: Annotated[Name | None, Query(description="Only the dataset with this name.")] = None
    family: Annotated[
        Name | None,
        Query(description="Only datasets of this family. Analysts cannot see families: an empty list."),
    ] = None
    state: Annotated[
        DatasetState | None,
        Query(description="`open` accepts jobs, `frozen` refuses jobs, and the values of `deleted` are erased."),
    ] = None

    def conditions(self, principal: Principal) -> Iterator[sa.ColumnElement[bool]]:
        """Yield the conditions that the rows of the list meet."""
        if self.name is not None:
            yield datasets.c.id == named(principal, self.name)
        if self.family is not None:
            yield sa.false() if principal.role == "analyst" else ledgers.c.family.is_not_distinct_from(self.family)
        if self.state is not None:
            frozen = ledgers.c.state.contains('"frozen":true')  # canonical JSON; one that is damaged fails no query
            yield sa.case((datasets.c.data == "deleted", "deleted"), (frozen, "frozen"), else_="open") == self.state


NO_FILTERS = DatasetFilters()


def page(
    connection: sa.Connection, principal: Principal, paging: Paging, filters: DatasetFilters
) -> Sequence[sa.Row[Any]]:
    """Return a page of the datasets that the principal can see; an empty one after a cursor that they cannot see.

    Each row is read by `readable`.
    """
    is_visible = granted(principal, datasets.c.id)
    query = _rows().where(is_visible, *filters.conditions(principal))
    return connection.execute(paging.by_creation(query, datasets, is_visible)).all()


def refuse_name(connection: sa.Connection, name: str) -> None:
    """Raise an `ApiError` name_taken if a dataset has this name."""
    if connection.scalar(sa.select(datasets.c.id).where(datasets.c.name == name, THERE)) is not None:
        raise ApiError("name_taken", "A dataset with this name exists. Choose another name.")


def add(
    connection: sa.Connection,
    event: Opened | Joined,
    spec: DatasetSpec,
    content_sha256: str,
    at: str,
    ledger_id: str | None = None,
    holdout_of: str | None = None,
) -> DatasetRow:
    """Insert a dataset, with the entry that opens its ledger, or that joins it to the ledger of `ledger_id`.

    The entry states the hash of the declaration and the rule for sessions too.
    """
    declaration = canonical_text(spec.model_dump())
    sha256 = declaration_sha256(declaration, holdout_of)
    event = replace(event, declaration_sha256=sha256, session_rule=spec.sessions)
    if isinstance(event, Opened):
        ledger.begin(connection, event, at)
    connection.execute(
        sa.insert(datasets).values(
            id=event.dataset,
            ledger_id=ledger_id or event.dataset,
            name=spec.name,
            rows=event.records,
            spec=declaration,
            content_sha256=content_sha256,
            folder=event.dataset,
            data=spec.data,
            created_at=at,
            holdout_of=holdout_of,
        )
    )
    if isinstance(event, Joined):
        ledger.apply(connection, event.dataset, event, at)
    row = get(connection, event.dataset)
    assert row is not None
    return row


def rename(connection: sa.Connection, row: DatasetRow, name: str) -> None:
    """Give a dataset another name; `ApiError` name_taken."""
    refuse_name(connection, name)
    amend(connection, row.id, "name", name)
    connection.execute(sa.update(datasets).where(datasets.c.id == row.id).values(name=name))


def amend(connection: sa.Connection, dataset_id: str, field: str, value: str) -> None:
    """Change a field of the stored declaration that its registration in the ledger does not state."""
    its_row = datasets.c.id == dataset_id
    declaration = connection.execute(sa.select(datasets.c.spec).where(its_row)).scalar_one()
    spec = canonical_text(parse(declaration) | {field: value})
    connection.execute(sa.update(datasets).where(its_row).values(spec=spec))


def record_deletion(connection: sa.Connection, dataset_id: str, data: Data) -> None:
    """Record that the values are deleted, or soon will be, and delete the public sample.

    The name of a family becomes free when all of its datasets are withdrawn.
    """
    connection.execute(sa.delete(samples).where(samples.c.dataset_id == dataset_id))
    connection.execute(sa.update(datasets).where(datasets.c.id == dataset_id).values(data=data))
    own_ledger = sa.select(datasets.c.ledger_id).where(datasets.c.id == dataset_id).scalar_subquery()
    if connection.scalar(sa.select(datasets.c.id).where(datasets.c.ledger_id == own_ledger, THERE).limit(1)) is None:
        ledger.forget_family(connection, dataset_id)


def _rows() -> sa.Select[Any]:
    columns = (
        datasets.c.id,
        datasets.c.ledger_id,
        datasets.c.name,
        datasets.c.rows,
        datasets.c.spec,
        datasets.c.folder,
        datasets.c.data,
        ledgers.c.state,
        datasets.c.created_at,
        datasets.c.holdout_of,
        stored_values.c.sha256,
        stored_values.c.damaged_at,
    )
    return sa.select(*columns).join_from(datasets, ledgers).outerjoin(stored_values).where(THERE)


@lru_cache
def _statements(role: Role, groups: tuple[str, ...]) -> tuple[sa.Select[Any], sa.Select[str]]:
    """Return the queries of a `dataset`'s row and of its ledger's lock, for a `principal` of this role and groups."""
    granted = _granted(role, groups, sa.bindparam("principal"), datasets.c.id)
    condition = (datasets.c.id == sa.bindparam("dataset")) & granted
    return _rows().where(condition), ledger.locking(condition)


def _dataset(row: sa.Row[Any]) -> DatasetRow:
    spec = declared(row.spec)
    state = LedgerState.from_json(json.loads(row.state))
    public = (row.id, row.ledger_id, row.name, row.rows, spec, row.folder, state, row.created_at)
    stored: dict[str, Any] = {"checksum": row.sha256, "is_damaged": row.damaged_at is not None}
    return DatasetRow(*public, data=row.data, **stored, holdout_of=row.holdout_of, declaration=row.spec)
