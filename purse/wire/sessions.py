"""Sessions: budget that is reserved for answers computed outside of this service."""

from typing import Annotated, Any, Literal

from pydantic import Field

from purse.wire.base import Identifier, Name, Timestamp, Title, Wire

SessionState = Literal["open", "closed", "expired"]
MOST_EVENTS = 64
MOST_STEPS = 10**9
LIFETIME_SECONDS = (60, 31 * 86_400)
USUAL_LIFETIME_SECONDS = 86_400

EventIndex = Annotated[int, Field(ge=0, lt=MOST_EVENTS, description="Position of the event in the plan, from 0 on.")]


class PlannedEvent(Wire):
    """One kind of answers of a session's plan."""

    event: dict[str, Any]
    """One answer, with the names of dp-accounting. Noise multipliers are relative to the per-record bound."""
    count: int
    """Number of planned answers of this kind."""
    recorded: int
    """Number of answers that the analyst's program has recorded."""
    refundable: bool
    """Whether closing the session refunds the answers that were not recorded."""


class SessionCharge(Wire):
    """A charge to a dataset's budget for a session, and its guarantee."""

    share: float | None
    """Fraction of the budget, read right after the charge. Null if it would reveal charges of other analysts."""
    epsilon: float
    """Epsilon of these answers alone, at `delta`."""
    delta: float
    """Delta of the guarantee."""


class Session(Wire):
    """A reservation of budget for answers that the analyst's program computes outside of this service."""

    id: Identifier
    dataset: Identifier
    dataset_name: Name
    """Name of the dataset."""
    analyst: Name
    """Name of the analyst who opened the session."""
    title: Title | None = None
    """Title that the analyst chose."""
    state: SessionState
    """`open` accepts steps. `closed` was ended by its analyst or a steward. `expired` ended by time."""
    plan: list[PlannedEvent]
    """The planned answers. Together they can never be exceeded."""
    noise_multiplier: float | None = None
    """Noise std over the per-record bound, if the session was opened with a privacy target."""
    reserved: SessionCharge
    """The charge when the session was opened."""
    charged: SessionCharge
    """The charge now: the reservation while the session is open, and what remains after the refund when it has ended.
    An expired session keeps the whole reservation. After a refund, its epsilon holds if the number of answers was
    fixed in advance. If answers decided when to stop, the guarantee is that of `reserved`."""
    created_at: Timestamp
    expires_at: Annotated[Timestamp, Field(description="Time at which an open session expires, UTC, ISO 8601.")]
    ended_at: Timestamp | None = None
    """Time when it was closed or expired."""

    def __repr__(self) -> str:
        answers = f"{sum(part.recorded for part in self.plan):,} of {sum(part.count for part in self.plan):,} recorded"
        return f"<session {self.id}: {self.state}, {answers}>"


class StepsRequest(Wire):
    """Answers of one planned event, to be recorded before the program computes them."""

    steps: Annotated[int, Field(ge=1, le=MOST_STEPS, description="Number of answers.")] = 1
    event: EventIndex = 0
