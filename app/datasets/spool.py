"""Files of resumable uploads: `<home>/uploads/<owner>/<id>.<length>`, one file for each upload and no other state.

The size of the file is the offset of the upload, its folder states the owner, and its last write starts the time to
expiry. Any server on the home can therefore continue an upload, and a killed server leaves no wrong state. A writer
locks the file for one block and writes only at its end: of two concurrent writers one is refused, and no byte is ever
overwritten.
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
from app.sources.matrix import sync

WAITING_EACH, WAITING = 4, 16  # not yet registered, of one steward and of all: each has a file on the disk
_ID = re.compile("up_[a-z0-9]{1,60}")
_RETRY = {"Retry-After": "60"}
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Spooled:
    """The present state of an upload.

    Parameters
    ----------
    length, offset : size of the whole file, and of the received part, in bytes
    written : time of the last write, in seconds since 1970
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
    """Return the folder of all uploads; the first upload creates it."""
    return home / "uploads"


def begin(settings: Settings, owner: str, length: int) -> Spooled:
    """Create an empty upload for `length` bytes, durably.

    Raises
    ------
    ApiError
        too_large; too_many_requests or overloaded beyond WAITING_EACH or WAITING; disk_full if the missing bytes of
        all uploads would not fit on the disk.
    """
    if length > settings.max_upload_bytes:
        raise ApiError(
            "too_large",
            f"A file may have at most {settings.max_upload_bytes} bytes. Send fewer rows or columns, or ask the "
            "operator to raise PURSE_MAX_UPLOAD_BYTES.",
        )
    uploads = root(settings.home)
    uploads.mkdir(mode=0o700, exist_ok=True)
    with locked(uploads):
        waiting = _all(uploads, "*/up_*.*")
        if sum(upload.file.parent.name == owner for upload in waiting) >= WAITING_EACH:
            detail = f"You have {WAITING_EACH} unregistered uploads, the most allowed. Register or delete one."
            raise ApiError("too_many_requests", detail, headers=_RETRY)
        if len(waiting) >= WAITING:
            raise ApiError(
                "overloaded",
                f"All stewards together have {WAITING} unregistered uploads, the most allowed. Try again later.",
                headers=_RETRY,
            )
        announced = length + sum(upload.length - upload.offset for upload in waiting)
        if shutil.disk_usage(uploads).free < settings.min_free_bytes + announced:
            raise ApiError("disk_full")
        folder = uploads / owner
        folder.mkdir(mode=0o700, exist_ok=True)
        file = folder / f"{new_id('up')}.{length}"
        file.touch(mode=0o600, exist_ok=False)
        for parent in (folder, uploads, settings.home):
            sync(parent)
    return _described(file)


def owned(home: Path, owner: str) -> list[Spooled]:
    """Return an owner's uploads, ordered by id."""
    return _all(root(home) / owner, "up_*.*")


def find(home: Path, owner: str, upload_id: str) -> Spooled:
    """Return an owner's upload, with its bytes synced to disk. Raise `ApiError` not_found if it is not theirs."""
    for file in (root(home) / owner).glob(f"{upload_id}.*") if _ID.fullmatch(upload_id) else ():
        try:
            sync(file)
            return _described(file)
        except FileNotFoundError:
            break
    raise ApiError("not_found")


def append(upload: Spooled, at: int, block: bytes) -> int:
    """Write a block at the end of the file; return the new end.

    Parameters
    ----------
    at : the end of the file as the sender knows it

    Raises
    ------
    ApiError
        offset_mismatch if the file ends elsewhere; too_large, before anything is written, beyond the upload's length;
        upload_busy while another request uses the upload; not_found after its deletion.
    """
    with _locked(upload.file) as file:
        end = os.fstat(file.fileno()).st_size
        if end != at:
            raise ApiError("offset_mismatch")
        if end + len(block) > upload.length:
            detail = (
                f"The body goes beyond the {upload.length} bytes of this upload. Send only the bytes that are missing."
            )
            raise ApiError("too_large", detail)
        file.seek(end)
        unwritten = memoryview(block)
        while unwritten:
            unwritten = unwritten[file.write(unwritten) :]
    return end + len(block)


@contextmanager
def complete(home: Path, owner: str, upload_id: str) -> Iterator[Path]:
    """Lock the file of a complete upload for the block, against writing, registration and deletion.

    Raises
    ------
    ApiError
        not_found, upload_busy; upload_incomplete.
    """
    upload = find(home, owner, upload_id)
    with _locked(upload.file):
        if upload.offset < upload.length:
            raise ApiError("upload_incomplete")
        yield upload.file


def remove(upload: Spooled) -> None:
    """Delete an upload; `ApiError` upload_busy while it is written or registered, not_found after its deletion."""
    with _locked(upload.file):
        upload.file.unlink()
        sync(upload.file.parent)


def sweep(home: Path, seconds: float) -> None:
    """Delete uploads without a write for so many seconds; files with other names are left alone."""
    for upload in _all(root(home), "*/up_*.*"):
        if time.time() - upload.written > seconds:
            try:
                with _locked(upload.file):
                    if _described(upload.file) == upload:
                        upload.file.unlink()
            except (ApiError, OSError):
                continue  # in use again
            _log.info("upload_expired %s", upload.id)


def _all(folder: Path, pattern: str) -> list[Spooled]:
    uploads = []
    for file in sorted(folder.glob(pattern)):
        with suppress(FileNotFoundError, ValueError):  # deleted meanwhile, or not an upload
            uploads.append(_described(file))
    return uploads


def _described(file: Path) -> Spooled:
    status = file.stat()
    return Spooled(file, int(file.suffix[1:]), status.st_size, status.st_mtime)


@contextmanager
def _locked(path: Path) -> Iterator[FileIO]:
    """Open and lock the file for the block; `ApiError` upload_busy or not_found."""
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
