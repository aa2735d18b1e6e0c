"""Checksums of stored values: a dataset whose values no longer have theirs is *damaged*.

No job is accepted or started on a damaged dataset until its values are restored. A checksum depends on all records.
"""

import hashlib
import logging
from pathlib import Path

import sqlalchemy as sa

from accounting.records.documents import canonical
from app.datasets import folders
from app.persistence.session import Database
from app.persistence.tables import datasets, stored_values
from app.sources import partitions
from app.sources.matrix import checksum
from purse.wire.datasets import DatasetSpec

_log = logging.getLogger(__name__)
_OF_THE_FILE = {"source", "date"}  # fields of a column that state how the file writes the values, which may differ


def content(spec: DatasetSpec, sha256: str) -> str:
    """Return the digest of the declared columns and of the values' fingerprint: the identity of a dataset's content."""
    columns = [column.model_dump(mode="json", exclude=_OF_THE_FILE) for column in spec.columns]
    return hashlib.sha256(canonical({"columns": columns, "values": sha256})).hexdigest()


def note(connection: sa.Connection, dataset_id: str, sha256: str) -> None:
    """Store the checksum of newly stored values."""
    connection.execute(sa.insert(stored_values).values(dataset_id=dataset_id, sha256=sha256))


def mark(database: Database, dataset_id: str, is_damaged: bool) -> None:
    """Record that a dataset is damaged, or that it is intact again."""
    at = database.timestamp() if is_damaged else None
    condition = stored_values.c.dataset_id == dataset_id
    with database.write() as connection:
        connection.execute(sa.update(stored_values).where(condition).values(damaged_at=at))
    if is_damaged:
        _log.error("dataset_damaged %s", dataset_id)


def verify(database: Database, home: Path) -> dict[str, bool]:
    """Return for each dataset whether its values are the stored ones; a change is recorded."""
    columns = (datasets.c.id, datasets.c.folder, stored_values.c.sha256, stored_values.c.damaged_at)
    with database.read() as connection:
        rows = connection.execute(
            sa.select(*columns).join_from(datasets, stored_values).where(datasets.c.data == "stored")
        ).all()
    intact = {}
    for row in rows:
        folder = folders.path(home, row.folder)
        was_damaged = row.damaged_at is not None
        # The worker that opens a partition compares it; all are read here only to find that they were restored.
        intact[row.id] = _checksum(folder) == row.sha256 and (not was_damaged or partitions.are_whole(folder))
        if intact[row.id] == was_damaged:
            mark(database, row.id, not intact[row.id])
    return intact


def verify_quietly(database: Database, home: Path) -> None:
    """Run `verify` on a thread at start that may outlive the database; log an error instead of raising it."""
    try:
        verify(database, home)
    except Exception as error:
        _log.error("checksums_unverified %s", type(error).__name__)


def _checksum(folder: Path) -> str | None:
    try:
        return checksum(folder)
    except OSError:
        return None
