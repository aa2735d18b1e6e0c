"""The interface of engines, which run attempts in other processes and have no access to jobs, ledgers or keys."""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

# An attempt ends with its output, a JSON object, or with one of these words.
RAISED: Final = "raised"
"""An error was raised."""
VANISHED: Final = "vanished"
"""The worker, another worker that holds a part of the data, or the folder of the data could not be reached."""
FULL: Final = "full"
"""The disk of the worker was full."""
DAMAGED: Final = "damaged"
"""The stored values are missing or were changed."""
HANDED_BACK: Final = "left"
"""The worker was asked to stop."""
WORDS: Final = (RAISED, VANISHED, FULL, DAMAGED, HANDED_BACK)


@dataclass(frozen=True, slots=True)
class Folders:
    """The folders of a machine whose paths differ from the server's.

    Parameters
    ----------
    data : folder of the datasets; None if the path is the server's
    scratch : folder of temporary files of attempts; None if the path is the server's
    """

    data: Path | None = None
    scratch: Path | None = None

    def of(self, folder: str, scratch: str) -> tuple[Path, Path]:
        """Return the folder of a dataset and that of an attempt on this machine, under the same names."""
        dataset = Path(folder)
        attempt = Path(scratch)
        return (self.data or dataset.parent) / dataset.name, (self.scratch or attempt.parent) / attempt.name


class Handle(Protocol):
    """An attempt that was submitted."""

    def done(self) -> bool:
        """Return whether the attempt has ended and its slot is free."""

    def result(self) -> str:
        """Return the output of the attempt, or the word for its end; to be called after `done`."""

    def cancel(self) -> None:
        """Request the attempt to stop, and restart its worker if it does not. Return at once."""


class Engine(Protocol):
    """A set of slots that run one attempt each."""

    @property
    def slots(self) -> int:
        """Number of attempts of all servers that may run at once; 0 while no worker is available."""

    def take(self, held_slots: int) -> bool:
        """Return whether a slot is free beside the `held_slots` of this server, and reserve it until `hold`."""

    def hold(self, held_slots: int) -> None:
        """Record that this server holds so many slots, and release any other that `take` reserved."""

    def submit(self, job_id: str, attempt: int, payload: str) -> Handle:
        """Start an attempt. Its progress is not reported, because the time of a step depends on its batch."""

    def close(self) -> None:
        """Stop everything."""


class StartingEngine:
    """An engine that takes seconds to start. It has no slots until then.

    Parameters
    ----------
    make : starts the engine and returns when it runs
    """

    def __init__(self, make: Callable[[], Engine]) -> None:
        self._make = make
        self._engine: Engine | None = None
        self._closed = False
        self._lock = threading.Lock()

    def start(self) -> None:
        """Start the engine and wait until it runs; do nothing if it runs already or was closed."""
        with self._lock:
            if self._engine is None and not self._closed:
                self._engine = self._make()

    @property
    def has_started(self) -> bool:
        """Whether the engine has started."""
        return self._engine is not None

    @property
    def slots(self) -> int:
        """See `Engine`; 0 before the start."""
        return 0 if self._engine is None else self._engine.slots

    def take(self, held_slots: int) -> bool:
        """See `Engine`; False before the start."""
        return self._engine is not None and self._engine.take(held_slots)

    def hold(self, held_slots: int) -> None:
        """See `Engine`; does nothing before the start."""
        if self._engine is not None:
            self._engine.hold(held_slots)

    def submit(self, job_id: str, attempt: int, payload: str) -> Handle:
        """See `Engine`; a slot must be free."""
        assert self._engine is not None
        return self._engine.submit(job_id, attempt, payload)

    def close(self) -> None:
        """Stop everything; wait for an engine that is starting."""
        self._closed = True
        with self._lock:
            if self._engine is not None:
                self._engine.close()
