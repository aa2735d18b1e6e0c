"""Parts inside a server of `tests.heavy.kills`: a clock set from outside and, for the control, no fence."""

import mmap
import struct
import time
from pathlib import Path

_SECONDS = struct.Struct("d")


def set_clock(file: Path, seconds: float) -> None:
    """Shift every wall clock that reads this file by these seconds."""
    with file.open("r+b" if file.exists() else "w+b") as clock_file:
        clock_file.write(_SECONDS.pack(seconds))


def begin(clock: str, unfenced: bool) -> None:
    """Before anything else of the server is loaded.

    Parameters
    ----------
    clock : the file of `set_clock`
    unfenced : an attempt that was overtaken may end as if it were the one that overtook it
    """
    with Path(clock).open("rb") as file:
        shift, wall = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ), time.time
    time.time = lambda: wall() + _SECONDS.unpack_from(shift)[0]
    if unfenced:
        from app.jobs import store
        from tests.support.unfenced import held_by_anybody

        store.live_attempt = held_by_anybody()
