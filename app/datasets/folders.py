"""Where datasets live: `<home>/datasets/<folder>/`, complete or not there at all.

An upload grows in a hidden folder beside them, locked by the process that fills it, and is renamed into place inside
the transaction that inserts its row. A crash can leave two things, and `sweep` moves both aside at the next start: a
hidden folder that nobody locks any more, and a complete folder whose transaction was never committed. Whether nobody
needs them is the operator's to say: nothing here deletes what it did not make, but what a steward has ordered deleted;
that order is committed first, and `sweep` carries it out where a crash came between.
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
from app.sources.errors import Away
from app.sources.matrix import sync_folder

_INCOMING, _LOCK = ".incoming-", ".lock"
_log = logging.getLogger(__name__)


def root(home: Path) -> Path:
    """The folder of all datasets; made if it is not there."""
    folder = home / "datasets"
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder


def path(home: Path, folder: str) -> Path:
    """A dataset's folder, by the name in its row."""
    return root(home) / folder


@contextmanager
def incoming(home: Path) -> Iterator[Path]:
    """A fresh hidden folder, gone at the end of the block with all that is still in it."""
    descriptor, lock = tempfile.mkstemp(prefix=_INCOMING, suffix=_LOCK, dir=root(home))
    folder = Path(lock.removesuffix(_LOCK))
    with os.fdopen(descriptor, "r+b"):  # a file: on a network file system folders take no lock
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        try:
            folder.mkdir(mode=0o700)
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)
            Path(lock).unlink()


def publish(made: Path, home: Path, folder: str) -> None:
    """Renames a complete, durable folder into place, durably. Inside the transaction that inserts the row."""
    made.rename(path(home, folder))
    sync_folder(root(home))


def remove(home: Path, folder: str) -> None:
    """Removes a folder that no row names, and its partitions."""
    partitions.erase(path(home, folder))
    shutil.rmtree(path(home, folder), ignore_errors=True)


def erase(home: Path, folder: str) -> None:
    """Deletes a dataset's values, durably. After the transaction that says so; again is as good as once."""
    if path(home, folder).exists():
        partitions.erase(path(home, folder))
        shutil.rmtree(path(home, folder))
        sync_folder(root(home))


def sweep(home: Path, connection: sa.Connection) -> list[str]:
    """Deletes what stewards ordered deleted; moves what crashed uploads left into the home's folder `quarantine`.

    Returns the names it has there.

    Parameters
    ----------
    connection : inside `Database.write`: nobody can be between a rename and its commit then
    """
    for folder in connection.scalars(sa.select(datasets.c.folder).where(datasets.c.data != "stored")):
        try:
            erase(home, folder)
        except (OSError, Away):  # at the next start
            _log.error("not_erased %s", folder)
    known = set(connection.scalars(sa.select(datasets.c.folder)))
    left = []
    for folder in sorted(root(home).iterdir()):
        if folder.name in known or folder.name.endswith(_LOCK):
            continue
        if folder.name.startswith(_INCOMING) and _is_filled(folder):
            continue
        left.append(_quarantine(home, folder))
        folder.with_name(folder.name + _LOCK).unlink(missing_ok=True)
        _log.warning("quarantined %s", left[-1])
    return left


def _quarantine(home: Path, folder: Path) -> str:
    aside = home / "quarantine"
    aside.mkdir(mode=0o700, exist_ok=True)
    plain = folder.name.removeprefix(".")
    name = next(
        n for n in itertools.chain((plain,), (f"{plain}-{i}" for i in itertools.count(2))) if not (aside / n).exists()
    )
    folder.rename(aside / name)
    sync_folder(aside)
    sync_folder(root(home))
    return name


def _is_filled(folder: Path) -> bool:
    """Whether some process, of whichever server, still holds the lock of a hidden folder."""
    try:
        with folder.with_name(folder.name + _LOCK).open("r+b") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except FileNotFoundError:
        return False
    return False
