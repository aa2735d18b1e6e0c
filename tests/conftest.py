"""How the suite ends."""

import os
import sys

import pytest

_status: list[int] = []


def pytest_sessionfinish(exitstatus: int) -> None:
    """Keep what the run came to."""
    _status.append(int(exitstatus))


@pytest.hookimpl(trylast=True)
def pytest_unconfigure() -> None:
    """Leave without exit handlers once all is said.

    Arrow's CSV reader, dropped in the middle of a file it refused, can leave a thread of its pool waiting for itself;
    the pool's exit handler then waits for that thread, at times for ever. The server ends by the signal that stops it.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    if _status:
        os._exit(_status[0])
