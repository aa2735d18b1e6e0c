"""The engine: runs an attempt somewhere else and says how it ended. It knows no job table, no ledger and no key."""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, Protocol

FAILED: Final = '{"failed":true}'
FULL: Final = '{"full":true}'
DAMAGED: Final = '{"damaged":true}'
AWAY: Final = '{"away":true}'
"""Where the data is, or who holds a part of it, could not be reached."""
LEFT: Final = '{"left":true}'


@dataclass(frozen=True, slots=True)
class Outcome:
    """How an attempt ended: with an output document, by raising, with its worker gone, without room or its data; or
    handed back by a worker that was told to stop.
    """

    kind: Literal["ok", "raised", "vanished", "full", "damaged", "left"]
    output: str = ""


def outcome(output: str) -> Outcome:
    """What a worker's document says."""
    return _WORDS.get(output) or Outcome("ok", output)


_WORDS: Final = {
    FAILED: Outcome("raised"),
    FULL: Outcome("full"),
    DAMAGED: Outcome("damaged"),
    AWAY: Outcome("vanished"),
    LEFT: Outcome("left"),
}


@dataclass(frozen=True, slots=True)
class Place:
    """Where a machine has what a server calls by paths of its own.

    Parameters
    ----------
    data : the folder of the datasets; None if it is where the server has it
    scratch : the folder of what attempts write, or None
    """

    data: Path | None = None
    scratch: Path | None = None

    def of(self, folder: str, scratch: str) -> tuple[Path, Path]:
        """A dataset's folder, and an attempt's own: of the same names, in the folders of this machine."""
        there, own = Path(folder), Path(scratch)
        return (self.data or there.parent) / there.name, (self.scratch or own.parent) / own.name


class Handle(Protocol):
    """An attempt that was handed over."""

    def done(self) -> bool:
        """Whether it has ended and its slot is free."""
        ...

    def result(self) -> Outcome:
        """How it ended; only after `done`."""
        ...

    def cancel(self) -> None:
        """Stop it: gently, then by restarting its worker. Returns at once; `done` says when it is over."""
        ...


class Engine(Protocol):
    """Runs attempts, each alone in its slot."""

    @property
    def slots(self) -> int:
        """How many attempts may run at once, of all servers that have it; 0 while there is nobody to run them."""
        ...

    def take(self, held: int) -> bool:
        """Whether there is a slot beside the `held` ones of this server; it is this one's then, until `hold`."""
        ...

    def hold(self, held: int) -> None:
        """This server has so many slots, and no other that it may have taken."""
        ...

    def submit(self, job_id: str, attempt: int, payload: str) -> Handle:
        """Start an attempt. How far it is, nobody hears: the time of a step tells what its batch was."""
        ...

    def close(self) -> None:
        """Stop everything."""
        ...


class Coming:
    """An engine that takes seconds to start, and has no slots until then.

    Parameters
    ----------
    make : starts it, and returns when it runs
    """

    def __init__(self, make: Callable[[], Engine]) -> None:
        self._make = make
        self._engine: Engine | None = None
        self._closed = False
        self._lock = threading.Lock()

    def start(self) -> None:
        """Returns when it runs; at once if it does already, or was closed before."""
        with self._lock:
            if self._engine is None and not self._closed:
                self._engine = self._make()

    @property
    def is_here(self) -> bool:
        """Whether it was started."""
        return self._engine is not None

    @property
    def slots(self) -> int:
        """None until it runs."""
        return 0 if self._engine is None else self._engine.slots

    def take(self, held: int) -> bool:
        """None until it runs."""
        return self._engine is not None and self._engine.take(held)

    def hold(self, held: int) -> None:
        """Holds as the engine does; nothing until it runs."""
        if self._engine is not None:
            self._engine.hold(held)

    def submit(self, job_id: str, attempt: int, payload: str) -> Handle:
        """Start an attempt; there is a slot."""
        assert self._engine is not None
        return self._engine.submit(job_id, attempt, payload)

    def close(self) -> None:
        """Stop everything; an engine that is just starting is waited for."""
        self._closed = True
        with self._lock:
            if self._engine is not None:
                self._engine.close()
