"""A copy of a service from which another home can start: never its epoch, which has to know more than any copy.

The database comes first, as of one moment, while servers go on; then the folders of the datasets that this copy names,
which do not change once they are there. A dataset that is deleted between the two makes the copy refuse itself.
"""

import os
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

DATABASE_FILE = "purse.sqlite3"


def back_up(settings: Settings, target: Path, with_key: bool = True) -> int:
    """The number of datasets that `target` has a copy of: nothing is there before all of it is on the disk.

    Of PostgreSQL `target` holds all but the database, which is `pg_dump`'s to copy, before this.

    Parameters
    ----------
    target : a folder that is not there yet
    with_key : the signing key, too: whoever reads it can sign receipts

    Raises
    ------
    StartRefused
        if there is something at `target`, the database or the key is damaged, or a dataset was deleted meanwhile.
    """
    with refusing(settings):
        return _backed_up(settings, target, with_key)


def _backed_up(settings: Settings, target: Path, with_key: bool) -> int:
    if target.exists():
        raise StartRefused(f"{target} is there already")
    target.parent.mkdir(parents=True, exist_ok=True)
    part = Path(tempfile.mkdtemp(dir=target.parent, prefix=f".{target.name}."))
    try:
        named = _snapshot(settings, part)
        for file in (IDENTITY_FILE, *([KEY_FILE] if with_key else [])):
            shutil.copy2(settings.home / file, part / file)
        if with_key:
            SigningKeys(settings.home)  # raises `KeyLost` for a damaged key, whose copy would be of no use
        for folder in named:
            shutil.copytree(folders.path(settings.home, folder), folders.path(part, folder))
        _flush(part)
        part.rename(target)
    except FileNotFoundError as error:
        raise StartRefused(f"{error.filename} went while it was copied: try again") from None
    finally:
        shutil.rmtree(part, ignore_errors=True)
    _flush(target.parent, deep=False)
    return len(named)


def _snapshot(settings: Settings, part: Path) -> list[str]:
    """Copies the database; the folders that it names. Reads alone."""
    named, url = sa.select(datasets.c.folder).where(datasets.c.data == "stored"), sa.make_url(settings.database)
    if url.drivername != "sqlite":
        with closing(Database(settings.database)) as database, database.read() as connection:
            return list(connection.scalars(named))
    try:
        with (
            closing(sqlite3.connect(f"file:{url.database}?mode=ro", uri=True)) as live,
            closing(sqlite3.connect(part / DATABASE_FILE)) as copy,
        ):
            live.backup(copy)  # in one step: no commit can come in between
            copy.execute("PRAGMA journal_mode=DELETE")
            return [row[0] for row in copy.execute(str(named.compile(compile_kwargs={"literal_binds": True})))]
    except sqlite3.Error as error:
        meant = fault(error, str(url.database))
        if meant is None:
            raise
        raise meant from None


def _flush(folder: Path, deep: bool = True) -> None:
    for path in (folder, *(folder.rglob("*") if deep else ())):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
