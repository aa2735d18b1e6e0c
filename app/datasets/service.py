"""Registering datasets, and telling how their budgets stand."""

import hashlib
import re
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import sqlalchemy as sa

from accounting.errors import OutOfRange
from accounting.filter import Filter
from accounting.privacy import Privacy
from accounting.records.chain import Entry
from accounting.records.documents import canonical
from accounting.records.events import Joined, Opened
from app.datasets import budgets, families, folders, profiles, store, values
from app.datasets.store import ANY, DatasetRow, Wanted
from app.datasets.upload import Upload
from app.http.errors import ApiError
from app.http.lists import Paging
from app.identity.store import Principal
from app.ledger import store as ledger
from app.ledger.keys import SigningKeys
from app.persistence.session import Database, new_id
from app.settings import Settings
from app.sources import partitions
from app.sources.errors import Away, Mismatch, SourceError, TooLarge, Unparsed
from app.sources.matrix import checksum
from purse.wire.base import Page
from purse.wire.datasets import Budget, Dataset, DatasetSpec, Registered
from purse.wire.files import FileReport
from purse.wire.problems import Violation
from purse.wire.receipts import LedgerHead

# Each file that is being read may take some 300 MB.
_reading = threading.BoundedSemaphore(2)
_IDENTIFIERS = frozenset(
    ("id", "ids", "uid", "uuid", "guid", "pid", "ssn", "nino", "mrn", "mail", "email", "phone", "passport", "user")
) | {"username", "userid", "person", "patient", "customer", "client", "member", "subject", "participant"}


def create(database: Database, settings: Settings, principal: Principal, upload: Upload) -> Registered:
    """A new dataset from what was uploaded: read, encoded, stored, and its ledger opened; all of it or nothing.

    Parameters
    ----------
    upload : its file goes once the dataset is there; its maker removes its folder

    Raises
    ------
    ApiError
        out_of_range for the budget; invalid_request, unreadable_file, unparsed_values or too_large for the file;
        name_taken; family_mismatch; duplicate_dataset, since the same values on a second ledger would be a second
        budget.
    """
    spec = upload.spec.settled()
    rule = opened(spec.budget)
    with database.read() as connection:
        store.refuse_name(connection, spec.name)
        families.find(connection, spec)
        if spec.holdout is not None:
            store.refuse_name(connection, spec.kept_out.name)
    made, dataset_id = upload.folder / "columns", new_id("ds")
    n, known, report = _read(upload.file, spec, made, settings.max_upload_bytes, _place(settings, spec, dataset_id))
    parts = _parts(spec, dataset_id, made, n, values.content(spec, known))
    row = _register(database, settings.home, principal, rule, parts)
    upload.file.unlink()
    with database.read() as connection:
        return Registered.of(described(connection, row, principal), report)


def get(database: Database, dataset_id: str, principal: Principal) -> Dataset:
    """A dataset's public facts; ApiError not_found."""
    with database.read() as connection:
        return described(connection, store.visible(connection, dataset_id, principal), principal)


def page(database: Database, principal: Principal, asked: Paging, wanted: Wanted = ANY) -> Page[Dataset]:
    """The datasets that the principal may know of, as far as they are wanted."""
    with database.read() as connection:
        found = store.page(connection, principal, asked, wanted)
        return asked.page(Page[Dataset], found, lambda row: described(connection, row, principal), lambda row: row.id)


def head(database: Database, keys: SigningKeys, dataset_id: str, principal: Principal) -> LedgerHead:
    """How far a dataset's ledger goes, signed; ApiError not_found.

    To an analyst, as far as the newest receipt of their own says it: what others did since is not theirs to see.
    """
    with database.read() as connection:
        if principal.role == "analyst":
            store.visible(connection, dataset_id, principal)
            entry: Entry | None = ledger.newest_release(connection, dataset_id, principal.id)
        else:
            entry = ledger.newest(connection, dataset_id)
    if entry is None:
        raise ApiError("not_found", "There is no dataset of this id.")
    return LedgerHead(**keys.sign_head(dataset_id, entry))


def opened(budget: Budget, where: str = "spec.budget") -> Filter:
    """The filter of a budget; `ApiError` out_of_range, which names the place."""
    try:
        return Filter.open(budget.filter, Privacy(budget.epsilon, budget.delta), budget.slack or 0.0)
    except OutOfRange as error:
        raise ApiError(
            "out_of_range", "See `violations`.", violations=[Violation(where=where, what=str(error))]
        ) from None


def _place(settings: Settings, spec: DatasetSpec, dataset_id: str) -> str | None:
    """Where the dataset's partitions go; None if it has none."""
    if spec.storage == "home":
        return None
    if settings.storage_url is None:
        wrong = Violation(where="spec.storage", what="cannot be had: this server has no place for partitions")
        raise ApiError("invalid_request", "See `violations`.", violations=[wrong])
    return partitions.under(settings.storage_url, dataset_id)


def _read(
    file: Path, spec: DatasetSpec, folder: Path, most_bytes: int, place: str | None
) -> tuple[int, str, FileReport]:
    """n, the fingerprint of the file's rows, and what became of its values, for its sender alone."""
    from app.sources import holdout, ingest, persons  # late: Arrow, which no start should wait for

    how, tally = ingest.Reading.of(spec, most_bytes)
    with reading(spec):
        if place is not None:
            found = partitions.ingest(file, how, folder, place)
        elif spec.unit is not None:
            found = persons.ingest_persons(file, how, spec.unit, folder, spec.holdout)
        elif spec.holdout is not None:
            found = holdout.ingest_parts(file, how, folder, spec.holdout)
        else:
            found = ingest.ingest(file, how, folder)
    return *found, tally.report


