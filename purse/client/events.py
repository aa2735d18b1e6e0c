"""A job's server-sent events, read line by line and continued after a lost connection. No I/O."""

import time
from dataclasses import dataclass, field
from typing import Final

from purse.client.calls import Call, api_path, ignore
from purse.errors import Unreachable
from purse.wire.jobs import Job, JobEvent, JobState

FINISHED: Final[frozenset[JobState]] = frozenset({"done", "failed", "cancelled"})
MAX_SILENCE_SECONDS: Final = 60.0  # the server sends a comment more often
MAX_DISCONNECTED_SECONDS: Final = 60.0
_MIN_READ_SECONDS: Final = 0.05


@dataclass(slots=True)
class EventStream:
    """The events of one job: `call()` opens a connection, `feed(line)` reads a line, `lost()` times a new connection.

    Parameters
    ----------
    job : the job's id
    timeout : seconds until `TimeoutError`; unlimited if None
    """

    job: str
    timeout: float | None = None
    _last_id: str | None = None
    _data: list[str] = field(default_factory=list)
    _failed_connections: int = 0
    _last_line_at: float = field(default_factory=time.monotonic)
    _started_at: float = field(default_factory=time.monotonic)

    def call(self) -> Call[None]:
        """Return the request for all events after the last one that was read."""
        self._data.clear()
        headers = {"Accept": "text/event-stream"} | ({"Last-Event-ID": self._last_id} if self._last_id else {})
        return Call("GET", api_path("jobs", self.job, "events"), ignore, headers=headers)

    def read_timeout(self) -> float:
        """Return the seconds without data after which the connection counts as lost."""
        if self.timeout is None:
            return MAX_SILENCE_SECONDS
        remaining = self._started_at + self.timeout - time.monotonic()
        return max(_MIN_READ_SECONDS, min(MAX_SILENCE_SECONDS, remaining))

    def feed(self, line: str) -> JobEvent | None:
        """Return the event that this line completes, if any.

        Raises
        ------
        TimeoutError
            if the time is up. The job goes on; `jobs.get(id)` returns it.
        """
        self._check_timeout()
        self._last_line_at, self._failed_connections = time.monotonic(), 0
        if line:
            name, _, value = line.partition(":")
            value = value.removeprefix(" ")
            if name == "data":
                self._data.append(value)
            elif name == "id":
                self._last_id = value
            return None
        if not self._data:
            return None
        event = JobEvent.model_validate_json("\n".join(self._data), extra="ignore")
        self._data.clear()
        return event

    def lost(self) -> float:
        """Return the seconds to wait before the next connection, after one broke or closed.

        Raises
        ------
        TimeoutError
            if the time is up.
        Unreachable
            after MAX_DISCONNECTED_SECONDS without a connection. The job goes on; `jobs.get(id)` returns it.
        """
        self._check_timeout()
        self._failed_connections += 1
        if time.monotonic() - self._last_line_at > MAX_DISCONNECTED_SECONDS + MAX_SILENCE_SECONDS:
            raise Unreachable(
                f"The server did not answer for a minute while the client waited for job {self.job}. The job goes on: "
                f"call jobs.get({self.job!r}) when the server is back."
            )
        return 0.1 * float(2 ** min(self._failed_connections, 4))

    def _check_timeout(self) -> None:
        if self.timeout is not None and time.monotonic() - self._started_at > self.timeout:
            raise TimeoutError(
                f"Job {self.job} has not finished within the timeout of {self.timeout:g} s. It goes on. Call "
                f"jobs.get({self.job!r}).result() to wait again."
            )


def as_event(job: Job) -> JobEvent:
    """Return a job's state as an event."""
    return JobEvent(state=job.state, attempt=job.attempt, progress=job.progress)
