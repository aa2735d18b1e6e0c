"""Backups of a service, from which another home can start.

A backup does not contain the epoch, which must be newer than any copy. The database is copied first, as of one moment,
while servers run. The folders of its datasets, which never change, are copied afterwards. If a dataset is deleted in
between, the backup fails.
"""

import shutil
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path

import sqlalchemy as sa

from app.datasets import folders
from app.identity.home import IDENTITY_FILE, refusing
from app.ledger.keys import KEY_FILE, SigningKeys
from app.persistence.files import StartRefused
from app.persistence.session import Database
from app.persistence.sqlite import fault
from app.persistence.tables import datasets
from app.settings import Settings
from app.sources.matrix import sync

DATABASE_FILE = "purse.sqlite3"


def back_up(settings: Settings, target: Path, with_key: bool = True) -> int:
    """Write a backup, which appears at `target` once it is complete; return the number of datasets in it.

    A PostgreSQL database is not part of the backup: run `pg_dump` before this.

    Parameters
    ----------
    target : folder that does not exist yet
    with_key : include the signing key, which lets every reader of the backup sign receipts

    Raises
    ------
    StartRefused
        if `target` exists, the database or the key is damaged, or a dataset was deleted meanwhile.
    """
    with refusing(settings):
        return _backed_up(settings, target, with_key)


def _backed_up(settings: Settings, target: Path, with_key: bool) -> int:
    if target.exists():
        raise StartRefused(f"{target} exists, and a backup overwrites nothing. Name a folder that does not exist")
    target.parent.mkdir(parents=True, exist_ok=True)
    unfinished = Path(tempfile.mkdtemp(dir=target.parent, prefix=f".{target.name}."))
    try:
        names = _snapshot(settings, unfinished)
        for file in (IDENTITY_FILE, *([KEY_FILE] if with_key else [])):
            shutil.copy2(settings.home / file, unfinished / file)
        if with_key:
            SigningKeys(settings.home)  # raises `KeyLost` for a damaged key, whose copy would be of no use
        for folder in names:
            shutil.copytree(folders.path(settings.home, folder), folders.path(unfinished, folder))
        for path in (unfinished, *unfinished.rglob("*")):
            sync(path)
        unfinished.rename(target)
    except FileNotFoundError as error:
        raise StartRefused(
            f"{error.filename} was deleted while it was copied, so the backup is incomplete. Try again"
        ) from None
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    sync(target.parent)
    return len(names)


def _snapshot(settings: Settings, target: Path) -> list[str]:
    """Copy the database if it is SQLite. Return the names of the folders of all stored datasets."""
    query = sa.select(datasets.c.folder).where(datasets.c.data == "stored")
    url = sa.make_url(settings.database)
    if url.drivername != "sqlite":
        with closing(Database(settings.database)) as database, database.read() as connection:
            return list(connection.scalars(query))
    try:
        with (
            closing(sqlite3.connect(f"file:{url.database}?mode=ro", uri=True)) as live,
            closing(sqlite3.connect(target / DATABASE_FILE)) as copy,
        ):
            live.backup(copy)  # one step, so no commit can come in between
            copy.execute("PRAGMA journal_mode=DELETE")
            return [row[0] for row in copy.execute(str(query.compile(compile_kwargs={"literal_binds": True})))]
    except sqlite3.Error as error:
        translated = fault(error, str(url.database))
        if translated is None:
            raise
        raise translated from None
