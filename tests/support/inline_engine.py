"""An engine inside the test's process: each attempt on a thread, held back or ended otherwise if a test says so."""

import threading

from app.worker.engine import RAISED
from app.worker.execute import run


class Stopped(BaseException):
    """The attempt was cancelled."""


class InlineEngine:
    """An engine that runs `app.worker.execute.run` like a Dask worker, without Dask.

    Parameters
    ----------
    slots : how many attempts at once
    """

    THREAD = "inline attempt"

    def __init__(self, slots: int = 2) -> None:
        self.slots = slots
        self.submitted: list[tuple[str, int]] = []
        self.gate = threading.Event()  # cleared: attempts wait before they open the data
        self.gate.set()
        self.ends: dict[int, str] = {}  # attempt number -> how it ends, whatever the code does

    def take(self, held_slots: int) -> bool:
        """Return whether a slot is free."""
        return held_slots < self.slots

    def hold(self, held_slots: int) -> None:
        """Do nothing, because no other engine shares the slots."""

    def submit(self, job_id: str, attempt: int, payload: str) -> "InlineHandle":
        """Start an attempt on a thread of its own, with compiled code loaded before, as on a Dask worker.

        Compiling may take minutes on a busy machine, and attempts have a time limit.
        """
        self.submitted.append((job_id, attempt))
        if attempt not in self.ends:
            import solvers.compiled  # noqa: F401
        return InlineHandle(self.gate, payload, self.ends.get(attempt))

    def close(self) -> None:
        """Let everything end."""
        self.gate.set()


class InlineHandle:
    """One attempt."""

    def __init__(self, gate: threading.Event, payload: str, end: str | None) -> None:
        self._gate, self._payload = gate, payload
        self._outcome = end
        self._cancelled = threading.Event()
        self._thread = threading.Thread(target=self._work, name=InlineEngine.THREAD, daemon=True)
        self._thread.start()

    def done(self) -> bool:
        """Return whether the thread has ended."""
        return not self._thread.is_alive()

    def result(self) -> str:
        """Return the output of the attempt, or the word for its end."""
        assert self._outcome is not None
        return self._outcome

    def cancel(self) -> None:
        """Stop at the next answer, or at the gate."""
        self._cancelled.set()

    def _work(self) -> None:
        while not self._gate.wait(0.01):
            if self._cancelled.is_set():
                break
        if self._outcome is not None:
            return
        try:
            self._outcome = run(self._payload, self._obey)
        except Stopped:
            self._outcome = RAISED

    def _obey(self, _done: int) -> None:
        if self._cancelled.is_set():
            raise Stopped
