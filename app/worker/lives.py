"""Locks on a home: any number of servers or one command alone; and the detection of dead servers on this machine.

A server holds a shared lock on the home; `purse fit` holds it exclusively. A server whose workers are its own processes
also locks a file named after its dispatcher. The operating system releases that lock when the process ends, even by a
kill. If another process gets this lock, in the same boot of the same machine, the holder is dead and nothing receives
the results of its workers. The process then need not wait for the lease. Holders on other machines cannot be checked in
this way.
"""

import fcntl
import os
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import IO

from app.persistence.files import StartRefused
from app.settings import Settings


def lock_home(home: Path, alone: bool = False) -> IO[bytes]:
    """Return the home's lock, which is held until this file is closed.

    Parameters
    ----------
    alone : whether no other process may serve the home meanwhile

    Raises
    ------
    StartRefused
        if another process serves the home, and one of the two must be alone.
    """
    lock = (home / "server.lock").open("a+b")
    try:
        fcntl.flock(lock, (fcntl.LOCK_EX if alone else fcntl.LOCK_SH) | fcntl.LOCK_NB)
    except OSError:
        lock.close()
        raise StartRefused(
            f"another purse server runs on {home}. Stop it first, or choose another PURSE_HOME"
        ) from None
    return lock


def check_free(settings: Settings, alone: bool = True) -> None:
    """Raise `StartRefused` if a server runs on this home; if not `alone`, only if a command uses the home alone."""
    lock_home(settings.make_home(), alone).close()


class Lives:
    """The lock files of servers whose workers are their own processes.

    Parameters
    ----------
    home : home of the servers
    boot : identifier of this boot of the machine (`Clock.boot`)
    """

    def __init__(self, home: Path, boot: str) -> None:
        self._folder, self._boot = home / "servers", boot
        self._own: tuple[Path, IO[bytes]] | None = None

    def start(self, holder: str) -> None:
        """Lock a file for this holder until `stop` or the end of this process."""
        self._folder.mkdir(mode=0o700, exist_ok=True)
        descriptor, part = tempfile.mkstemp(dir=self._folder, prefix=".")
        file = os.fdopen(descriptor, "r+b")
        fcntl.flock(file, fcntl.LOCK_EX)  # before the file has its name, so that no other process finds it unlocked
        file.write(self._boot.encode())
        file.flush()
        os.replace(part, self._folder / holder)
        self._own = (self._folder / holder, file)

    def dead_holders(self) -> list[str]:
        """Return the holders of this boot that are dead; each one is returned once, to one caller."""
        holders = []
        for path in sorted(self._folder.glob("run_*")):
            with suppress(OSError), path.open("r+b") as file:  # the holder lives, or another process removes it
                if file.read() == self._boot.encode():
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    path.unlink()
                    holders.append(path.name)
        return holders

    def stop(self) -> None:
        """Remove the file of this holder."""
        if self._own is not None:
            path, file = self._own
            path.unlink(missing_ok=True)
            file.close()
            self._own = None
