"""Who serves a home: any number of servers, or one command alone; and which of those on this machine have died.

A server holds a lock on the home that it shares with other servers; `purse fit` holds it alone. And a server whose
workers are its own processes holds one on a file that is named after its dispatcher: the system lets go of it when the
process ends, also by a kill. Whoever gets that lock, in the same boot of the same machine, knows that this holder is
dead, and that nobody hears its workers any more, and waits for no lease. Nothing is concluded about another machine's.
"""

import fcntl
import os
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import IO


def attend(home: Path, alone: bool = False) -> IO[bytes]:
    """The home's lock, held until this file is closed.

    Parameters
    ----------
    alone : whether nobody else may serve it meanwhile

    Raises
    ------
    RuntimeError
        if somebody serves it in a way that does not allow this.
    """
    lock = (home / "server.lock").open("a+b")
    try:
        fcntl.flock(lock, (fcntl.LOCK_EX if alone else fcntl.LOCK_SH) | fcntl.LOCK_NB)
    except OSError:
        lock.close()
        raise RuntimeError(
            f"another purse server runs on {home}; stop it first, or choose another PURSE_HOME"
        ) from None
    return lock


class Lives:
    """The servers of a home whose workers are their own processes.

    Parameters
    ----------
    home : the home
    boot : of this machine, as `Clock`
    """

    def __init__(self, home: Path, boot: str) -> None:
        self._folder, self._boot = home / "servers", boot
        self._own: tuple[Path, IO[bytes]] | None = None

    def begin(self, holder: str) -> None:
        """From now on this holder lives, until this process ends or says so."""
        self._folder.mkdir(mode=0o700, exist_ok=True)
        descriptor, part = tempfile.mkstemp(dir=self._folder, prefix=".")
        file = os.fdopen(descriptor, "r+b")
        fcntl.flock(file, fcntl.LOCK_EX)  # before it has its name, so that nobody finds it free
        file.write(self._boot.encode())
        file.flush()
        os.replace(part, self._folder / holder)
        self._own = (self._folder / holder, file)

    def ended(self) -> list[str]:
        """The holders of this boot that are dead; each is told once, to one."""
        found = []
        for path in sorted(self._folder.glob("run_*")):
            with suppress(OSError), path.open("r+b") as file:  # it lives, or another one is told of it
                if file.read() == self._boot.encode():
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    path.unlink()
                    found.append(path.name)
        return found

    def end(self) -> None:
        """An orderly end: there is nothing to find."""
        if self._own is not None:
            path, file = self._own
            path.unlink(missing_ok=True)
            file.close()
            self._own = None
