"""Small files that are whole or not there, whatever stops us while they are written."""

import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class StartRefused(RuntimeError):
    """The state that a start found is not one to go on from; the message says what to do."""


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
