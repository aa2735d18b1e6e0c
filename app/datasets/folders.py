"""The folders of datasets, `<home>/datasets/<folder>/`. A folder is complete or does not exist.

An upload is stored in a hidden folder beside them, which the storing process locks. The folder is renamed into place
inside the transaction that inserts the dataset's row. A crash can leave an unlocked hidden folder, or a complete folder
whose transaction was never committed. `sweep` moves both into quarantine at the next start, and the operator decides
whether to delete them. Only folders that a steward ordered deleted are deleted: the order is committed first, and
`sweep` completes it after a crash.
"""

import fcntl
import itertools
import logging
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import sqlalchemy as sa

from app.persistence.tables import datasets
from app.sources import partitions
from app.sources.errors import StorageUnreachable
from app.sources.matrix import sync

_INCOMING, _LOCK = ".incoming-", ".lock"
_log = logging.getLogger(__name__)


def root(home: Path) -> Path:
    """Return the folder of all datasets; create it if it does not exist."""
    folder = home / "datasets"
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder


def path(home: Path, folder: str) -> Path:
    """Return a dataset's folder, by the name in its row."""
    return root(home) / folder


@contextmanager
def incoming(home: Path) -> Iterator[Path]:
    """Create a hidden folder for the block; remove it afterwards with all that is still in it."""
    descriptor, lock = tempfile.mkstemp(prefix=_INCOMING, suffix=_LOCK, dir=root(home))
    folder = Path(lock.removesuffix(_LOCK))
    with os.fdopen(descriptor, "r+b"):  # a file, because network file systems cannot lock folders
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        try:
            folder.mkdir(mode=0o700)
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)
            Path(lock).unlink()


def publish(complete: Path, home: Path, folder: str) -> None:
    """Rename a complete, durable folder into place, inside the transaction that inserts the row."""
    complete.rename(path(home, folder))
    sync(root(home))


def remove(home: Path, folder: str) -> None:
    """Remove a folder that no row names, and its partitions."""
    partitions.erase(path(home, folder))
    shutil.rmtree(path(home, folder), ignore_errors=True)


def erase(home: Path, folder: str) -> None:
    """Delete a dataset's values durably, after the transaction that records it; may be repeated."""
    if path(home, folder).exists():
        partitions.erase(path(home, folder))
        shutil.rmtree(path(home, folder))
        sync(root(home))


def sweep(home: Path, connection: sa.Connection) -> list[str]:
    """Complete ordered deletions, and move the folders of crashed uploads into the home's folder `quarantine`.

    Returns the names of the moved folders there.

    Parameters
    ----------
    connection : inside `Database.write`, so that no upload is between its rename and its commit
    """
    for folder in connection.scalars(sa.select(datasets.c.folder).where(datasets.c.data != "stored")):
        try:
            erase(home, folder)
        except (OSError, StorageUnreachable):  # tried again at the next start
            _log.error("not_erased %s", folder)
    registered = set(connection.scalars(sa.select(datasets.c.folder)))
    quarantined = []
    for folder in sorted(root(home).iterdir()):
        if folder.name in registered or folder.name.endswith(_LOCK):
            continue
        if folder.name.startswith(_INCOMING) and _is_filled(folder):
            continue
        quarantined.append(_quarantine(home, folder))
        folder.with_name(folder.name + _LOCK).unlink(missing_ok=True)
        _log.warning("quarantined %s", quarantined[-1])
    return quarantined


def _quarantine(home: Path, folder: Path) -> str:
    aside = home / "quarantine"
    aside.mkdir(mode=0o700, exist_ok=True)
    plain = folder.name.removeprefix(".")
    name = next(
        n for n in itertools.chain((plain,), (f"{plain}-{i}" for i in itertools.count(2))) if not (aside / n).exists()
    )
    folder.rename(aside / name)
    sync(aside)
    sync(root(home))
    return name


def _is_filled(folder: Path) -> bool:
    """Return whether a process of any server still holds the lock of a hidden folder."""
    try:
        with folder.with_name(folder.name + _LOCK).open("r+b") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except FileNotFoundError:
        return False
    return False
