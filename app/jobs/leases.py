"""Holders of running jobs, and how other dispatchers decide whether a holder is alive.

A holder is one life of one dispatcher. It increments its heartbeat counter, `holders.beat`, every few seconds. A
dispatcher that looks for work records, on its own monotonic clock, since when each counter has not moved. After
`lease_seconds` the holder counts as dead, and so does a holder without a counter. Clocks of two machines are therefore
never compared, any number of dispatchers can use one database, and no dispatcher considers itself dead.

A holder that counted as dead and continues does no harm: its jobs then have other attempts, and each of its steps
checks its own attempt (`store.live_attempt`).
"""

from collections.abc import Mapping

from app.persistence.clock import Clock
from app.persistence.session import new_id


class Holder:
    """One life of one dispatcher, with its observations of other holders.

    Parameters
    ----------
    clock : measures for how long a counter has not moved
    lease_seconds : a holder whose counter does not move for this long is dead
    """

    def __init__(self, clock: Clock, lease_seconds: float) -> None:
        self.id = new_id("run")
        self._clock, self._lease = clock, lease_seconds
        self._observed: dict[str, tuple[int, float]] = {}

    def living(self, beats: Mapping[str, int]) -> list[str]:
        """Return the living holders, with this one, given the present counters."""
        alive = {holder for holder, seconds in self._observe(beats).items() if seconds < self._lease}
        return sorted(alive | {self.id})

    def stillest(self, beats: Mapping[str, int]) -> float:
        """Return the longest time in seconds for which one of these counters has not moved, as observed here."""
        return max(self._observe(beats).values(), default=0.0)

    def _observe(self, beats: Mapping[str, int]) -> dict[str, float]:
        """Return for each holder how many seconds ago its present counter was first observed here; 0 if just now."""
        now, last = self._clock.ticks(), self._observed
        self._observed = {
            holder: last[holder] if holder in last and last[holder][0] == beat else (beat, now)
            for holder, beat in beats.items()
        }
        return {holder: now - since for holder, (_, since) in self._observed.items()}
