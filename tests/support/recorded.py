"""A session without a server, for adapters: it counts what is recorded, and refuses more than its plan."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, cast

from purse.client import SessionHandle
from purse.errors import ClientError


@dataclass
class Part:
    """One entry of the plan."""

    event: Mapping[str, Any]
    count: int
    recorded: int = 0


class Recorded:
    """A stand-in for a session's handle.

    Parameters
    ----------
    plan : each event and the number of its planned answers
    epsilon, delta : of the reservation
    """

    class Exhausted(ClientError):
        """The plan has too few answers left."""

    def __init__(
        self, plan: Sequence[tuple[Mapping[str, Any], int]], epsilon: float = 1.0, delta: float = 1e-6
    ) -> None:
        self.id = "session"
        self.plan = [Part(event, count) for event, count in plan]
        self.session = SimpleNamespace(reserved=SimpleNamespace(epsilon=epsilon, delta=delta))
        self.total = 0

    @property
    def handle(self) -> SessionHandle:
        """The stand-in, typed as a handle."""
        return cast(SessionHandle, self)

    def record(self, steps: int = 1, event: int = 0) -> None:
        """Record answers, or raise `Exhausted`."""
        part = self.plan[event]
        if part.recorded + steps > part.count:
            raise self.Exhausted("session_exhausted")
        part.recorded += steps
        self.total += steps
