"""Datasets in the database. Every function works inside the caller's transaction."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Any, Literal

import sqlalchemy as sa
from fastapi import Query

from accounting.filter import Cost
from accounting.records.documents import canonical
from accounting.records.events import Joined, Opened
from accounting.records.filters import cost_from_json
from accounting.records.ledger import LedgerState
from app.http.errors import ApiError
from app.http.lists import Paging
from app.identity.store import Principal
from app.ledger import store as ledger
from app.persistence.dialect import json_at
from app.persistence.tables import analyst_spend, datasets, grants, identities, ledgers, samples, stored_values
from purse.wire.base import Name
from purse.wire.datasets import DatasetSpec, DatasetState
from purse.wire.tokens import Role

Data = Literal["stored", "deleted", "withdrawn"]
# Written out: SQLite would plan anew for each value that is bound where a partial index names the column.
THERE = datasets.c.data != sa.literal_column("'withdrawn'")
_NAMED, _PART = datasets.alias(), datasets.alias()


@dataclass(frozen=True, slots=True)
class DatasetRow:
    """A dataset: its public facts, and where the ledger that it is on stands.

    Parameters
    ----------
    n : how many records, rows or persons; public
    ledger_id : the dataset that opened its ledger; itself, or another of its family
    folder : name of its folder; `app.datasets.folders.path` says where that is
    data : whether the values are still there
    checksum, is_damaged : of its stored values, and whether they are others now
    holdout_of : the dataset that it was kept out of, if it is a kept-out part
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


@dataclass(frozen=True, slots=True)
class Spend:
    """One analyst's live charges on a ledger."""

    owner_id: str
    analyst: str
    charges: int
    spent: Cost


def get(connection: sa.Connection, dataset_id: str) -> DatasetRow | None:
    """A dataset by its id, whoever may see it."""
    row = connection.execute(_made("steward", ())[0], {"dataset": dataset_id}).one_or_none()
    return None if row is None else _dataset(row)


def visible(connection: sa.Connection, dataset_id: str, principal: Principal) -> DatasetRow:
    """A dataset by its id, for whoever asks; `ApiError` not_found if there is none or, just so, none for them."""
    it, _ = _made(principal.role, principal.datasets)
    row = connection.execute(it, {"dataset": dataset_id, "who": principal.id}).one_or_none()
    if row is None:
        raise _none()
    return _dataset(row)


def _none() -> ApiError:
    return ApiError("not_found", "There is no dataset of this id.")


def lock(connection: sa.Connection, dataset_id: str, principal: Principal) -> None:
    """`ledger.lock` of a dataset; not_found as `visible`: nobody waits for one that is not there for them, nor
    goes on without the lock where a grant comes just after it was asked for.
    """
    _, its_lock = _made(principal.role, principal.datasets)
    if not connection.execute(its_lock, {"dataset": dataset_id, "who": principal.id}).all():
        raise _none()


def granted(principal: Principal, dataset_id: sa.ColumnElement[str]) -> sa.ColumnElement[bool]:
    """Whether this dataset is there for the principal: stewards and auditors know of all, an analyst by a grant, own or
    its groups'.

    Asked from the analyst's grants, so that no time tells how many datasets there are beside.
    """
    return _granted(principal.role, principal.datasets, sa.literal(principal.id), dataset_id)


def _granted(
    role: Role, groups: tuple[str, ...], who: sa.ColumnElement[str], dataset_id: sa.ColumnElement[str]
) -> sa.ColumnElement[bool]:
    if role != "analyst":
        return sa.true()
    mine = by_grant(who, dataset_id)
    if not groups:
        return mine
    named = sa.select(_NAMED.c.id).where(_NAMED.c.name.in_(groups) & (_NAMED.c.data != "withdrawn"))
    parts = sa.select(_PART.c.id).where(_PART.c.holdout_of.in_(groups) | _PART.c.holdout_of.in_(named))
    return mine | dataset_id.in_(groups) | dataset_id.in_(named) | dataset_id.in_(parts)


def by_grant(analyst: sa.ColumnElement[str], dataset_id: sa.ColumnElement[str]) -> sa.ColumnElement[bool]:
    """Whether the analyst has a grant of their own."""
    return dataset_id.in_(sa.select(grants.c.dataset_id).where(grants.c.identity_id == analyst))


def whole(dataset_id: str) -> sa.ColumnElement[bool]:
    """A dataset and its kept-out part."""
    return (datasets.c.id == dataset_id) | (datasets.c.holdout_of == dataset_id)


def holdout(connection: sa.Connection, dataset_id: str) -> str | None:
    """The kept-out part of a dataset."""
    return connection.scalar(sa.select(datasets.c.id).where(datasets.c.holdout_of == dataset_id, THERE))


