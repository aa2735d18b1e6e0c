"""A dataset's stored values against the checksum that was taken when they were stored. It is no function of one record.

A dataset whose values are others now is *damaged*: no job is taken or started on it, until they are back.
"""

import hashlib
import logging
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from accounting.records.documents import canonical
from app.datasets import folders
from app.persistence.session import Database
from app.persistence.tables import datasets, stored_values
from app.sources import partitions
from app.sources.matrix import checksum, fingerprint
from purse.wire.columns import Column, NumberColumn
from purse.wire.datasets import DatasetSpec

_log = logging.getLogger(__name__)
_LATER = ("origin", "scale")


def content(spec: DatasetSpec, sha256: str) -> str:
    """By what a dataset is known again: its declared columns and its values' fingerprint, whatever the file was."""
    columns = [_as_first_declared(column) for column in spec.columns]
    return hashlib.sha256(canonical({"columns": columns, "values": sha256})).hexdigest()


def _as_first_declared(column: Column) -> dict[str, Any]:
    """Without what columns could not say at first and did not say: an older dataset is known again by what it had.

    Nor with how its file said the values, which are the same in another file.
    """
    filled_in = isinstance(column, NumberColumn) and column.is_settled
    said = column.model_dump(mode="json", exclude={"source", "date"}).items()
    return {key: value for key, value in said if key not in _LATER or not (filled_in or value is None)}


def note(connection: sa.Connection, dataset_id: str, sha256: str) -> None:
    """The checksum of what was stored just now."""
    connection.execute(sa.insert(stored_values).values(dataset_id=dataset_id, sha256=sha256))


def mark(database: Database, dataset_id: str, is_damaged: bool) -> None:
    """Notes that a dataset is damaged, or that it is whole again."""
    at = database.timestamp() if is_damaged else None
    mine = stored_values.c.dataset_id == dataset_id
    with database.write() as connection:
        connection.execute(sa.update(stored_values).where(mine).values(damaged_at=at))
    if is_damaged:
        _log.error("dataset_damaged %s", dataset_id)


def verify(database: Database, home: Path) -> dict[str, bool]:
    """By dataset, whether its values are those that were stored; this is noted too. An older one gets its checksum."""
    with database.read() as connection:
        columns = (
            datasets.c.id,
            datasets.c.folder,
            datasets.c.spec,
            stored_values.c.sha256,
            stored_values.c.damaged_at,
        )
        rows = connection.execute(
            sa.select(*columns).outerjoin_from(datasets, stored_values).where(datasets.c.data == "stored")
        ).all()
    found = {}
    for row in rows:
        folder = folders.path(home, row.folder)
        now = _checksum(folder)
        if row.sha256 is None and now is not None:
            _adopt(database, row.id, DatasetSpec.model_validate_json(row.spec), folder, now)
        found[row.id] = now is not None and row.sha256 in (None, now)
        if row.damaged_at is not None:  # of others, each partition is looked at by whoever opens it
            found[row.id] = found[row.id] and partitions.are_whole(folder)
        if found[row.id] == (row.damaged_at is not None):
            mark(database, row.id, not found[row.id])
    return found


def verify_quietly(database: Database, home: Path) -> None:
    """`verify`, on a thread at start that may outlive the database."""
    try:
        verify(database, home)
    except Exception as error:
        _log.error("checksums_unverified %s", type(error).__name__)


def _adopt(database: Database, dataset_id: str, spec: DatasetSpec, folder: Path, sha256: str) -> None:
    """Notes the checksum and, of doubles, by what a dataset that is older than its checksum is known again."""
    known, mine = fingerprint(folder), sa.update(datasets).where(datasets.c.id == dataset_id)
    with database.write(alone="names") as connection:
        note(connection, dataset_id, sha256)
        if known is not None:
            connection.execute(mine.values(content_sha256=content(spec, known)))


def _checksum(folder: Path) -> str | None:
    try:
        return checksum(folder)
    except OSError:
        return None
