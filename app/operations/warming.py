"""The part of a start that runs beside requests: the calculating process and the workers."""

import logging
import threading
from collections.abc import Callable

from app.calculation.calculators import Calculators

_RETRY_SECONDS = 5.0  # until another attempt to start the calculating process, or the workers
_LOG = logging.getLogger("purse.main")


def warm_up(
    ready: threading.Event, stopping: threading.Event, calculators: Calculators, begin_work: Callable[[], None]
) -> None:
    """Set `ready` once the calculating process answers and the workers run; try both again until the server stops.

    A process may have been killed while it started: by an operator, or for lack of memory. Workers start last because
    they would take the processors from the calculating process, which the first requests wait for.
    """

    def wait(error: str) -> bool:
        ready.clear()
        _LOG.critical("%s; trying again in %g seconds", error, _RETRY_SECONDS)
        return not stopping.wait(_RETRY_SECONDS)

    while not calculators.is_warm():
        if stopping.is_set() or not wait("the calculating process did not start"):
            return
    ready.set()
    while True:
        try:
            begin_work()
        except Exception as error:
            if not wait(f"the workers did not start: {type(error).__name__}"):
                return
        else:
            ready.set()
            return
