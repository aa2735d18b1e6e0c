"""Registration and description of datasets."""

import hashlib
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from accounting.errors import OutOfRange
from accounting.filter import Filter
from accounting.privacy import Privacy
from accounting.records.chain import Entry
from accounting.records.documents import canonical
from accounting.records.events import Joined, Opened
from app.datasets import budgets, families, folders, profiles, store, values
from app.datasets.store import NO_FILTERS, DatasetFilters, DatasetRow
from app.datasets.upload import Upload
from app.http.errors import ApiError, invalid_field
from app.http.lists import Paging
from app.identity.store import Principal
from app.ledger import store as ledger
from app.ledger.keys import SigningKeys
from app.persistence.session import Database, new_id
from app.persistence.tables import datasets
from app.settings import Settings
from app.sources import holdout, partitions
from app.sources.errors import Mismatch, SourceError, StorageUnreachable, TooLarge, Unparsed
from app.sources.identifiers import unit_warnings
from app.sources.matrix import checksum
from purse.wire.base import Page
from purse.wire.budgets import Budget
from purse.wire.datasets import Dataset, DatasetSpec, Registered
from purse.wire.files import FileReport
from purse.wire.problems import Violation
from purse.wire.receipts import LedgerHead

# Reading a file may take about 300 MB.
_reading = threading.BoundedSemaphore(2)


def create(database: Database, settings: Settings, principal: Principal, upload: Upload) -> Registered:
    """Register an uploaded file: read, encode and store it, and open its ledger; all of it or nothing.

    A dataset whose records are elsewhere has no file, and gets a ledger only.

    Parameters
    ----------
    upload : its file is deleted once the dataset is registered; the caller removes its folder

    Raises
    ------
    ApiError
        out_of_range for the budget; invalid_request, unreadable_file, unparsed_values or too_large for the file;
        name_taken; family_mismatch; duplicate_dataset, because the same values on a second ledger would have a second
        budget.
    """
    spec = upload.spec.settled()
    rule = opened(spec.budget)
    with database.read() as connection:
        store.refuse_name(connection, spec.name)
        families.find(connection, spec)
        if spec.holdout is not None:
            store.refuse_name(connection, spec.holdout_spec.name)
    dataset_id = new_id("ds")
    if upload.file is None:
        parts = [_elsewhere(spec, dataset_id)]
        report = FileReport(records=0, columns=[])
    else:
        folder = upload.folder / "columns"
        place = _place(settings, spec, dataset_id)
        n, fingerprint, report = _read(upload.file, spec, folder, upload.most_bytes, place)
        parts = _parts(spec, dataset_id, folder, n, values.content(spec, fingerprint))
    row = _register(database, settings.home, principal, rule, parts)
    if upload.file is not None:
        upload.file.unlink()
    with database.read() as connection:
        return Registered.of(described(connection, row, principal), report)


def get(database: Database, dataset_id: str, principal: Principal) -> Dataset:
    """Return a dataset's public facts; `ApiError` as `store.visible`."""
    with database.read() as connection:
        return described(connection, store.visible(connection, dataset_id, principal), principal)


def page(
    database: Database,
    principal: Principal,
    paging: Paging,
    filters: DatasetFilters = NO_FILTERS,
    *,
    with_columns: bool = True,
) -> Page[Dataset]:
    """Return a page of the datasets that the principal can see and that meet the filters.

    Datasets that cannot be read are left out. A request for such a dataset alone is refused with the reason.
    """
    left_out: dict[str, Any] = {} if with_columns else {"columns": []}
    with database.read() as connection:

        def entry(row: sa.Row[Any]) -> Dataset | None:
            with suppress(ApiError):
                return described(connection, store.readable(row), principal).model_copy(update=left_out)
            return None

        rows = store.page(connection, principal, paging, filters)
        return paging.page(Page[Dataset], rows, entry, lambda row: row.id)


