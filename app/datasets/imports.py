"""Copies of files below PURSE_IMPORT_URL, for stewards who name a file there instead of sending it.

The caller states a relative path, and never a host, a bucket or a folder. A file is copied once, and only the copy is
read, so a later change of the file has no effect. A file that changes during the copy is refused.
"""

import logging
import os
import re
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from app.http.errors import ApiError, invalid_field
from app.settings import Settings
from app.sources.errors import StorageUnreachable
from app.sources.partitions import reached

MOST_PATH_CHARACTERS = 1024
_NAME = "[A-Za-z0-9_=+@-][A-Za-z0-9_=+@ .-]*"  # of a file or folder: not hidden, and neither `.` nor `..`
_PATH = re.compile(f"{_NAME}(/{_NAME})*")
_COPY_BYTES = 2**24  # copied at a time, in one request to object storage
_log = logging.getLogger(__name__)


@contextmanager
def copy_of(settings: Settings, steward: str, path: str, target: Path) -> Iterator[Path]:
    """Copy the file at this path below PURSE_IMPORT_URL, and yield the copy. At the end, log who requested it.

    An earlier line would reveal how long the file was read inside the block, which depends on its values.

    Parameters
    ----------
    steward : id of the caller's identity
    target : a file that the copy replaces

    Raises
    ------
    ApiError
        invalid_request if the server has no PURSE_IMPORT_URL, or the path is malformed or names no regular file;
        too_large; disk_full; unreadable_file if the file changed meanwhile; storage_unavailable.
    """
    if settings.import_url is None:
        raise _wrong("needs a PURSE_IMPORT_URL, which this server has not set. Send the part `file` instead")
    if not _PATH.fullmatch(path):
        raise _wrong(
            "must be a relative path, such as `2026/visits.parquet`. Names of files and folders consist of ASCII "
            "letters, digits, spaces and the characters _ - . = + @, and begin with neither a space nor a dot"
        )
    try:
        _copy(settings, settings.import_url, path, target)
        yield target
    finally:
        _log.info("file_import_requested %s by %s", path, steward)


def _copy(settings: Settings, url: str, path: str, target: Path) -> None:
    try:
        with _source(url, path) as (source, size, version), target.open("wb") as copy:
            _refuse_size(settings, size)
            while (piece := _read(source)) and copy.tell() <= size:
                _refuse_full_disk(settings, len(piece))  # again, because others write meanwhile
                copy.write(piece)
            is_unchanged = copy.tell() == size
        with _source(url, path) as (_, _, version_after):
            is_unchanged &= version == version_after
    except StorageUnreachable:
        raise ApiError("storage_unavailable") from None
    if not is_unchanged:
        raise ApiError("unreadable_file", "The file changed while it was copied. Register it when it is complete.")


def _refuse_size(settings: Settings, size: int) -> None:
    """Raise an `ApiError` too_large, or disk_full if the copy would not fit on the home's disk."""
    if size > settings.max_import_bytes:
        raise ApiError(
            "too_large",
            f"An imported file may have at most {settings.max_import_bytes:,} bytes. Register fewer rows or columns, "
            "or ask the operator to raise PURSE_MAX_IMPORT_BYTES.",
        )
    _refuse_full_disk(settings, size)


def _refuse_full_disk(settings: Settings, size: int) -> None:
    """Raise an `ApiError` disk_full if so many bytes would leave less than `min_free_bytes` on the home's disk."""
    if shutil.disk_usage(settings.home).free < settings.min_free_bytes + size:
        raise ApiError("disk_full")


@contextmanager
def _source(url: str, path: str) -> Iterator[tuple[IO[bytes], int, object]]:
    """Open a file; yield it with its size in bytes and its version. Raise an `ApiError` if it is no regular file."""
    from pyarrow import fs  # late: Arrow

    with reached():
        files, root = fs.FileSystem.from_uri(url)
    try:
        if isinstance(files, fs.LocalFileSystem):
            opened: Any = _local(Path(root), path)
            status = os.fstat(opened.fileno())
            size = status.st_size
            version: object = (status.st_ino, size, status.st_mtime_ns, status.st_ctime_ns)
        else:
            with reached():
                opened = files.open_input_file(f"{root.rstrip('/')}/{path}")
                size = opened.size()
                version = opened.metadata()
    except FileNotFoundError:
        raise _wrong("names no file below PURSE_IMPORT_URL. Check its spelling. Symbolic links are refused") from None
    with opened:
        yield opened, size, version


def _local(root: Path, path: str) -> IO[bytes]:
    """Open a regular file without following a symbolic link below the root; otherwise raise a FileNotFoundError."""
    *folders, name = path.split("/")
    try:
        descriptor = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    except OSError:
        raise StorageUnreachable("The folder of imported files cannot be opened.") from None
    try:
        for folder in folders:
            inner = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=descriptor)
            os.close(descriptor)
            descriptor = inner
        inner = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=descriptor)
    except OSError:
        raise FileNotFoundError(path) from None
    finally:
        os.close(descriptor)
    if not stat.S_ISREG(os.fstat(inner).st_mode):
        os.close(inner)
        raise FileNotFoundError(path)
    return os.fdopen(inner, "rb")


def _read(source: IO[bytes]) -> bytes:
    with reached():
        return source.read(_COPY_BYTES)


def _wrong(reason: str) -> ApiError:
    return invalid_field("body.path", reason)
