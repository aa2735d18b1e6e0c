"""Small files that are whole or not there, whatever stops us while they are written."""

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
        (errno.ENOTDIR, errno.EEXIST), "a directory is expected here; move the file away, or name another place"
    ),
}


class StartRefused(RuntimeError):
    """The state that a start found is not one to go on from; the message says what to do."""


def described(error: OSError) -> str:
    """Return which file an error concerns, what is wrong with it and what to do; never the error's own text.

    Errors of our own (`app.persistence.dialect`) say all of that themselves. The numbers of `ssl.SSLError` are no
    system's.
    """
    if error.errno is None or type(error).__module__ != "builtins":
        return str(error)
    advice = _ADVICE.get(error.errno)
    said = [str(error.filename)] if error.filename is not None else []
    return ": ".join([*said, os.strerror(error.errno), *([advice] if advice else [])])


def write_whole(path: Path, content: bytes) -> None:
    """The file with this content, mode 0600, on the disk before this returns; until then the one before it."""
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
    """Alone with this file among all processes that ask so, by a lock beside it, since the file itself is replaced.

    It is let go of by name: closing would leave it with whoever was forked meanwhile, for as long as that lives.
    """
    with file.with_name(f".{file.name}.lock").open("ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.flock(lock, fcntl.LOCK_UN)