def head(database: Database, keys: SigningKeys, dataset_id: str, principal: Principal) -> LedgerHead:
    """Return the signed head of a dataset's ledger; `ApiError` not_found.

    For an analyst it is the entry of the newest own release: later entries can belong to other analysts.
    """
    with database.read() as connection:
        if principal.role == "analyst":
            store.visible(connection, dataset_id, principal)
            entry: Entry | None = ledger.newest_release(connection, dataset_id, principal.id)
        else:
            entry = ledger.newest(connection, dataset_id)
    if entry is None:
        raise store.absent()
    return LedgerHead(**keys.sign_head(dataset_id, entry))


def opened(budget: Budget, where: str = "spec.budget") -> Filter:
    """Return the filter of a budget; `ApiError` out_of_range, which names the field `where`."""
    try:
        return Filter.open(budget.filter, Privacy(budget.epsilon, budget.delta), budget.slack or 0.0)
    except OutOfRange as error:
        raise invalid_field(where, str(error), "out_of_range") from None


def _place(settings: Settings, spec: DatasetSpec, dataset_id: str) -> str | None:
    """Return the URL for the dataset's partitions; None if it is stored in the server's home."""
    if spec.storage == "home":
        return None
    if settings.storage_url is None:
        raise invalid_field("spec.storage", "needs a PURSE_STORAGE_URL, which this server has not set. Leave it out")
    return partitions.under(settings.storage_url, dataset_id)


def _read(
    file: Path, spec: DatasetSpec, folder: Path, most_bytes: int, place: str | None
) -> tuple[int, str, FileReport]:
    """Return n, the fingerprint of the file's rows, and the report for the sender of the file alone."""
    from app.sources.ingest import Layout, Reading, store  # late: Arrow, which no start should wait for

    rules, tally = Reading.of(spec, most_bytes)
    with reading(spec):
        n, fingerprint = store(file, rules, folder, Layout(spec.unit, spec.holdout, place))
    return n, fingerprint, tally.report


@contextmanager
def reading(spec: DatasetSpec) -> Iterator[None]:
    """Read a file inside the block, one of few at a time; errors of the file become an `ApiError`."""
    try:
        with _reading:
            yield
    except Unparsed as error:
        raise ApiError("unparsed_values", error.detail, report=error.report) from None
    except Mismatch as error:
        is_unit = error.index == len(spec.columns)
        where = "spec.unit.column" if is_unit else f"spec.columns.{error.index}.name"
        wrong = Violation(where=where, what=error.rule)
        raise ApiError("invalid_request", error.detail, violations=[wrong]) from None
    except TooLarge as error:
        raise ApiError("too_large", error.detail) from None
    except StorageUnreachable:
        raise ApiError("storage_unavailable") from None
    except SourceError as error:
        raise ApiError("unreadable_file", error.detail) from None


@dataclass(frozen=True, slots=True)
class _Part:
    """A dataset, or its holdout set, before its registration.

    Parameters
    ----------
    folder : where its records are stored until then; None if they are elsewhere
    n : number of its records
    content : digest that identifies its content
    """

    id: str
    spec: DatasetSpec
    folder: Path | None
    n: int
    content: str
    holdout_of: str | None = None


def _elsewhere(spec: DatasetSpec, dataset_id: str) -> _Part:
    """Return a dataset whose number of records the steward states. Its content is unknown, so no other has the same."""
    n = spec.rows if spec.unit is None else spec.unit.persons
    assert n is not None  # the spec was validated
    return _Part(dataset_id, spec, None, n, hashlib.sha256(canonical({"elsewhere": dataset_id})).hexdigest())


def _parts(spec: DatasetSpec, dataset_id: str, folder: Path, n: int, content: str) -> list[_Part]:
    """Return the dataset, identified by the content of the whole file, and its holdout set if it has one."""
    if spec.holdout is None:
        return [_Part(dataset_id, spec, folder, n, content)]
    out = holdout.count(n, spec.holdout)
    content_out = hashlib.sha256(canonical({"holdout_of": content})).hexdigest()
    part = _Part(new_id("ds"), spec.holdout_spec, holdout.holdout_folder(folder), out, content_out, dataset_id)
    return [_Part(dataset_id, spec, folder, n - out, content), part]


