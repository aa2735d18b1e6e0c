"""Uploads that go on where they stopped: `<home>/uploads/<owner>/<id>.<length>`, a file each and nothing beside it.

How far one is, is its size; whose it is, its folder; how long it waits, its last write. So any server on the home goes
on with what another began, and one that is killed leaves nothing that is not true. A writer holds the file's lock for
one block and writes only where the file ends: of two at one place one wins, and no byte is ever written over.
"""

import fcntl
import logging
import os
import re
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from io import FileIO
from pathlib import Path

from app.http.errors import ApiError
from app.persistence.files import locked
from app.persistence.session import new_id
from app.settings import Settings
from app.sources.matrix import sync_folder

WAITING_EACH, WAITING = 4, 16  # not yet registered, of one steward and of all: each has its file on the disk
_ID = re.compile("up_[a-z0-9]{1,60}")
_LATER = {"Retry-After": "60"}
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Spooled:
    """An upload as its file is now.

    Parameters
    ----------
    length, offset : bytes of the whole file, and those that are there
    written : when the last of them came, in seconds since 1970
    """

    file: Path
    length: int
    offset: int
    written: float

    @property
    def id(self) -> str:
        """The upload's identifier."""
        return self.file.stem


def root(home: Path) -> Path:
    """The folder of all uploads; the first one makes it."""
    return home / "uploads"


def begin(settings: Settings, owner: str, length: int) -> Spooled:
    """A new upload of `length` bytes, durably; none of them is there yet.

    Raises
    ------
    ApiError
        too_large; too_many_requests or overloaded beyond WAITING_EACH or WAITING; disk_full if what is announced, here
        and by the others, would not fit.
    """
    if length > settings.max_upload_bytes:
        raise ApiError("too_large", f"A file may hold at most {settings.max_upload_bytes} bytes.")
    everybody = root(settings.home)
    everybody.mkdir(mode=0o700, exist_ok=True)
    with locked(everybody):
        waiting = _all(everybody, "*/up_*.*")
        if sum(upload.file.parent.name == owner for upload in waiting) >= WAITING_EACH:
            detail = f"At most {WAITING_EACH} uploads of one steward wait to be registered; delete one."
            raise ApiError("too_many_requests", detail, headers=_LATER)
        if len(waiting) >= WAITING:
            raise ApiError("overloaded", f"At most {WAITING} uploads wait, of all stewards.", headers=_LATER)
        announced = length + sum(upload.length - upload.offset for upload in waiting)
        if shutil.disk_usage(everybody).free < settings.min_free_bytes + announced:
            raise ApiError("disk_full")
        folder = everybody / owner
        folder.mkdir(mode=0o700, exist_ok=True)
        file = folder / f"{new_id('up')}.{length}"
        file.touch(mode=0o600, exist_ok=False)
        for made in (folder, everybody, settings.home):
            sync_folder(made)
    return _described(file)


def mine(home: Path, owner: str) -> list[Spooled]:
    """An owner's uploads, in the order of their ids."""
    return _all(root(home) / owner, "up_*.*")


def find(home: Path, owner: str, upload_id: str) -> Spooled:
    """An owner's upload, its offset on the disk; `ApiError` not_found, whether it is nobody's or another's."""
    for file in (root(home) / owner).glob(f"{upload_id}.*") if _ID.fullmatch(upload_id) else ():
        try:
            with file.open("rb") as opened:
                os.fsync(opened.fileno())
            return _described(file)
        except FileNotFoundError:
            break
    raise ApiError("not_found")


def append(upload: Spooled, at: int, block: bytes) -> int:
    """Writes a block where the file ends, which is `at`; where it ends then.

    Raises
    ------
    ApiError
        offset_mismatch if it ends elsewhere; too_large, before anything is written, if it would pass its length;
        upload_busy while another holds it; not_found once it is deleted.
    """
    with _held(upload.file) as file:
        end = os.fstat(file.fileno()).st_size
        if end != at:
            raise ApiError("offset_mismatch")
        if end + len(block) > upload.length:
            raise ApiError("too_large", f"This upload holds {upload.length} bytes, as was said when it began.")
        file.seek(end)
        rest = memoryview(block)
        while rest:
            rest = rest[file.write(rest) :]
    return end + len(block)


@contextmanager
def complete(home: Path, owner: str, upload_id: str) -> Iterator[Path]:
    """The file of an upload that is all there, which nobody else writes, registers or deletes inside the block.

    Raises
    ------
    ApiError
        not_found, upload_busy; upload_incomplete.
    """
    upload = find(home, owner, upload_id)
    with _held(upload.file):
        if upload.offset < upload.length:
            raise ApiError("upload_incomplete")
        yield upload.file


def remove(upload: Spooled) -> None:
    """Deletes an upload; `ApiError` upload_busy while it is written or registered, not_found if it is deleted."""
    with _held(upload.file):
        upload.file.unlink()
        sync_folder(upload.file.parent)


def sweep(home: Path, seconds: float) -> None:
    """Deletes what has waited for so long since its last byte; files of other names are nobody's to delete."""
    for upload in _all(root(home), "*/up_*.*"):
        if time.time() - upload.written > seconds:
            try:
                with _held(upload.file):
                    if _described(upload.file) == upload:
                        upload.file.unlink()
            except (ApiError, OSError):
                continue  # it goes on, after all
            _log.info("upload_expired %s", upload.id)


def _all(folder: Path, pattern: str) -> list[Spooled]:
    found = []
    for file in sorted(folder.glob(pattern)):
        with suppress(FileNotFoundError, ValueError):  # gone meanwhile, or none of ours
            found.append(_described(file))
    return found


def _described(file: Path) -> Spooled:
    known = file.stat()
    return Spooled(file, int(file.suffix[1:]), known.st_size, known.st_mtime)


@contextmanager
def _held(path: Path) -> Iterator[FileIO]:
    """The file, which nobody else holds inside the block; `ApiError` upload_busy or not_found."""
    try:
        file = path.open("r+b", buffering=0)
    except FileNotFoundError:
        raise ApiError("not_found") from None
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ApiError("upload_busy", headers={"Retry-After": "1"}) from None
        if not os.fstat(file.fileno()).st_nlink:
            raise ApiError("not_found")
        yield file