def parts(connection: sa.Connection, row: DatasetRow) -> list[DatasetRow]:
    """The dataset, and its kept-out part if it has one: what is done to the one for the other's sake."""
    found = connection.execute(_rows().where(datasets.c.holdout_of == row.id))
    return [row, *map(_dataset, found)]


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which datasets a list is to hold: those that suit all that is said, by what their readers are told alone."""

    name: Annotated[Name | None, Query(description="Only the one of this name.")] = None
    family: Annotated[
        Name | None, Query(description="Only those of this family; to an analyst, who is told of none, none.")
    ] = None
    state: Annotated[
        DatasetState | None,
        Query(description="`open`: jobs may be submitted; `frozen`: not now; `deleted`: its values are gone."),
    ] = None

    def among(self, principal: Principal) -> Iterator[sa.ColumnElement[bool]]:
        """What the rows of a list meet."""
        if self.name is not None:
            yield datasets.c.name == self.name
        if self.family is not None:
            yield sa.false() if principal.role == "analyst" else ledgers.c.family.is_not_distinct_from(self.family)
        if self.state is not None:
            frozen = json_at(ledgers.c.state, "$.frozen", sa.Boolean())
            yield sa.case((datasets.c.data == "deleted", "deleted"), (frozen, "frozen"), else_="open") == self.state


ANY = Wanted()


def page(connection: sa.Connection, principal: Principal, asked: Paging, wanted: Wanted) -> list[DatasetRow]:
    """What the principal may see of the datasets that are wanted; none after one that is none to them."""
    seen, by = granted(principal, datasets.c.id), (datasets.c.created_at, datasets.c.id)
    query = _rows().where(seen, *wanted.among(principal))
    found = asked.of(query, *by, at=sa.select(*by).where(datasets.c.id == asked.cursor, seen))
    return [_dataset(row) for row in connection.execute(found)]


def spends(connection: sa.Connection, ledger_id: str) -> list[Spend]:
    """Each analyst's live charges on a ledger, in the order of their names."""
    columns = (analyst_spend.c.owner_id, identities.c.name, analyst_spend.c.charges, analyst_spend.c.spent)
    query = sa.select(*columns).join(identities, identities.c.id == analyst_spend.c.owner_id)
    mine = (analyst_spend.c.ledger_id == ledger_id) & (analyst_spend.c.charges > 0)
    rows = connection.execute(query.where(mine).order_by(identities.c.name, identities.c.id))
    return [Spend(row.owner_id, row.name, row.charges, cost_from_json(json.loads(row.spent))) for row in rows]


def refuse_name(connection: sa.Connection, name: str) -> None:
    """`ApiError` name_taken if there is a dataset of this name."""
    if connection.scalar(sa.select(datasets.c.id).where(datasets.c.name == name, THERE)) is not None:
        raise ApiError("name_taken", "A dataset of this name exists.")


def refuse_content(connection: sa.Connection, content_sha256: str, ledger_id: str | None) -> None:
    """`ApiError` duplicate_dataset if this content is on a ledger already, and not on this one."""
    same = sa.select(datasets.c.ledger_id).where(datasets.c.content_sha256 == content_sha256, THERE)
    if set(connection.scalars(same)) - {ledger_id}:
        raise ApiError("duplicate_dataset")


def add(
    connection: sa.Connection,
    event: Opened | Joined,
    spec: DatasetSpec,
    content_sha256: str,
    folder: str,
    at: str,
    ledger_id: str | None = None,
    holdout_of: str | None = None,
) -> DatasetRow:
    """Inserts a dataset, with the entry that opens its ledger, or that joins it to the ledger of `ledger_id`."""
    if isinstance(event, Opened):
        ledger.begin(connection, event, at)
    connection.execute(
        sa.insert(datasets).values(
            id=event.dataset,
            ledger_id=ledger_id or event.dataset,
            name=spec.name,
            rows=event.records,
            spec=_text(spec.model_dump()),
            content_sha256=content_sha256,
            folder=folder,
            data="stored",
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
    """Another name; `ApiError` name_taken."""
    refuse_name(connection, name)
    spec = _text(row.spec.model_copy(update={"name": name}).model_dump())
    connection.execute(sa.update(datasets).where(datasets.c.id == row.id).values(name=name, spec=spec))


def empty(connection: sa.Connection, dataset_id: str, data: Data) -> None:
    """Notes that the values are gone, or on their way, and deletes the public sample beside them; a family that is all
    withdrawn gives its name back.
    """
    connection.execute(sa.delete(samples).where(samples.c.dataset_id == dataset_id))
    connection.execute(sa.update(datasets).where(datasets.c.id == dataset_id).values(data=data))
    of_it = sa.select(datasets.c.ledger_id).where(datasets.c.id == dataset_id).scalar_subquery()
    if connection.scalar(sa.select(datasets.c.id).where(datasets.c.ledger_id == of_it, THERE).limit(1)) is None:
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
def _made(role: Role, groups: tuple[str, ...]) -> tuple[sa.Select[Any], sa.Select[str]]:
    """Of a `dataset` for `who` has this role and these groups' datasets: its row, and its ledger's lock."""
    it = (datasets.c.id == sa.bindparam("dataset")) & _granted(role, groups, sa.bindparam("who"), datasets.c.id)
    return _rows().where(it), ledger.locking(it)


@lru_cache(64)  # a declaration of thousands of columns takes its time, and is the same at each request
def _declared(spec: str) -> DatasetSpec:
    return DatasetSpec.model_validate_json(spec)


def _dataset(row: sa.Row[Any]) -> DatasetRow:
    spec, state = _declared(row.spec), LedgerState.from_json(json.loads(row.state))
    public = (row.id, row.ledger_id, row.name, row.rows, spec, row.folder, state, row.created_at)
    stored: dict[str, Any] = {"checksum": row.sha256, "is_damaged": row.damaged_at is not None}
    return DatasetRow(*public, data=row.data, **stored, holdout_of=row.holdout_of)


def _text(document: object) -> str:
    return canonical(document).decode()
