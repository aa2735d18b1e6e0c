"""Who holds a running job, and whether that holder lives: told by a counter that it moves, on the observer's own clock.

A holder is one life of one dispatcher. It moves its counter, `holders.beat`, every few seconds. Whoever looks for work
remembers since when, on its own monotonic clock, it has seen each counter stand still: for `lease_seconds`, and the
holder is dead, as is one without a counter. So no two clocks are ever compared, none can be set, any number of
dispatchers may look at one database, and none takes itself for dead.

A holder that is taken for dead and wakes again does no harm: what it held has another attempt then, and each of its
steps asks for its own (`store.held`).
"""

from collections.abc import Mapping

from app.persistence.clock import Clock
from app.persistence.session import new_id


class Holder:
    """One life of one dispatcher, and what it has seen of the others.

    Parameters
    ----------
    clock : measures how long a counter has stood still
    lease_seconds : for how long one may
    """

    def __init__(self, clock: Clock, lease_seconds: float) -> None:
        self.id = new_id("run")
        self._clock, self._lease = clock, lease_seconds
        self._seen: dict[str, tuple[int, float]] = {}

    def living(self, beats: Mapping[str, int]) -> list[str]:
        """Those who are not dead, this one among them, now that the counters stand so."""
        now, before = self._clock.ticks(), self._seen
        self._seen = {
            other: before[other] if other in before and before[other][0] == beat else (beat, now)
            for other, beat in beats.items()
        }
        alive = {other for other, (_, since) in self._seen.items() if now - since < self._lease}
        return sorted(alive | {self.id})

    def stillest(self, beats: Mapping[str, int]) -> float:
        """The seconds for which the stillest of these counters has not moved, as far as this one has seen."""
        self.living(beats)
        return max((self._clock.ticks() - since for _, since in self._seen.values()), default=0.0)
