"""Small files that are written atomically, locks on files, and sentences for errors of files."""

import errno
import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_ADVICE = {
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT), "free some space on its disk, and try again"),
    **dict.fromkeys(
        (errno.EACCES, errno.EPERM, errno.EROFS), "let the user who runs this command read and write it, and try again"
    ),
    errno.EISDIR: "a file is expected here; move the directory away; if it replaced a file, restore that from a backup",
    **dict.fromkeys(
        (errno.ENOTDIR, errno.EEXIST), "a directory is expected here; move the file away, or name another path"
    ),
}


class StartRefused(RuntimeError):
    """The stored state does not allow a start; the message says why and how to fix it."""


def described(error: OSError) -> str:
    """Return which file an error concerns, what is wrong with it and how to fix it; never the error's own text.

    Errors of `app.persistence.dialect` have complete messages. The numbers of `ssl.SSLError` are not those of the
    operating system.
    """
    if error.errno is None or type(error).__module__ != "builtins":
        return str(error)
    advice = _ADVICE.get(error.errno)
    parts = [None if error.filename is None else str(error.filename), os.strerror(error.errno), advice]
    return ": ".join(part for part in parts if part)


def write_whole(path: Path, content: bytes) -> None:
    """Replace a file atomically (mode 0600); the content is on the disk when this returns."""
    descriptor, part = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
    except BaseException:
        Path(part).unlink(missing_ok=True)
        raise
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


@contextmanager
def locked(file: Path) -> Iterator[None]:
    """Exclude all other processes that lock this file, by a lock file beside it, because the file itself is replaced.

    The lock is released explicitly: after closing alone, a process that was forked meanwhile would still hold it.
    """
    with file.with_name(f".{file.name}.lock").open("ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.flock(lock, fcntl.LOCK_UN)
