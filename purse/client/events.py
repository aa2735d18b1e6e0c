"""A job's server-sent events, read line by line and picked up where a lost connection left them. No I/O."""

import time
from dataclasses import dataclass, field
from typing import Final

from purse.client.calls import Call, at, nothing
from purse.errors import Unreachable
from purse.wire.jobs import Job, JobEvent, JobState

FINISHED: Final[frozenset[JobState]] = frozenset({"done", "failed", "cancelled"})
SILENCE: Final = 60.0  # seconds; the server sends a comment more often than that
PATIENCE: Final = 60.0  # seconds without any connection


@dataclass(slots=True)
class EventStream:
    """Follows one job: `call()` opens a connection, `feed(line)` reads it, `lost()` says when to open the next.

    Parameters
    ----------
    job : the job's identifier
    timeout : seconds until `TimeoutError`; None for as long as it takes
    """

    job: str
    timeout: float | None = None
    _last: str | None = None
    _data: list[str] = field(default_factory=list)
    _lost: int = 0
    _heard: float = field(default_factory=time.monotonic)
    _start: float = field(default_factory=time.monotonic)

    def call(self) -> Call[None]:
        """The request that goes on after the last event seen."""
        self._data.clear()
        headers = {"Accept": "text/event-stream"} | ({"Last-Event-ID": self._last} if self._last else {})
        return Call("GET", at("jobs", self.job, "events"), nothing, headers=headers)

    def read_timeout(self) -> float:
        """Seconds that the connection may be silent."""
        if self.timeout is None:
            return SILENCE
        return max(0.05, min(SILENCE, self._start + self.timeout - time.monotonic()))

    def feed(self, line: str) -> JobEvent | None:
        """The event that this line completes, if any.

        Raises
        ------
        TimeoutError
            when the time is up; the job goes on, and `jobs.get(id)` finds it again.
        """
        self._check()
        self._heard, self._lost = time.monotonic(), 0
        if line:
            name, _, value = line.partition(":")
            value = value.removeprefix(" ")
            if name == "data":
                self._data.append(value)
            elif name == "id":
                self._last = value
            return None
        if not self._data:
            return None
        event = JobEvent.model_validate_json("\n".join(self._data), extra="ignore")
        self._data.clear()
        return event

    def lost(self) -> float:
        """The connection broke or closed: the seconds to wait before the next one.

        Raises
        ------
        TimeoutError
            when the time is up.
        Unreachable
            after a minute without any connection; the job goes on, and `jobs.get(id)` finds it again.
        """
        self._check()
        self._lost += 1
        if time.monotonic() - self._heard > PATIENCE + SILENCE:
            raise Unreachable(f"lost the server while waiting for job {self.job}; it goes on without us")
        return 0.1 * float(2 ** min(self._lost, 4))

    def _check(self) -> None:
        if self.timeout is not None and time.monotonic() - self._start > self.timeout:
            raise TimeoutError(f"job {self.job} has not finished within {self.timeout:g} s; it goes on")


def as_event(job: Job) -> JobEvent:
    """A job's state as the event that says the same."""
    return JobEvent(state=job.state, attempt=job.attempt, progress=job.progress)