def _register(database: Database, home: Path, steward: Principal, rule: Filter, parts: Sequence[_Part]) -> DatasetRow:
    """Register all parts or none; return the row of the first."""
    sums = [None if part.folder is None else checksum(part.folder) for part in parts]
    try:
        with database.write(alone="names") as connection:
            rows = [
                _entered(connection, database.timestamp(), home, steward, rule, part, sha256)
                for part, sha256 in zip(parts, sums, strict=True)
            ]
    except BaseException:
        for part in parts:
            if part.folder is not None:
                _withdraw(database, home, part.id, part.folder)
        raise
    return rows[0]


def _entered(
    connection: sa.Connection, at: str, home: Path, steward: Principal, rule: Filter, part: _Part, sha256: str | None
) -> DatasetRow:
    """Insert one part on a ledger of its own, or on its family's; return its row.

    A holdout set joins the family too: a person can be in the holdout set of one dataset and the rest of another.
    """
    spec = part.spec
    store.refuse_name(connection, spec.name)
    shared = families.find(connection, spec)
    _refuse_content(connection, part.content, shared)
    event: Opened | Joined = Opened(part.id, part.n, rule, spec.family, spec.protected, spec.neighbors)
    if shared:
        event = Joined(part.id, part.n, steward.name, spec.protected)
    row = store.add(connection, event, spec, part.content, at, shared, part.holdout_of)
    if part.folder is not None and sha256 is not None:
        values.note(connection, part.id, sha256)
        folders.publish(part.folder, home, part.id)
    return row


def _refuse_content(connection: sa.Connection, content_sha256: str, ledger_id: str | None) -> None:
    """Raise an `ApiError` duplicate_dataset if this content is already on another ledger than this one."""
    query = sa.select(datasets.c.name, datasets.c.ledger_id)
    query = query.where(datasets.c.content_sha256 == content_sha256, store.THERE)
    names = sorted(row.name for row in connection.execute(query) if row.ledger_id != ledger_id)
    if names:
        detail = f"The dataset {names[0]!r} has the same values. Use it, or register this file in its family."
        raise ApiError("duplicate_dataset", detail)


def _withdraw(database: Database, home: Path, dataset_id: str, folder: Path) -> None:
    """Remove stored records, unless their row was committed after all; wait for a commit in progress."""
    with database.write(alone="names") as connection:
        if store.get(connection, dataset_id) is None:
            partitions.erase(folder)
            folders.remove(home, dataset_id)


def described(connection: sa.Connection, row: DatasetRow, principal: Principal) -> Dataset:
    """Return a dataset's public facts, as far as the principal may see them."""
    return Dataset(
        id=row.id,
        name=row.name,
        family=None if principal.role == "analyst" else row.spec.family,
        rows=None if row.spec.unit else row.n,
        persons=row.n if row.spec.unit else None,
        unit=row.spec.protected,
        data=row.data,
        columns=row.spec.columns,
        sessions=row.spec.sessions,
        budget=budgets.status(connection, row, principal),
        warnings=warnings(row.state.filter.privacy, row.spec, row.n),
        profile=profiles.latest(connection, row.id),
        holdout=store.holdout(connection, row.id),
        holdout_of=row.holdout_of,
        created_at=row.created_at,
    )


def warnings(budget: Privacy, spec: DatasetSpec, n: int) -> list[str]:
    """Return what a steward should reconsider; a function of the declaration and of n."""
    statements = []
    if budget.delta * n >= 1:
        statements.append(
            "delta is 1/n or more: such a guarantee would allow publishing some records whole. Choose a delta far "
            "below 1/n."
        )
    statements += unit_warnings(spec, (column.name for column in spec.columns))
    return statements