@contextmanager
def reading(spec: DatasetSpec) -> Iterator[None]:
    """Inside the block a file is read by this declaration, one of few at once; `ApiError` for what is wrong with it."""
    try:
        with _reading:
            yield
    except Unparsed as error:
        raise ApiError("unparsed_values", error.detail, report=error.report) from None
    except Mismatch as error:
        is_unit = error.index == len(spec.columns)
        where = "spec.unit.column" if is_unit else f"spec.columns.{error.index}.name"
        wrong = Violation(where=where, what=error.what)
        raise ApiError("invalid_request", error.detail, violations=[wrong]) from None
    except TooLarge as error:
        raise ApiError("too_large", error.detail) from None
    except Away:
        raise ApiError("storage_unavailable") from None
    except SourceError as error:
        raise ApiError("unreadable_file", error.detail) from None


@dataclass(frozen=True, slots=True)
class _Part:
    """What becomes a dataset: where it was made, of how many records, by what it is known again."""

    id: str
    spec: DatasetSpec
    made: Path
    n: int
    known: str
    holdout_of: str | None = None


def _parts(spec: DatasetSpec, dataset_id: str, made: Path, n: int, known: str) -> list[_Part]:
    """The dataset, known again by all that the file held, and what is kept out of it."""
    if spec.holdout is None:
        return [_Part(dataset_id, spec, made, n, known)]
    from app.sources import holdout

    out = holdout.count(n, spec.holdout)
    of_it = hashlib.sha256(canonical({"holdout_of": known})).hexdigest()
    part = _Part(new_id("ds"), spec.kept_out, holdout.kept_out_folder(made), out, of_it, dataset_id)
    return [_Part(dataset_id, spec, made, n - out, known), part]


def _register(database: Database, home: Path, steward: Principal, rule: Filter, parts: Sequence[_Part]) -> DatasetRow:
    """All of the parts or none; the first one's row."""
    sums = [checksum(part.made) for part in parts]
    try:
        with database.write(alone="names") as connection:
            rows = [
                _entered(connection, database.timestamp(), home, steward, rule, part, sha256)
                for part, sha256 in zip(parts, sums, strict=True)
            ]
    except BaseException:
        for part in parts:
            _withdraw(database, home, part.id, part.made)
        raise
    return rows[0]


def _entered(
    connection: sa.Connection, at: str, home: Path, steward: Principal, rule: Filter, part: _Part, sha256: str
) -> DatasetRow:
    """On a ledger of its own, or on its family's: a person may be in this part of one dataset, in that of another."""
    spec = part.spec
    store.refuse_name(connection, spec.name)
    shared = families.find(connection, spec)
    store.refuse_content(connection, part.known, shared)
    alone = Opened(part.id, part.n, rule, spec.family, spec.protected, spec.neighbors)
    event = Joined(part.id, part.n, steward.name, spec.protected) if shared else alone
    row = store.add(connection, event, spec, part.known, part.id, at, shared, part.holdout_of)
    values.note(connection, part.id, sha256)
    folders.publish(part.made, home, part.id)
    return row


def _withdraw(database: Database, home: Path, dataset_id: str, made: Path) -> None:
    """Removes what was stored, unless its row was committed after all: a commit that is on its way is waited for."""
    with database.write(alone="names") as connection:
        if store.get(connection, dataset_id) is None:
            partitions.erase(made)
            folders.remove(home, dataset_id)


def described(connection: sa.Connection, row: DatasetRow, principal: Principal) -> Dataset:
    """A dataset's public facts, as far as the principal may know them."""
    return Dataset(
        id=row.id,
        name=row.name,
        family=None if principal.role == "analyst" else row.spec.family,
        rows=None if row.spec.unit else row.n,
        persons=row.n if row.spec.unit else None,
        unit=row.spec.protected,
        data=row.data,
        columns=row.spec.columns,
        budget=budgets.status(connection, row, principal),
        warnings=warnings(row.state.filter.privacy, row.spec, row.n),
        profile=profiles.latest(connection, row.id),
        holdout=store.holdout(connection, row.id),
        holdout_of=row.holdout_of,
        created_at=row.created_at,
    )


def warnings(budget: Privacy, spec: DatasetSpec, n: int) -> list[str]:
    """What a steward should think of again; a function of the declaration and of n."""
    found = []
    if budget.delta * n >= 1:
        found.append(
            "delta is 1/n or more: such a promise would allow publishing some record whole. Far less than 1/n is usual."
        )
    named = next((column.name for column in spec.columns if _names_somebody(column.name)), None)
    if spec.unit is None and named is not None:
        found.append(
            f"What is protected is one row, and {named!r} looks as if it named whose rows are whose: with several "
            "rows of one person take that column for the `unit`, and a person is protected."
        )
    return found


@lru_cache(2**14)  # of some wide datasets: it is looked at whenever one of them is described
def _names_somebody(column: str) -> bool:
    """Return whether a column's name is one of an identifier's: patient_id, userId, SSN, e-mail."""
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", column).casefold()
    return not _IDENTIFIERS.isdisjoint(re.findall(r"[a-z0-9]+", words)) or "email" in re.sub(r"[^a-z]", "", words)
